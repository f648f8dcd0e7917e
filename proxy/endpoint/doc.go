// Package endpoint keeps the connections to one member: it dials, keeps what can
// be used again, looks at a kept connection before it writes to it, probes one
// that was idle, and limits how many there are.
//
// # What may be sent again
//
// [Endpoint.Send] takes the first bytes of a request, the head and as much of
// the body as was collected, and returns a connection that has taken them. Until
// a byte was written everything may be tried again, on another connection to the
// member (here) or on another member (package proxy). Afterwards nothing is
// repeated here: the [Failure] says what is known about how far the request got,
// and package proxy decides by design D8.
//
//	MaxConns in use          a queue, first come first served (queue.go)
//	take a kept connection   closed by the member, or bytes nobody asked for: drop it, take the next
//	  idle for long          OPTIONS *, or a CPING over AJP13; silence: drop all kept ones
//	else connect             at most ConnectTimeout
//	write                    no byte taken, kept: drop it, start again; new: a failed try
//	tries left               after RetryInterval once more
//
// An endpoint has no goroutine. While connections are kept a timer drops those
// that were idle for too long.
package endpoint
