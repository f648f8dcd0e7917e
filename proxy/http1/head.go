package http1

import "bytes"

// Limits bounds what one message may make us hold. Zero fields have defaults.
type Limits struct {
	// HeadBytes is the longest head, start line and final CRLF included. If
	// zero, it is 64 KiB. The big size of [Buffers] is a second limit.
	HeadBytes int

	// HeadLines is the largest number of header lines. If zero, it is 200.
	HeadLines int

	// ChunkLine is the longest chunk-size line with its extensions, in bytes.
	// If zero, it is 256.
	ChunkLine int

	// TrailerBytes is the longest trailer. If zero, it is 8 KiB. It is at most
	// half of the ordinary size of [Buffers].
	TrailerBytes int
}

// withDefaults fills the zero fields.
func (l Limits) withDefaults() Limits {
	if l.HeadBytes == 0 {
		l.HeadBytes = 64 << 10
	}
	if l.HeadLines == 0 {
		l.HeadLines = 200
	}
	if l.ChunkLine == 0 {
		l.ChunkLine = 256
	}
	if l.TrailerBytes == 0 {
		l.TrailerBytes = 8 << 10
	}
	return l
}

// maxNominated bounds the names in Connection lines, whose comparison with all
// lines would otherwise be quadratic work for a small message.
const maxNominated = 32

// A Line is one header line of a [Head].
type Line struct {
	start, nameEnd, value, valueEnd, end uint32

	// Name is set if the parser knows the field name.
	Name Name

	// Alias is the Name that this one would have if its underscores were dashes;
	// NameOther if it has none. Members that make variables of field names, as
	// CGI does, cannot tell the two (nginx drops such lines altogether).
	Alias Name

	// Nominated says that a Connection line names this one as hop-by-hop (RFC
	// 9110 section 7.6.1). Whether that is honoured is up to the caller: some
	// fields cannot be nominated away.
	Nominated bool

	// Drop is for the caller: [Out.Lines] leaves this line out.
	Drop bool
}

// A Head is the header section of a message. Its lines and everything taken
// from them alias the buffer of the connection, until [Conn.Release].
type Head struct {
	buf   []byte
	pos   int // start of the first line that is not parsed yet
	scan  int // no line end between pos and scan
	first int // end of the start line; 0 before it is parsed

	// Lines in the order of the wire. The caller may set Drop.
	Lines []Line
}

// FieldName returns the name of line i as it was sent.
func (h *Head) FieldName(i int) []byte {
	l := &h.Lines[i]
	return h.buf[l.start:l.nameEnd]
}

// Value returns the value of line i without blanks around it.
func (h *Head) Value(i int) []byte {
	l := &h.Lines[i]
	return h.buf[l.value:l.valueEnd]
}

// Find returns the index of the first line called n at or after from, or -1.
func (h *Head) Find(n Name, from int) int {
	for i := from; i < len(h.Lines); i++ {
		if h.Lines[i].Name == n {
			return i
		}
	}
	return -1
}

// FindField is Find for a name that has no constant; the caller writes it in
// lower case.
func (h *Head) FindField(lower string, from int) int {
	for i := from; i < len(h.Lines); i++ {
		if EqualFold(h.FieldName(i), lower) {
			return i
		}
	}
	return -1
}

// Size returns the length of the head in bytes.
func (h *Head) Size() int { return h.pos }

func (h *Head) reset() {
	h.buf = nil
	h.pos, h.scan, h.first = 0, 0, 0
	h.Lines = h.Lines[:0]
}

// nextLine returns the next complete line of b, without its CRLF, and moves
// pos behind it; ok is false if the line is not complete yet.
func (h *Head) nextLine(b []byte) (line []byte, ok bool, err *Error) {
	i := bytes.IndexByte(b[h.scan:], '\n')
	if i < 0 {
		h.scan = len(b)
		return nil, false, nil
	}
	end := h.scan + i
	if end == h.pos || b[end-1] != '\r' {
		return nil, false, errLineEnd
	}
	line = b[h.pos : end-1]
	h.pos, h.scan = end+1, end+1
	return line, true, nil
}

// parseLines parses header lines of b from pos on. done says that the empty
// line was reached.
func (h *Head) parseLines(b []byte, most int) (done bool, err *Error) {
	for {
		start := h.pos
		line, ok, err := h.nextLine(b)
		if !ok {
			return false, err
		}
		if len(line) == 0 {
			return true, nil
		}
		if len(h.Lines) >= most {
			return false, errHeadLines
		}
		if err := h.addLine(line, start); err != nil {
			return false, err
		}
	}
}

func (h *Head) addLine(line []byte, start int) *Error {
	if line[0] == ' ' || line[0] == '\t' {
		return errFolded
	}
	colon := 0
	for colon < len(line) && isToken(line[colon]) {
		colon++
	}
	if colon == len(line) {
		return errNoColon
	}
	if line[colon] != ':' || colon == 0 {
		return errFieldName
	}
	v, w := colon+1, len(line)
	for v < w && (line[v] == ' ' || line[v] == '\t') {
		v++
	}
	for w > v && (line[w-1] == ' ' || line[w-1] == '\t') {
		w--
	}
	if !allText(line[v:w]) {
		return errControl
	}
	name, alias := lookup(line[:colon]), NameOther
	if name == NameOther {
		alias = lookupAlias(line[:colon])
	}
	h.Lines = append(h.Lines, Line{
		start:    uint32(start),
		nameEnd:  uint32(start + colon),
		value:    uint32(start + v),
		valueEnd: uint32(start + w),
		end:      uint32(start + len(line) + 2),
		Name:     name,
		Alias:    alias,
	})
	return nil
}

// options is what the Connection lines say.
type options struct{ close, keepAlive, upgrade bool }

// connection reads the Connection line i and marks the lines that it
// nominates. names counts them over all Connection lines.
func (h *Head) connection(i int, o *options, names *int) *Error {
	list := h.Value(i)
	for {
		item, rest := NextItem(list)
		if item == nil {
			return nil
		}
		list = rest
		if !IsToken(item) {
			return errConnection
		}
		switch {
		case EqualFold(item, "close"):
			o.close = true
		case EqualFold(item, "keep-alive"):
			o.keepAlive = true
		case EqualFold(item, "upgrade"):
			o.upgrade = true
		}
		if *names++; *names > maxNominated {
			return errNominated
		}
		for j := range h.Lines {
			if equalFoldBytes(item, h.FieldName(j)) {
				h.Lines[j].Nominated = true
			}
		}
	}
}
