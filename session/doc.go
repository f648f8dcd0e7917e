// Package session keeps HTTP sessions that survive the death of the member that
// holds them.
//
// A session lives in memory on its primary, and every change of it is on its
// secondary before the client can know of it. Which members those are stands in
// the session's cookie (package cookie), so that a proxy, or the members among
// themselves, find them. That is the default; [Mode] has what else a reply can
// wait for, or not.
//
//	sessions, err := session.New(session.Config{…})
//	http.Serve(listener, sessions.Handler(mux))
//
//	var visits = session.NewKey[int]("visits")
//
//	func hello(w http.ResponseWriter, r *http.Request) {
//		s := session.FromContext(r.Context())
//		n, _ := visits.Get(s)
//		if err := visits.Set(s, n+1); err != nil { … }
//	}
//
// # The life of a request
//
//	middleware.go   the reference in cookie or path → begin
//	driver.go       Request → the session's machine (package owner): this member
//	                is the primary, or becomes it, or refuses (Not-Executed)
//	session.go      the handler reads, and notes what it changes
//	response.go     the reply is held back …
//	flush.go        … Flush or Return → the machine: changes applied, key by key
//	queue.go        (asynchronous modes: what is not sent yet)
//	driver.go       the machine's Updates → links.go → package peer → the secondary
//	links.go        the secondary's Ack → the machine → Reply
//	middleware.go   the cookie, if the pair or epoch is new; the reply leaves
//
// # The life of a member
//
// New lists the members with package peer, which connects to each of them. A
// connection counts once both have compared the sessions that concern the two
// (links.go). When all have, the member is ready (loop.go), and announces it.
// The ends of connections are told to every session that they concern, so that
// requests wait for none. When a member is lost, drains, or comes, the restorer
// (restore.go) goes through all sessions, one by one and no faster than allowed:
// each gets a copy again, or is taken over, without a request. Sessions that were
// not used for their idle time-out, or are older than their lifetime, end on all
// members (sweep.go); each reckons by its own clock, and clocks may differ.
//
// A member that has as many sessions as it may (limits.go) makes no new ones and
// says so; those that exist go on. One that has no room for a copy says so, and
// the next in rank is asked.
//
// # Events
//
// [Config.OnEvent] and [Config.OnConflict] are told by a goroutine of their own,
// in order, with no lock held (events.go): a listener may do what it likes but
// wait for Close, and no request waits for a listener.
//
// # What survives what
//
//	one member dies              everything
//	both of a pair at once       that session is lost; its client gets a new one, and
//	                             Session.Lost says so
//	a link between two is cut    the pair changes; the wait is at most AckTimeout, once
//	the network splits           both sides go on; at the heal the one that changed more
//	                             wins, and what the other had accepted is told to
//	                             Config.OnConflict
//
// # Locks
//
// Complete, outer first: Session.mu → reborn.mu → Manager.births → entry.mu → link.mu → those of
// package peer. shard.mu, timers.mu, restorer.mu, graves.mu, events.mu, links.mu and Manager.mu are leaves. None is
// held across I/O or a call of the application; a request that waits for another
// member holds none.
package session
