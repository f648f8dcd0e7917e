package http1

import (
	"errors"
	"net/http"
)

// An Error says that a message breaks the rules of HTTP/1.1 or a limit. The
// connection it came from cannot be used for another message.
type Error struct {
	// Status is the answer to a client that sent the message: 400, 414, 417,
	// 431, 501 or 505. For a member's reply it is 502.
	Status int

	// Reason says which rule. It is our own text, never bytes of the message.
	Reason string
}

// Error returns the reason.
func (e *Error) Error() string { return "http1: " + e.Reason }

// ErrHTTP2 is what [Conn.ReadRequest] returns for the connection preface of
// HTTP/2 (RFC 9113 section 3.4): nothing has been consumed, [Conn.Detach]
// gives the connection and these bytes to a server of that protocol.
var ErrHTTP2 = errors.New("http1: the client speaks HTTP/2")

// ErrInterrupted is what a read returns after [Conn.Interrupt].
var ErrInterrupted = errors.New("http1: read interrupted")

// ErrTooLong is what [Body.Discard] returns when more than its limit is left.
var ErrTooLong = errors.New("http1: more body than the limit")

// Every refusal is made once, so that a flood of bad messages costs no memory.
var (
	errLineEnd      = bad("line does not end with CRLF")
	errControl      = bad("control byte in a line")
	errFolded       = bad("folded line")
	errNoColon      = bad("line without a colon")
	errFieldName    = bad("malformed field name")
	errRequestLine  = bad("malformed request line")
	errMethod       = bad("malformed method")
	errTarget       = bad("malformed request target")
	errScheme       = bad("scheme of the request target is not http or https")
	errNoVersion    = bad("request line without a version")
	errVersion      = &Error{http.StatusHTTPVersionNotSupported, "unsupported version of HTTP"}
	errNoHost       = bad("no Host")
	errHosts        = bad("several Host lines")
	errHost         = bad("malformed Host")
	errLengths      = bad("several Content-Length values")
	errLength       = bad("malformed Content-Length")
	errBothLengths  = bad("both Content-Length and Transfer-Encoding")
	errCodings      = bad("several Transfer-Encoding lines")
	errCoding       = bad("Transfer-Encoding is not exactly chunked")
	errCodingOld    = bad("Transfer-Encoding in HTTP/1.0")
	errCodingOther  = &Error{http.StatusNotImplemented, "unknown transfer coding"}
	errConnection   = bad("malformed Connection")
	errNominated    = bad("too many names in Connection")
	errExpectation  = &Error{http.StatusExpectationFailed, "unknown expectation"}
	errTargetLong   = &Error{http.StatusRequestURITooLong, "request line longer than the limit"}
	errHeadLong     = &Error{http.StatusRequestHeaderFieldsTooLarge, "head longer than the limit"}
	errHeadLines    = &Error{http.StatusRequestHeaderFieldsTooLarge, "more lines than the limit"}
	errStatusLine   = bad("malformed status line")
	errStatus       = bad("status outside 100 to 999")
	errChunkSize    = bad("malformed chunk size")
	errChunkLong    = bad("chunk line longer than the limit")
	errChunkExt     = bad("malformed chunk extension")
	errChunkEnd     = bad("chunk does not end with CRLF")
	errChunkPadding = bad("too much chunk framing for the data")
	errBodyLong     = &Error{http.StatusBadGateway, "more body than its Content-Length"}
	errBodyShort    = &Error{http.StatusBadGateway, "less body than its Content-Length"}
	errTrailerLong  = &Error{http.StatusRequestHeaderFieldsTooLarge, "trailer longer than the limit"}
)

func bad(reason string) *Error { return &Error{http.StatusBadRequest, reason} }

// badReply is e as the fault of a member: 502 to the client whatever the rule.
// It allocates, which a member's fault may.
func badReply(e *Error) *Error { return &Error{http.StatusBadGateway, e.Reason} }
