// Package worker reads workers.properties, the file in which mod_jk's users
// describe their servers and balancers, and says what is wrong with it.
//
// Past this package every time is a [time.Duration] and every name is resolved:
// variables, references, deprecated names and defaults are worked in.
//
// # Grammar
//
// It is mod_jk's (mod_jk.md 1), and it is not that of Java's properties:
//
//	file      = *line
//	line      = [ name "=" value ] [ "#" comment ]      blanks around each are stripped
//	name      = "worker." worker "." directive
//	          | "worker.list" | "worker.maintain"
//	          | anything else                            a variable
//	value     = text and $(name)                         further "=" belong to it
//
// '#' begins a comment wherever it stands. There are no escapes, no quotes, no
// continued lines and no empty values. A line longer than 8191 bytes is read as
// several. $(name) is a property that stands above, else an environment variable,
// else itself.
//
// A second line with one name adds to a list (those marked + below), joins with
// "*" (marked *, and variables), or else replaces the first.
//
// worker.a.reference=worker.b gives worker a whatever worker b has or inherits and
// a itself has not.
//
// # Values
//
//	int    digits, then perhaps k (1024) or m (1048576); what follows is ignored
//	bool   1, on, t…, y… or 0, off, f…, n…
//	enum   the first letter decides, or a digit
//	list   separated by blanks and commas
//	text   at most 63 bytes, where it is a name
//
// What mod_jk can make nothing of is its default. All of that is a warning here,
// and mod_jk's value is kept (design.md D10); in a worker of type=http it is an
// error.
//
// # Directives
//
// Workers are of type lb (a balancer), ajp (ajp13, ajp14, ajp12), http or status.
// This version runs lb, ajp13, http and status; the other types are read, and are an
// error where they would be used.
//
//	directive                   type   unit   default          meaning
//	worker.list             +   list          ajp13            workers that URIs can be mapped to
//	worker.maintain         *   int    s      60               how often load values decay; 0: never, and no recovery by time
//
//	type                        enum          ajp13            exact: http, lb, ajp13, ajp14, ajp12, status
//	reference                   text                           prefix of the worker to inherit from
//	mount                   +   list                           URI patterns of a listed worker: rules, see package urimap
//
//	of ajp and http:
//	host                        text          localhost        name, or IP literal without brackets; http: required, and brackets are no error
//	port                        int           8009             0: provisioned, never used; http: required
//	source                      text                           local address; http: an IP literal
//	prefer_ipv6                 bool          false            of several addresses IPv6 ones first
//	socket_timeout              int    s      0: no limit      one read from or write to the member
//	socket_connect_timeout      int    ms     see below        the TCP connect; 0: the system's limit
//	socket_keepalive            bool          false            TCP keep-alive
//	socket_buffer               int    bytes  0: the system's  send and receive buffers of the socket
//	max_packet_size             int    bytes  8192             ajp only
//	secret                      text                           ajp only; of an lb: for members that have none
//	secretkey               *   text                           ajp14 only
//	connection_pool_size        int           no limit         requests in flight, one connection each (mod_jk: number of threads)
//	connection_pool_minsize     int           (size+1)/2       idle connections that are not closed
//	connection_pool_timeout     int    s      0: never         idle connections are closed after this
//	connection_acquire_timeout  int    ms     retries*interval wait for a free connection; 0 is one try (mod_jk: none)
//	connection_ping_interval    int    s      0: never         probe of connections that were idle for so long
//	ping_mode                   letters       none             C, P, I, A: see connect_timeout, prepost_timeout, connection_ping_interval
//	ping_timeout                int    ms     10000            what ping_mode gives these three
//	connect_timeout             int    ms     0                ajp: CPING after connecting; http: see below
//	prepost_timeout             int    ms     500 when idle    probe before a request is sent; see below
//	reply_timeout               int    ms     0: no limit      silence of the member before or in a reply
//	retries                     int           2                tries on this member, the first included
//	retry_interval              int    ms     100              pause between them; negative: none
//	recovery_options            bits          see below        what is not sent again: 1 after sending, 2 after headers;
//	                                                           4 close if the client broke; 8 HEAD, 16 GET in spite of 1
//	fail_on_status          +   ints          none             statuses that are failures; negative: the member stays in service
//	busy_limit                  int           0: none          requests in flight at which no more are sent, nor wait
//
//	of a member of an lb:
//	lbfactor                    int           1                share of the load
//	route                       text          worker's name    by which sessions name it
//	activation                  enum          A                active (A), D disabled (its sessions only), S stopped
//	distance                *   int           0                members with the lowest are used while one of them can be
//	domain                      text          route up to '.'  members that stand in for each other
//	redirect                    text                           route to fail over to, before the domain; also a hot standby
//
//	of lb:
//	balance_workers         +   list          required         the members
//	sticky_session              bool          true             go to the member that the session names
//	sticky_session_force        bool          false            or to nobody: 503
//	method                      enum          R                request (R), S session, N next, T traffic, B busyness; by whole name: p2c, least-time, rendezvous
//	lock                        enum          O                no difference in one process
//	retries                     int           2                rounds over the members
//	lb_retries                  int           2                members tried in one round, if it is set; else all
//	retry_interval              int    ms     100              pause between rounds
//	recover_time                int    s      60               how long a failed member is left alone
//	error_escalation_time       int    s      recover_time/2   how long failures under load are tolerated; 0: not
//	max_reply_timeouts          int           0                reply time-outs that are tolerated
//	session_cookie              text          JSESSIONID       the session's cookie
//	session_path                text          ;jsessionid      the session's path parameter, with its ';'
//	set_session_cookie          bool          false            give a client that has no session here a cookie with its member's route
//	session_cookie_path         text          /                the path of that cookie
//
//	of status (mod_jk.md 2.7):
//	css                         text                           address of a style sheet for its pages
//	read_only                   bool          false            it changes nothing
//	user                    +   list          everybody        who may look: by Basic authentication, with the admin token as password
//	user_case_insensitive       bool          false            names of users in any case
//	good                    +   list          a.o,a.i,a.b,a.r  which members it calls good: activation, state, or both
//	bad                     +   list          s,e              and bad; the others are degraded
//	prefix                      text          worker           of names in mime=prop
//	ns                          text          jk:              of elements in mime=xml; "-": none
//	xmlns                       text          see worker.go    namespace attribute; "-": none
//	doctype                     text                           what stands behind the XML header
//
//	deprecated, with a warning: balanced_workers * (balance_workers), cachesize
//	(connection_pool_size), cache_timeout (connection_pool_timeout), jvm_route
//	(route), disabled and stopped (activation); and ignored: recycle_timeout,
//	local_worker, local_worker_only, sysprops, stdout, stderr, mx, ms, class_path,
//	bridge, jvm_lib, ld_path, cmd_line, native_lib
//
// # Times
//
// In mod_jk the TCP connect is bounded by socket_connect_timeout, and by
// socket_timeout if that is not set, else by the system, which may take minutes:
// here it is then 500 ms. connect_timeout is the wait for the answer to a CPING that
// follows the connect. HTTP has no CPING, and an operator who writes connect_timeout
// for an HTTP server means the connect. So for type=http it comes between the two.
//
// prepost_timeout asks for a probe on the connection before each request, as in
// mod_jk: a CPING, or OPTIONS * for type=http. If it is not set, a connection that
// was idle for more than a second is probed, for 500 ms. prepost_timeout=0 switches
// probes off.
//
// Without recovery_options a request that was sent is sent again only if its
// method is idempotent (design.md D8); mod_jk sends everything again.
package worker
