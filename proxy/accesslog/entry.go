package accesslog

import "time"

// An Entry is what is known of a request at its end. Slices are not retained. An
// empty field is left out of JSON and is "-" in the other formats.
type Entry struct {
	Time   time.Time // of the first byte
	ID     []byte    // of the request
	Client []byte    // address, without port

	// The request as it was sent; Query with its question mark. Empty in a request
	// that could not be read.
	Method, Host, Path, Query []byte
	Protocol                  string // such as "HTTP/1.1"
	Referer, UserAgent        []byte

	Status int   // as the client got it; 499 if it was gone
	Bytes  int64 // of the reply's body
	Body   int64 // of the request's body

	LB       string // the worker that balanced it
	Route    []byte // which its session named first
	Member   string // that was asked last
	Attempts int
	Resends  int    // attempts after a member had got the request
	Failure  string // how the last attempt failed, in one word; empty if it did not
	Err      error  // of Failure

	// Sessions are the names under which the session may stand in a query, in
	// lower case.
	Sessions []string

	Phases
}

// Phases are where the time of a request went. Their sum is not more than Total;
// what is missing is the time that the reply's body took.
type Phases struct {
	Total   time.Duration
	Read    time.Duration // until the head was there, and the body as far as it was waited for
	Wait    time.Duration // until the last attempt began: queues, pauses, attempts that failed
	Connect time.Duration // to the member, probe included; zero over a kept connection
	Send    time.Duration // of what was there of the request
	First   time.Duration // until the head of the reply was there
}
