package http1

import "bytes"

// framer collects the lines that frame a body (RFC 9112 section 6).
type framer struct {
	length  int64 // of Content-Length; -1 without one
	chunked bool
}

func (f *framer) contentLength(v []byte) *Error {
	if f.length >= 0 || bytes.IndexByte(v, ',') >= 0 {
		return errLengths // equal ones too: what is said twice was merged by somebody
	}
	n, ok := parseLength(v)
	if !ok {
		return errLength
	}
	f.length = n
	return nil
}

func (f *framer) transferEncoding(v []byte) *Error {
	switch {
	case f.chunked:
		return errCodings
	case EqualFold(v, "chunked"):
		f.chunked = true
		return nil
	case IsToken(v) && !containsFold(v, "chunked") && !EqualFold(v, "identity"):
		return errCodingOther
	}
	return errCoding
}

func (f *framer) check(minor uint8) *Error {
	if f.chunked && f.length >= 0 {
		return errBothLengths
	}
	if f.chunked && minor == 0 {
		return errCodingOld // RFC 9112 section 6.1
	}
	return nil
}

func containsFold(b []byte, lower string) bool {
	for i := 0; i+len(lower) <= len(b); i++ {
		if EqualFold(b[i:i+len(lower)], lower) {
			return true
		}
	}
	return false
}
