package urimap

import "bytes"

// wildcards are the characters of a pattern that stand for others.
const wildcards = "*?"

// A glob is a pattern, or what is left of one behind its directory, cut at every
// '*'. Matching it takes one search for each piece between two of them: the
// leftmost place is as good as any other, because the '*' behind it takes what is
// left over. So there is no backtracking, whatever a client sends.
type glob struct {
	first  piece // s begins with it
	middle []piece
	last   piece // s ends with it; unused if there is no '*'
	star   bool
}

// A piece is a part of a pattern that has no '*'.
type piece struct {
	text []byte
	any  bool // it has a '?'
}

func newGlob(pattern string) glob {
	var all []piece
	for text := range bytes.SplitSeq([]byte(pattern), []byte{'*'}) {
		all = append(all, piece{text, bytes.IndexByte(text, '?') >= 0})
	}
	last := len(all) - 1
	g := glob{first: all[0], star: last > 0}
	if !g.star {
		return g
	}
	g.last = all[last]
	for _, p := range all[1:last] {
		if len(p.text) > 0 {
			g.middle = append(g.middle, p)
		}
	}
	return g
}

// matches reports whether the pattern describes all of s.
func (g *glob) matches(s []byte) bool {
	rest := len(s) - len(g.first.text) - len(g.last.text)
	if rest < 0 || rest > 0 && !g.star || !g.last.begins(s[len(s)-len(g.last.text):]) || !g.first.begins(s) {
		return false
	}
	s = s[len(g.first.text) : len(g.first.text)+rest]
	for i := range g.middle {
		at := g.middle[i].index(s)
		if at < 0 {
			return false
		}
		s = s[at+len(g.middle[i].text):]
	}
	return true
}

// begins reports whether s, which is long enough, begins with the piece.
func (p *piece) begins(s []byte) bool {
	if !p.any {
		return string(s[:len(p.text)]) == string(p.text)
	}
	for i, c := range p.text {
		if c != '?' && c != s[i] {
			return false
		}
	}
	return true
}

// index returns the first place of the piece in s, or -1.
func (p *piece) index(s []byte) int {
	if !p.any {
		return bytes.Index(s, p.text)
	}
	for i := 0; i+len(p.text) <= len(s); i++ {
		if p.begins(s[i:]) {
			return i
		}
	}
	return -1
}
