package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/understudy-lb/understudy/proxy/http1"
)

// A Kind says in which phase an attempt at a member failed, and how
// (seeds.md 4.5, cases A to H; mod_jk.md 4.2).
type Kind uint8

// The kinds. Up to Unsent nothing of the request has reached the member.
const (
	None           Kind = iota
	Closed              // the endpoint was closed
	Canceled            // the context ended before anything was sent
	Left                // the client went away while its request waited for its turn
	Busy                // the turn did not come within AcquireTimeout, or the queue was full or dismissed
	Refused             // the member's machine refused the connection, or reset it at once
	ConnectTimeout      // no connection within ConnectTimeout
	Unreachable         // any other reason not to get one: no such name, no route
	ProbeFailed         // connected, but no answer to the probe; Err is os.ErrDeadlineExceeded if the member was silent
	Unsent              // the write failed before its first byte

	WriteMidway // the write failed after some bytes; a reply may be there all the same
	Dropped     // the connection ended before a whole reply head
	TimedOut    // no byte of the reply for ReplyTimeout or SocketTimeout
	Malformed   // the reply is not HTTP/1.1 or not AJP13, or ambiguous, or over a limit
	Cut         // the reply's head was there, then the rest of it failed
	Interrupted // Conn.Interrupt ended the wait for the reply
)

// NothingSent reports whether no byte of the request has left this machine, so
// that any method may go elsewhere (design D8).
func (k Kind) NothingSent() bool { return k <= Unsent }

// String is the word for logs and metrics.
func (k Kind) String() string {
	switch k {
	case None:
		return "none"
	case Closed:
		return "closed"
	case Canceled:
		return "canceled"
	case Left:
		return "left"
	case Busy:
		return "busy"
	case Refused:
		return "refused"
	case ConnectTimeout:
		return "connect-timeout"
	case Unreachable:
		return "unreachable"
	case ProbeFailed:
		return "probe-failed"
	case Unsent:
		return "unsent"
	case WriteMidway:
		return "write-midway"
	case Dropped:
		return "dropped"
	case TimedOut:
		return "timed-out"
	case Malformed:
		return "malformed"
	case Cut:
		return "cut"
	case Interrupted:
		return "interrupted"
	}
	return "unknown"
}

// A Failure is how an attempt at a member ended without a reply, or without the
// rest of one. Functions here return it as such and not as an error, so that
// nobody has to take it apart; nil means no failure.
type Failure struct { //nolint:errname // it is a result with a kind; functions do not return it as an error
	Kind    Kind
	Address string // of the member

	// Tries is how many connections were tried, the last one included.
	Tries int

	// Sent is how many bytes the operating system took, Received how many
	// bytes of the reply had come, both on the last connection.
	Sent, Received int64

	// Kept says that the request went over a kept connection. Dropped without a
	// byte received then most likely means that the member closed it at the
	// same moment (seeds.md 4.5, C2).
	Kept bool

	// Err is the cause.
	Err error
}

// Error says what failed, where and why.
func (f *Failure) Error() string {
	return fmt.Sprintf("endpoint: %s: %s: %v", f.Address, f.Kind, f.Err)
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

var (
	errClosed       = errors.New("endpoint: closed")
	errBusy         = errors.New("endpoint: all connections are in use")
	errDismissed    = errors.New("endpoint: the member is not to be used now")
	errLeft         = errors.New("endpoint: the client has gone away")
	errSilent       = fmt.Errorf("endpoint: no answer to the probe: %w", os.ErrDeadlineExceeded)
	errManyInterims = &http1.Error{Status: 502, Reason: "too many interim replies"}
)

// dialKind classifies the error of a dial.
func dialKind(ctx context.Context, err error) Kind {
	var timeout net.Error
	switch {
	case ctx.Err() != nil:
		return Canceled
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
		return Refused
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return ConnectTimeout
	}
	return Unreachable
}

// replyKind classifies the error of reading a reply whose head has not come.
func replyKind(err error) Kind {
	var rule *http1.Error
	switch {
	case errors.As(err, &rule):
		return Malformed
	case errors.Is(err, http1.ErrInterrupted):
		return Interrupted
	case errors.Is(err, os.ErrDeadlineExceeded):
		return TimedOut
	}
	return Dropped
}

// ended makes the end of a connection a phrase that an operator understands.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
