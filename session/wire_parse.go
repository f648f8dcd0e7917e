package session

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unique"

	"github.com/understudy-lb/understudy/cookie"
	"github.com/understudy-lb/understudy/session/owner"
)

// errKind is the cause of an ErrWire from a message that a later program may
// send, and that this one can do without.
var errKind = errors.New("unknown kind")

// parseMessage decodes what a format of that version made. It copies what it
// returns, so frame may be used again. Names and keys, of which there are few, are
// shared among all messages. Every error is an ErrWire.
func parseMessage(frame []byte, version uint8) (id string, m owner.Message, err error) {
	if len(frame) > 0 && owner.MessageKind(frame[0]&kindMask) > owner.Compare {
		return "", owner.Message{}, fmt.Errorf("%w: %w", ErrWire, errKind)
	}
	d := decoder{b: frame, version: version}
	id = d.message(&m)
	if d.bad != "" {
		return "", owner.Message{}, fmt.Errorf("%w: %s", ErrWire, d.bad)
	}
	return id, m, nil
}

// A decoder takes fields off a message. After the first that makes no sense
// bad says what, and all others are zero.
type decoder struct {
	b       []byte
	version uint8
	bad     string
}

// message decodes a whole message and returns its id.
func (d *decoder) message(m *owner.Message) string {
	first := d.u8()
	m.Kind = owner.MessageKind(first & kindMask)
	m.Full, m.NewCopy, m.Now = first&flagFull != 0, first&flagNewCopy != 0, first&flagNow != 0
	d.checkFlags(first, m)
	id := d.id()
	switch m.Kind {
	case owner.Update:
		d.update(m, first)
	case owner.Ack:
		m.Serial, m.About = d.u32(), d.epoch()
		m.Header.Version, m.Header.Dead = d.ordinal(), first&flagDead != 0
	case owner.Refused:
		m.Serial, m.About, m.Reason = d.u32(), d.epoch(), d.reason()
		m.Header, m.Expiry = d.header(), d.expiry()
	case owner.Ask:
		m.Tag = d.tag()
		if len(d.b) > 0 && d.version >= looseVersion {
			m.Gone = d.members(maxMembers)
		}
	case owner.Answer:
		m.Tag, m.Header, m.Expiry, m.Connected = d.tag(), d.header(), d.expiry(), d.members(maxMembers)
	case owner.Take:
		m.Tag, m.Cookie = d.tag(), d.epoch()
		if m.Claim = owner.Claim(d.u8()); m.Claim > owner.Disowned {
			d.fail("claim")
		}
		m.Over, m.About = d.member(), d.epoch()
	case owner.Grant:
		m.Tag, m.Header = d.tag(), d.header()
		m.Attrs, m.Expiry = d.snapshot(first), d.expiry()
	case owner.No:
		m.Tag, m.Header, m.Expiry = d.tag(), d.header(), d.expiry()
	case owner.Forward:
		m.Tag, m.Cookie, m.About = d.tag(), d.epoch(), d.epoch()
		m.Changes = d.changes()
		m.Bases, m.Expiry = d.bases(len(m.Changes)), d.expiry()
	case owner.Forwarded:
		m.Tag, m.Reason, m.Header, m.Expiry = d.tag(), d.reason(), d.header(), d.expiry()
	case owner.Compare:
		m.Header, m.Expiry, m.About = d.header(), d.expiry(), d.epoch()
	default:
		d.fail("kind")
	}
	return id
}

// checkFlags refuses flags where they mean nothing.
func (d *decoder) checkFlags(first byte, m *owner.Message) {
	switch {
	case first&flagDead != 0 && m.Kind != owner.Ack && (d.version < looseVersion || m.Kind != owner.Grant && !m.Full),
		(m.Full || m.NewCopy) && m.Kind != owner.Update,
		m.NewCopy && !m.Full,
		m.Now && m.Kind != owner.Ask && m.Kind != owner.Answer && m.Kind != owner.Compare:
		d.fail("flags")
	}
}

