// Package proxy is the data plane: it takes the requests of clients to members,
// and survives what happens to members meanwhile.
//
// # The life of a request
//
// A listener of package frontend accepts a connection. HTTP/1 comes in by
// [Proxy.Serve] (http1.go), HTTP/2 by [Proxy.ServeHTTP] (http2.go); both are one
// pair of interfaces, request and reply, to everything that follows. The head is
// parsed by package http1 in either case, so that there is one set of checks.
// Then (proxy.go, serve):
//
//	read      read.go      the head as a member gets it (header.go), and the body if it
//	                       is short; a longer one is left to a pump (pump.go)
//	route     route.go     the worker that the path is mapped to, and the members that
//	                       the session names
//	balance   proxy.go     a lease on a member: primary, secondary, or another
//	exchange  exchange.go  one attempt at it: a reply's head, or a failure with a
//	                       name of its own
//	  ↺       failover.go  what becomes of the request: decide, a pure function
//	reply     reply.go     the rest of the reply to the client
//
// In the ordinary case that is one goroutine: client read, member write, member
// read, client write. The pump is a second one, for a body that its client still
// sends. A client that has gone away is noticed without one: whoever waits for a
// member looks at the client's connection after 50 ms, then less and less often,
// once a second in the end.
//
// # Sent again
//
// What no member has got goes to the next one, whatever its method and at once;
// what a member may have run is sent again once, if it is idempotent, and never to
// the last member (design D8; failover.go has it all). After a death that it may
// have caused it waits until gossip says that all sessions have copies again
// (resend.go). What members have worked at is tried again only as long as the lb's
// budget lasts (budget.go).
//
// For that a request is kept until a member's reply begins: in memory as far as
// [SpoolConfig] says, then, if it could be sent again at all, in a file (spool.go)
// that each piece goes to when the member has it. What there is no room for goes on
// all the same, and can be sent once. lb_retries has no effect: a round takes in
// every member once.
//
// # Tunnels
//
// Upgrade is passed on to members, and a 101 makes a tunnel of the two connections
// (tunnel.go), if it names what the client has asked for: from then on bytes go
// either way as they come, and the end of one side does not end the other one. Not
// passed on are HTTP, whose requests would escape all checks, and TLS. A tunnel
// ends when nothing has come for [Config.TunnelTimeout]; when either side, or the
// member's machine, is gone; and, once the proxy stops, when it has been quiet for
// a second. All the while it is a request in flight, and one of the member's
// connections (connection_pool_size). Over HTTP/2 there are none: a client that
// wants one speaks HTTP/1.1 (RFC 8441 is not announced). CONNECT is answered 405:
// this is no forward proxy.
//
// # Whose word is believed
//
// Understudy-Not-Executed is believed from members that gossip names, and, if the
// proxy has cookie keys, from all members of type http: they have the same keys.
// What begins with Understudy- never reaches a client, nor a member from one.
//
// # What goes on without requests
//
// Members come and go by [Proxy.SetMembers] (members.go). A member that keeps
// somebody waiting is asked on other connections whether it lives (vigil.go). All
// of that ends with [Proxy.Close].
package proxy
