package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/fxamacker/cbor/v2"
)

// maxName is the longest name of an attribute, in bytes.
const maxName = 255

// A Key names an attribute of a session and fixes the type of its values, so
// that what is read has the type of what was written. Its zero value is not
// usable. Two keys of one name are one attribute.
type Key[T any] struct {
	name string
}

// NewKey returns the key for the attribute name, which has 1 to 255 bytes; it
// panics if it has not. Declare keys once, as variables beside the type of
// their values.
func NewKey[T any](name string) Key[T] {
	if name == "" || len(name) > maxName {
		panic(fmt.Sprintf("session: NewKey(%q): a name has 1 to %d bytes", name, maxName))
	}
	return Key[T]{name: name}
}

// Name returns the name of the attribute.
func (k Key[T]) Name() string { return k.name }

// Get returns the attribute's value, and whether there is one that is a T. The
// value is decoded for this call: to change it changes nothing in the session
// until it is [Key.Set] again (SESS-4), not even for the next Get.
//
//nolint:ireturn // T is what the caller asked for
func (k Key[T]) Get(s *Session) (T, bool) {
	v, ok, err := k.Load(s)
	return v, ok && err == nil
}

// Load is Get for those who need to know why there is no value: ok is whether
// the session has the attribute, and err, which names it, is why its value is
// not a T.
//
//nolint:ireturn // T is what the caller asked for
func (k Key[T]) Load(s *Session) (v T, ok bool, err error) {
	raw, ok := s.get(k.name)
	if !ok {
		return v, false, nil
	}
	if err := s.m.codec.dec.Unmarshal(raw, &v); err != nil {
		var zero T
		return zero, true, fmt.Errorf("session: get %q: %w", k.name, err)
	}
	return v, true, nil
}

// Set stores v, and creates the session if there is none. v is encoded now
// (SESS-5): what is done to it later is not saved, also not if it is a pointer
// (H16, I13); call Set again. Setting what is already there, byte by byte, is
// no change and costs nothing.
//
// The error names the attribute: v cannot be encoded (SESS-6: it is or holds a
// channel or a function), the session would become larger than
// [Config.MaxBytes] ([ErrTooLarge]), there is none and the reply has begun, or
// it was invalidated by this request
// ([ErrInvalidated], then [Session.Create] makes a new one). Nothing else of the session is affected (H25).
func (k Key[T]) Set(s *Session, v T) error {
	raw, err := s.m.codec.encode(v)
	if err == nil {
		err = s.set(k.name, raw)
	}
	if err != nil {
		return fmt.Errorf("session: set %q: %w", k.name, err)
	}
	return nil
}

// Pop returns the attribute's value as [Key.Get] does and removes it: for what is
// to be shown once (a flash value), by the request after the one that set it. Of
// requests at the same time each may get it, unless they are [Exclusive].
//
//nolint:ireturn // T is what the caller asked for
func (k Key[T]) Pop(s *Session) (T, bool) {
	v, ok := k.Get(s)
	if ok {
		k.Remove(s)
	}
	return v, ok
}

// Lost returns the value of the attribute that c says was lost, and whether there
// is one that is a T: so that it can be merged into what won, or kept elsewhere. There
// is none if the key is not among [Conflict.Keys], or if so much was lost at once
// that the values did not fit into memory (64 MiB wait for [Config.OnConflict]).
//
//nolint:ireturn // T is what the caller asked for
func (k Key[T]) Lost(c Conflict) (v T, ok bool) {
	raw, ok := c.lost.Get(k.name)
	if !ok || c.codec.dec.Unmarshal(raw, &v) != nil {
		var zero T
		return zero, false
	}
	return v, true
}

// Remove removes the attribute. It creates no session.
func (k Key[T]) Remove(s *Session) { s.Remove(k.name) }

// ErrTooLarge is returned when a session would exceed [Config.MaxBytes].
var ErrTooLarge = errors.New("the session would become too large")

// ErrInvalidated is returned when a session that was invalidated, by this
// request or another, is to be changed.
var ErrInvalidated = errors.New("the session was invalidated")

// codec is how values become bytes: CBOR (RFC 8949), by the rules of its
// section 4.2.1, so that equal values are equal bytes.
type codec struct {
	enc cbor.EncMode
	dec cbor.DecMode
}

// encode returns the bytes of v. A byte string, which may be long, is copied once
// instead of twice.
func (c *codec) encode(v any) ([]byte, error) {
	b, ok := v.([]byte)
	if !ok || b == nil {
		return c.enc.Marshal(v)
	}
	const major = 2 << 5 // RFC 8949 section 3.1; the length follows in its shortest form
	raw := make([]byte, 0, 9+len(b))
	switch n := uint64(len(b)); {
	case n < 24:
		raw = append(raw, major|byte(n))
	case n <= math.MaxUint8:
		raw = append(raw, major|24, byte(n))
	case n <= math.MaxUint16:
		raw = binary.BigEndian.AppendUint16(append(raw, major|25), uint16(n))
	case n <= math.MaxUint32:
		raw = binary.BigEndian.AppendUint32(append(raw, major|26), uint32(n))
	default:
		raw = binary.BigEndian.AppendUint64(append(raw, major|27), n)
	}
	return append(raw, b...), nil
}

func newCodec() (codec, error) {
	opts := cbor.CoreDetEncOptions()
	opts.Time = cbor.TimeRFC3339Nano
	enc, err := opts.EncMode()
	if err != nil {
		return codec{}, err
	}
	dec, err := cbor.DecOptions{
		DupMapKey:        cbor.DupMapKeyEnforcedAPF,
		IndefLength:      cbor.IndefLengthForbidden,
		MaxNestedLevels:  32,
		MaxArrayElements: 1 << 20,
		MaxMapPairs:      1 << 20,
		IntDec:           cbor.IntDecConvertSignedOrFail,
	}.DecMode()
	if err != nil {
		return codec{}, err
	}
	return codec{enc, dec}, nil
}