func (d *decoder) update(m *owner.Message, first byte) {
	m.Serial = d.u32()
	if m.Full {
		if m.Header = d.header(); !m.Header.Held() {
			d.fail("update without a header")
		}
		m.Base = d.before(m.Header.Version)
		m.Attrs = d.snapshot(first)
	} else {
		m.Header.Epoch, m.Header.Version = d.epoch(), d.ordinal()
		m.Header.Start = d.before(m.Header.Version)
		m.Base = d.before(m.Header.Version)
		m.Changes = d.changes()
	}
	m.Expiry = d.expiry()
}

func (d *decoder) fail(what string) {
	if d.bad == "" {
		d.bad = what
	}
	d.b = nil
}

// bytes takes n bytes, which are part of the frame.
func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail("cut short")
		return nil
	}
	var b []byte
	b, d.b = d.b[:n], d.b[n:]
	return b
}

func (d *decoder) u8() byte {
	if b := d.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (d *decoder) u64() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || n > 1 && d.b[n-1] == 0 {
		d.fail("number")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) u32() uint32 {
	v := d.u64()
	if v > 1<<32-1 {
		d.fail("number")
		return 0
	}
	return uint32(v)
}

// signed takes a time, a zigzag varint that is not zero: a zero has its own spelling.
func (d *decoder) signed() int64 {
	u := d.u64()
	if u == 0 {
		d.fail("zero")
	}
	v := int64(u>>1) ^ -int64(u&1)
	if v > maxTime || v < -maxTime {
		d.fail("time")
		return 0
	}
	return v
}

func (d *decoder) id() string {
	n := d.u8()
	if n == rawID {
		return base64.RawURLEncoding.EncodeToString(d.bytes(idBytes))
	}
	b := d.bytes(uint64(n))
	if n > cookie.MaxID || !plainID(b) || len(b) == base64.RawURLEncoding.EncodedLen(idBytes) {
		d.fail("id")
		return ""
	}
	return string(b)
}

// ordinal takes a version, which counts.
func (d *decoder) ordinal() uint64 {
	v := d.u64()
	if v > maxVersion {
		d.fail("version")
		return 0
	}
	return v
}

// before takes how far something is behind a version.
func (d *decoder) before(version uint64) uint64 {
	behind := d.u64()
	if behind > version {
		d.fail("number below zero")
		return 0
	}
	return version - behind
}

func (d *decoder) tag() owner.Tag { return owner.Tag{Op: d.u64(), Step: d.u32()} }

func (d *decoder) reign() owner.Reign {
	var g owner.Reign
	if b := d.bytes(4); len(b) == 4 {
		g.Boot = binary.BigEndian.Uint32(b)
	}
	g.Seq = d.u32()
	return g
}

func (d *decoder) epoch() owner.Epoch {
	n := d.u64()
	if n == 0 {
		return owner.Epoch{}
	}
	if n > 1<<32 {
		d.fail("epoch")
		return owner.Epoch{}
	}
	e := owner.Epoch{N: uint32(n - 1), Reign: d.reign()}
	if e.IsZero() {
		d.fail("epoch")
	}
	return e
}

func (d *decoder) reason() owner.Reason {
	r := owner.Reason(d.u8())
	if r > owner.Invalidated {
		d.fail("reason")
	}
	return r
}

func (d *decoder) header() (h owner.Header) {
	flags := d.u8()
	if flags == 0 || d.bad != "" {
		return h
	}
	known := byte(headerHeld | headerDead | headerLineage)
	if d.version >= looseVersion {
		known |= headerLoose
	}
	if flags&headerHeld == 0 || flags&^known != 0 {
		d.fail("header flags")
		return h
	}
	h.Dead, h.Loose = flags&headerDead != 0, flags&headerLoose != 0
	h.Epoch, h.Version = d.epoch(), d.ordinal()
	h.Start = d.before(h.Version)
	if h.Epoch.N > maxCounter {
		d.fail("epoch")
	}
	h.Primary, h.Copies = d.member(), d.members(owner.MaxCopies)
	if twice(h.Copies) {
		d.fail("a copy twice") // it would acknowledge once
	}
	if flags&headerLineage != 0 {
		h.Lineage = d.lineage()
	}
	if d.bad != "" || !h.Held() {
		d.fail("header")
		return owner.Header{}
	}
	return h
}

func (d *decoder) lineage() []owner.Run {
	n := d.u8()
	if n == 0 || n > owner.MaxRuns {
		d.fail("lineage")
		return nil
	}
	runs := make([]owner.Run, n)
	for i := range runs {
		runs[i] = owner.Run{From: d.u32(), Reign: d.reign()}
		if i > 0 && runs[i].From <= runs[i-1].From {
			d.fail("lineage")
		}
	}
	return runs
}

func (d *decoder) member() owner.Member {
	n := d.u8()
	if n == 0 {
		return owner.Member{}
	}
	name := d.text(uint64(n))
	if cookie.ValidName(name) != nil {
		d.fail("name")
	}
	p := owner.Member{Name: name}
	if b := d.bytes(4); len(b) == 4 {
		p.Boot = binary.BigEndian.Uint32(b)
	}
	return p
}

// twice reports whether somebody is there twice.
func twice(ps []owner.Member) bool {
	for i := range ps {
		if slices.Contains(ps[:i], ps[i]) {
			return true
		}
	}
	return false
}

// members takes at most so many.
func (d *decoder) members(most uint64) []owner.Member {
	n := d.u64()
	if n == 0 {
		return nil
	}
	if n > most || n > uint64(len(d.b)) {
		d.fail("count of members")
		return nil
	}
	ps := make([]owner.Member, n)
	for i := range ps {
		if ps[i] = d.member(); ps[i].IsZero() {
			d.fail("member")
		}
	}
	return ps
}

// text takes a string of which there are few different ones.
func (d *decoder) text(n uint64) string {
	return unique.Make(string(d.bytes(n))).Value()
}

// count takes a count of things that are at least two bytes each, and returns
// it with the capacity to begin with.
func (d *decoder) count() (n uint64, begin int) {
	n = d.u64()
	if n > uint64(len(d.b))/2 {
		d.fail("count")
		return 0, 0
	}
	return n, int(min(n, 256))
}

// snapshot takes the attributes of a message that begins with first.
func (d *decoder) snapshot(first byte) owner.Attrs {
	if first&flagPacked != 0 && d.bad == "" {
		return d.packed()
	}
	return d.attrs()
}

func (d *decoder) attrs() owner.Attrs {
	n, begin := d.count()
	if n == 0 {
		return nil
	}
	as := make(owner.Attrs, 0, begin)
	for range n {
		a := owner.Attr{Key: d.text(d.u64())}
		a.Value = bytes.Clone(d.bytes(d.u64())) // slices.Clone of nothing would keep the frame
		if d.bad != "" {
			return nil
		}
		as = append(as, a)
	}
	if !as.Valid() {
		d.fail("order of attributes")
	}
	return slices.Clip(as)
}

func (d *decoder) changes() owner.Changes {
	n, begin := d.count()
	if n == 0 {
		return nil
	}
	cs := make(owner.Changes, 0, begin)
	for range n {
		c := owner.Change{Key: d.text(d.u64())}
		if length := d.u64(); length == 0 {
			c.Removed = true
		} else {
			c.Value = bytes.Clone(d.bytes(length - 1))
		}
		if d.bad != "" {
			return nil
		}
		cs = append(cs, c)
	}
	return cs
}

// bases takes what goes with so many changes.
func (d *decoder) bases(changes int) []uint64 {
	n := d.u64()
	if n == 0 {
		return nil
	}
	if n != uint64(changes) || n > uint64(len(d.b))/8 {
		d.fail("bases")
		return nil
	}
	bs := make([]uint64, n)
	for i := range bs {
		bs[i] = binary.BigEndian.Uint64(d.bytes(8))
	}
	return bs
}

func (d *decoder) expiry() (x owner.Expiry) {
	flags := d.u8()
	if flags > expiryIdle|expiryAccess|expiryEnd {
		d.fail("expiry")
		return x
	}
	if flags&expiryIdle != 0 {
		x.Idle = d.signed()
	}
	if flags&expiryAccess != 0 {
		x.Access = d.signed()
	}
	if flags&expiryEnd != 0 {
		x.End = d.signed()
	}
	return x
}
