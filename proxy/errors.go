package proxy

import (
	"errors"
	"net/http"
	"os"

	"github.com/understudy-lb/understudy/proxy/http1"
)

// ErrClosed is returned by [Proxy.Serve] when no further request can be read
// from the connection: the client or this proxy has said so, or something broke.
// It is the ordinary end of a connection, and the caller closes it.
var ErrClosed = errors.New("proxy: connection ends")

// ErrLinger is like [ErrClosed], for a client that may still be sending: the
// caller ends the connection with [http1.Conn.Linger], so that the client can read
// its reply.
var ErrLinger = errors.New("proxy: connection ends, and more may come")

// errOwn is the cause of failNoWorker where a worker of type status answers.
var errOwn = errors.New("proxy: a status worker answers this itself")

// errNoWorker is the cause of failNoWorker.
var errNoWorker = errors.New("proxy: the rule's worker does not exist")

// statusClientGone is logged for a request whose client went away before its
// reply was complete. It is nginx's number, and never sent.
const statusClientGone = 499

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// classifyBody says what the end of a request's body with err means.
func (x *exchange) classifyBody(err error) failure {
	if e, ok := errors.AsType[*http1.Error](err); ok {
		if e.Status == http.StatusRequestEntityTooLarge {
			return failTooLarge
		}
		return failClient
	}
	switch {
	case isTimeout(err) && x.overdue():
		return failOverdue
	case isTimeout(err):
		return failSlow
	case errors.Is(err, errSpool):
		return failSpool
	}
	return failGone
}
