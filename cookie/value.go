package cookie

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Limits of a value, in bytes. Longer ones are neither written nor read.
const (
	// MaxID is the longest session id. SESS-46 has 52 characters.
	MaxID = 64

	// MaxName is the longest name of a member, as mod_jk has it for routes.
	MaxName = 63

	// MaxLength is the longest value. What [Codec.Encode] writes has at most
	// 460 bytes until the year 2286, when seconds gain a digit.
	MaxLength = 512
)

// none stands in the place of the secondary if there is none.
const none = "NONE"

// sep parts the fields of a signed value. No field may hold it.
const sep = '!'

// An Epoch tells under which pair of members a session was when the cookie was
// written. Which member of the pair may change it, and what a cookie of an older
// epoch is worth, is decided elsewhere: here it is three numbers.
type Epoch struct {
	N    uint32 // raised with every change of the pair
	Boot uint32 // boot of the member that raised N
	Seq  uint32 // number of that member's reign in this boot
}

// String returns e as it stands in a cookie, such as "3.1893456000.1".
func (e Epoch) String() string { return string(e.append(nil)) }

func (e Epoch) append(b []byte) []byte {
	b = append(strconv.AppendUint(b, uint64(e.N), 10), '.')
	b = append(strconv.AppendUint(b, uint64(e.Boot), 10), '.')
	return strconv.AppendUint(b, uint64(e.Seq), 10)
}

// ParseEpoch undoes [Epoch.String]. It accepts nothing that String does not
// return: no signs, blanks or leading zeros, no number from 2^32 on.
func ParseEpoch(s string) (Epoch, error) {
	e, ok := parseEpoch([]byte(s))
	if !ok {
		return Epoch{}, fmt.Errorf("cookie: epoch %.40q: want counter.boot.number, each decimal and below 2^32", s)
	}
	return e, nil
}

func parseEpoch(b []byte) (Epoch, bool) {
	var n [3]uint32
	for i := range n {
		digits := b
		if i < len(n)-1 {
			dot := bytes.IndexByte(b, '.')
			if dot < 0 {
				return Epoch{}, false
			}
			digits, b = b[:dot], b[dot+1:]
		}
		var ok bool
		if n[i], ok = parseNumber(digits); !ok {
			return Epoch{}, false
		}
	}
	return Epoch{N: n[0], Boot: n[1], Seq: n[2]}, true
}

func parseNumber(b []byte) (uint32, bool) {
	if len(b) == 0 || len(b) > 10 || b[0] == '0' && len(b) > 1 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		if c < '0' || '9' < c {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return uint32(n), n <= math.MaxUint32
}

// A Value is what a signed session cookie says.
type Value struct {
	ID        string // names the session: 1 to [MaxID] of A-Z a-z 0-9 '-' '_'
	Primary   string // name of the member that owns the session, see [ValidName]
	Secondary string // name of the member that holds its copy; "" if none does
	Epoch     Epoch
}

// check says why v cannot be written. It names no session id: an error may be
// logged, and whoever knows an id has the session.
func (v Value) check() error {
	if !validID([]byte(v.ID)) {
		return fmt.Errorf("Value.ID (%d bytes) is no session id: want 1 to %d letters, digits, '-' and '_'", len(v.ID), MaxID)
	}
	if err := checkName(v.Primary); err != nil {
		return fmt.Errorf("Value.Primary: %w", err)
	}
	if v.Secondary != "" {
		if err := checkName(v.Secondary); err != nil {
			return fmt.Errorf("Value.Secondary: %w", err)
		}
	}
	return nil
}

// append appends the content to sign.
func (v Value) append(b []byte) []byte {
	secondary := v.Secondary
	if secondary == "" {
		secondary = none
	}
	b = append(append(b, v.ID...), sep)
	b = append(append(b, v.Primary...), sep)
	b = append(append(b, secondary...), sep)
	return v.Epoch.append(b)
}

// A View is a [Value] in place: its slices point into the request or into the
// [Scratch] of the call that returned it, and hold until either is used again.
// They must not be written to.
type View struct {
	ID        []byte
	Primary   []byte
	Secondary []byte // empty if no member holds a copy
	Epoch     Epoch
}

// Value returns a copy of v that lasts.
func (v View) Value() Value {
	return Value{ID: string(v.ID), Primary: string(v.Primary), Secondary: string(v.Secondary), Epoch: v.Epoch}
}

// parseContent takes the signed content apart, in place.
func parseContent(b []byte) (View, bool) {
	var v View
	for _, field := range []*[]byte{&v.ID, &v.Primary, &v.Secondary} {
		i := bytes.IndexByte(b, sep)
		if i < 0 {
			return View{}, false
		}
		*field, b = b[:i:i], b[i+1:]
	}
	var ok bool
	if v.Epoch, ok = parseEpoch(b); !ok {
		return View{}, false
	}
	if string(v.Secondary) == none {
		v.Secondary = nil
	} else if !validName(v.Secondary) {
		return View{}, false
	}
	if !validID(v.ID) || !validName(v.Primary) {
		return View{}, false
	}
	return v, true
}

func validID(b []byte) bool {
	if len(b) == 0 || len(b) > MaxID {
		return false
	}
	for _, c := range b {
		if !isAlnum(c) && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// ValidName reports why name cannot be the name of a member, or nil. A name has
// 1 to [MaxName] bytes, all of them letters and digits of ASCII, '-', '_', '.' or
// '~': the characters that mean nothing in a cookie (RFC 6265 section 4.1.1),
// a path parameter (RFC 3986 section 2.3), a list of routes ("a:b"), a member's
// identity ("name#boot") and the signed content ("id!primary"). It does not
// begin or end with a dot, and is not the word NONE (design D1).
func ValidName(name string) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("cookie: %w", err)
	}
	return nil
}

func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("name is empty, want 1 to %d bytes", MaxName)
	case len(name) > MaxName:
		return fmt.Errorf("name %.20q… has %d bytes, want 1 to %d", name, len(name), MaxName)
	case name == none:
		return fmt.Errorf("name %q means that there is no secondary: choose another", name)
	case name[0] == '.' || name[len(name)-1] == '.':
		return fmt.Errorf("name %q begins or ends with a dot", name)
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return r >= 0x80 || !isUnreserved(byte(r)) }); i >= 0 {
		return fmt.Errorf("name %q has %q: want letters, digits, '-', '_', '.' and '~'", name, []rune(name[i:])[0])
	}
	return nil
}

// validName is checkName for the hot path: it makes no text.
func validName(b []byte) bool {
	if len(b) == 0 || len(b) > MaxName || string(b) == none || b[0] == '.' || b[len(b)-1] == '.' {
		return false
	}
	for _, c := range b {
		if !isUnreserved(c) {
			return false
		}
	}
	return true
}

// isUnreserved is RFC 3986 section 2.3.
func isUnreserved(c byte) bool {
	return isAlnum(c) || c == '-' || c == '_' || c == '.' || c == '~'
}

func isAlnum(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
