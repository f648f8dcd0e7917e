// Package keyfile reads the files that --cluster-key and --cookie-keys name:
// one key a line, the newest first.
//
//	# made by proxy keygen, 2031-05-01
//	6c0f…64 hexadecimal digits…a9
//	# the one before
//	11d2…64 hexadecimal digits…07
//
// Blanks around a line are ignored; a blank line is skipped, and so is one
// that starts with '#'. The first key signs and encrypts, every key verifies
// and decrypts. To rotate, append the new key everywhere, then move it to the
// top everywhere, then remove the old one (design D11).
//
// A key is never used as it stands: [Key.Derive] makes one for each purpose.
// No error and no print verb shows any part of one.
package keyfile

import (
	"bufio"
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
)

// Limits of a key file. They are far above any real one, and bound what a
// wrong path (a log, a device) can cost.
const (
	maxKeys = 8
	maxLine = 4096 // bytes, with the newline
	maxFile = 1 << 16
)

// digits is the length of a key in its file, in hexadecimal digits.
const digits = 2 * len(Key{})

// A Key is a secret of 256 bits. Printed by package fmt, with whatever verb, it
// is "key(redacted)"; what has to be written to a file comes from [Key.Hex].
type Key [32]byte

// Read returns the keys of the file at path, newest first, at least one.
//
// Every complaint about the contents begins with path:LINE:, and names no part
// of a key. The other errors are those of the file system and wrap an
// [io/fs.PathError].
func Read(path string) ([]Key, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("keyfile: %w", err)
	}
	defer func() { _ = f.Close() }() // only read: nothing is lost
	return Parse(path, f)
}

// Parse is [Read] for contents that come from r. Errors call them name.
func Parse(name string, r io.Reader) ([]Key, error) {
	var (
		keys  []Key
		lines []int // lines[i] is where keys[i] stands
		n     = 1
	)
	in := bufio.NewReaderSize(io.LimitReader(r, maxFile+1), maxLine)
	for size := 0; ; n++ {
		line, err := in.ReadSlice('\n')
		if size += len(line); size > maxFile {
			return nil, fmt.Errorf("%s:%d: the file goes on after %d bytes: this is no key file", name, n, maxFile)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("%s:%d: the line goes on after %d bytes, want %d hexadecimal digits", name, n, maxLine, digits)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			key, fault := parseKey(line)
			if fault != nil {
				return nil, fmt.Errorf("%s:%d: %w", name, n, fault)
			}
			for i := range keys {
				if keys[i] == key {
					return nil, fmt.Errorf("%s:%d: the same key as in line %d: remove one of them", name, n, lines[i])
				}
			}
			if len(keys) == maxKeys {
				return nil, fmt.Errorf("%s:%d: more than %d keys: remove those that are out of use", name, n, maxKeys)
			}
			keys, lines = append(keys, key), append(lines, n)
		}
		if err != nil {
			break
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s:%d: no key up to the end of the file, want a line of %d hexadecimal digits (proxy keygen makes one)", name, n, digits)
	}
	return keys, nil
}

// parseKey reads one line without its blanks. The error says what is wrong by
// counts and columns only: the line is, or is meant to be, a secret.
func parseKey(line []byte) (Key, error) {
	var key Key
	for i, c := range line {
		switch {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', 'A' <= c && c <= 'F':
		case c == '#':
			return key, errors.New("a comment behind a key: give it a line of its own")
		default:
			return key, fmt.Errorf("character %d of %d is no hexadecimal digit, want %d digits and nothing else", i+1, len(line), digits)
		}
	}
	if len(line) != digits {
		return key, fmt.Errorf("has %d hexadecimal digits, want %d", len(line), digits)
	}
	_, err := hex.Decode(key[:], line)
	return key, err
}

// Generate returns a new random key.
func Generate() Key {
	var key Key
	_, _ = rand.Read(key[:]) // documented never to fail
	return key
}

// Hex returns the line that a key file holds for k, without its newline.
func (k Key) Hex() string { return hex.EncodeToString(k[:]) }

// Derive returns the 32 bytes that stand for k where it serves purpose, by
// HKDF with SHA-256 (RFC 5869). Keys of two purposes say nothing about each
// other. The purposes are "gossip", "replication", "cookie", and "tls
// ticket" with the number of a day.
func (k Key) Derive(purpose string) []byte {
	out, err := hkdf.Key(sha256.New, k[:], nil, "understudy "+purpose, len(k))
	if err != nil {
		panic("keyfile: " + err.Error()) // only for lengths beyond 255 blocks
	}
	return out
}

// Format keeps keys out of logs: it implements [fmt.Formatter] for all verbs.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "key(redacted)") }

// Loopback returns the key that everybody knows. Commands use it where every
// address is on loopback and no key was given, so that a first try needs no
// files; it protects nothing.
func Loopback() Key {
	return Key(sha256.Sum256([]byte("understudy: members on loopback without a key")))
}

// DeriveAll derives from each of keys what stands for it where it serves
// purpose, in the same order.
func DeriveAll(keys []Key, purpose string) [][]byte {
	derived := make([][]byte, len(keys))
	for i, k := range keys {
		derived[i] = k.Derive(purpose)
	}
	return derived
}
