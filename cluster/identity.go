package cluster

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"sync/atomic"
)

// Who dials a member must know whether it is that boot that answers, or another
// process that took the port. So the gossip port answers this question, in the
// clear but authenticated by the cluster key:
//
//	question  askByte, 16 bytes nonce, 32 bytes MAC of "ask" and nonce
//	answer    1 byte status, 2 bytes length, id, 32 bytes MAC of "answer",
//	          nonce, status and id
//
// MACs are HMAC-SHA256 under the first key of the asker; the answer is under
// the key that the question verified with, so that keys may be in rotation (D11).
// Without keys the MAC key is empty: then nothing is proven, as in all of
// gossip, which is why such a cluster stays on loopback.
const (
	askByte   = 'U'
	nonceSize = 16
	macSize   = sha256.Size
	maxID     = maxName + 1 + 10 // name#4294967295
)

// The status of an answer.
const (
	statusHere byte = 1
	statusLeft byte = 2 // on its way out
)

// An answer is who listens at an address.
type answer struct {
	id   string
	left bool
}

// An identity asks and answers for one member.
type identity struct {
	id      string
	keys    [][]byte // newest first; one empty key if there is none
	leaving atomic.Bool
}

func newIdentity(id string, keys [][]byte) *identity {
	if len(keys) == 0 {
		keys = [][]byte{nil}
	}
	return &identity{id: id, keys: keys}
}

var errNoIdentity = errors.New("cluster: what listens there is no member of this cluster")

// ask sends the question and reads the answer.
func (i *identity) ask(c io.ReadWriter) (answer, error) {
	key := i.keys[0]
	nonce := make([]byte, nonceSize)
	_, _ = rand.Read(nonce) // never fails
	q := append([]byte{askByte}, nonce...)
	if _, err := c.Write(append(q, mac(key, "ask", nonce)...)); err != nil {
		return answer{}, err
	}
	var status [1]byte
	if _, err := io.ReadFull(c, status[:]); err != nil {
		return answer{}, err
	}
	id, err := readFrame(c, maxID)
	if err != nil {
		return answer{}, err
	}
	sum := make([]byte, macSize)
	if _, err := io.ReadFull(c, sum); err != nil {
		return answer{}, err
	}
	if !hmac.Equal(sum, mac(key, "answer", nonce, status[:], id)) {
		return answer{}, errNoIdentity
	}
	if _, _, err := parseID(string(id)); err != nil {
		return answer{}, errNoIdentity
	}
	return answer{id: string(id), left: status[0] == statusLeft}, nil
}

// answer reads the rest of a question and answers it. It reports false if the
// question was not one of a member; then nothing was answered.
func (i *identity) answer(c net.Conn) bool {
	q := make([]byte, nonceSize+macSize)
	if _, err := io.ReadFull(c, q); err != nil {
		return false
	}
	nonce, sum := q[:nonceSize], q[nonceSize:]
	for _, key := range i.keys {
		if !hmac.Equal(sum, mac(key, "ask", nonce)) {
			continue
		}
		status := []byte{statusHere}
		if i.leaving.Load() {
			status[0] = statusLeft
		}
		a := append(status, 0, byte(len(i.id)))
		a = append(a, i.id...)
		a = append(a, mac(key, "answer", nonce, status[:1], []byte(i.id))...)
		_, err := c.Write(a)
		return err == nil
	}
	return false
}

// mac authenticates parts, each with its length so that none runs into the
// next.
func mac(key []byte, purpose string, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte{byte(len(purpose))})
	h.Write([]byte(purpose))
	for _, p := range parts {
		h.Write([]byte{byte(len(p))})
		h.Write(p)
	}
	return h.Sum(nil)
}
