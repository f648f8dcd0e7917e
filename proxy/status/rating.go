package status

import (
	"slices"
	"strings"
)

// rating is what a status worker thinks of a member (mod_jk.md 6.6).
type rating uint8

const (
	degraded rating = iota
	good
	bad
)

// String returns the rating as a class of the page.
func (r rating) String() string { return [...]string{"odd", "good", "bad"}[r] }

// rate says that a member is bad if one of the entries of bads holds, else good if
// one of goods does, else degraded.
func rate(m *Member, goods, bads []string) rating {
	for _, e := range bads {
		if holds(m, e) {
			return bad
		}
	}
	for _, e := range goods {
		if holds(m, e) {
			return good
		}
	}
	return degraded
}

// holds reports whether an entry of good or bad is true of m: one word, or two with
// a dot between them that both hold. Of a word the first letter counts.
func holds(m *Member, entry string) bool {
	first, second, two := strings.Cut(entry, ".")
	return applies(m, first) && (!two || applies(m, second))
}

func applies(m *Member, w string) bool {
	if w == "" {
		return false
	}
	is := func(states ...string) bool { return slices.Contains(states, m.State) }
	switch w[0] | 0x20 {
	case 'a':
		return m.Activation == "ACT"
	case 'd':
		return m.Activation == "DIS"
	case 's':
		return m.Activation == "STP"
	case 'o':
		return is("OK")
	case 'i', 'n':
		return is("OK/IDLE")
	case 'b':
		return is("OK/BUSY")
	case 'r':
		return is("ERR/REC", "ERR/PRB", "ERR/FRC")
	case 'e':
		return is("ERR")
	}
	return false
}
