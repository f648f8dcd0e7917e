// Package urimap reads uriworkermap.properties, the file that says which paths
// mod_jk sends to which worker, and matches paths against it.
//
// # Grammar
//
// Lines are those of workers.properties (mod_jk.md 1.1, 5.1):
//
//	file      = *line
//	line      = [ pattern "=" value ] [ "#" comment ]   blanks around each are stripped
//	pattern   = [ "-" ] [ "!" ] path [ "|" suffix ]
//	value     = worker *( ";" extension "=" text )      and $(name)
//
// '#' begins a comment wherever it stands. There are no escapes, no quotes and no
// continued lines, so a pattern can have neither '=' nor '#'. $(name) is what
// stands right of an earlier "name=" of this file, else an environment variable,
// else itself. A second line with one and the same pattern replaces the first.
//
//	-path       the rule is shown, but has no effect
//	!path       an exclusion: what matches is not sent to that worker, or to none if it is "*"
//	path|suffix two rules: path, and path with suffix behind it
//	*           in a path: any bytes, '/' among them, or none
//	?           in a path: any one byte
//
// A path begins with '/'. Without '*' and '?' it must be equal to that of the
// request: /app does not match /app/, and /app/* does not match /app. Case
// matters. The query is never compared.
//
// # Order
//
// The rule with most slashes is tried first, then the longest, then one of the
// file before one of a mount directive (mod_jk.md 5.3). What mod_jk leaves open is
// decided by the place in the file, after rules without wildcards. The first rule
// that matches counts. If an exclusion for its worker or for "*" matches too, the
// request is not mapped; no other rule gets it (5.4).
//
// # Hosts
//
// mod_jk has a table of rules for each virtual host of httpd. Here the names of hosts
// that have rules of their own are a setting (Config.Hosts): those rules begin with
// the name, /www.example.org/app/* (as rules of mod_jk for IIS do). A request to such
// a host goes by its rules alone, any other request by all other rules alone. To a
// real mod_jk these lines are rules for paths that nobody asks for.
//
// # Paths
//
// A path is compared in its normal form (mod_jk.md 5.5): escapes are decoded, once;
// path parameters, from ';' to the next '/', are cut off; several slashes are one;
// "." and ".." are resolved. What goes above the root, or has a broken escape or
// %00, gets 400. What has %2F (httpd's default) or more than 4095 bytes is not
// mapped.
//
// mod_jk forwards what it has decoded. We forward the path as received, and so
// the member decides what it means. Servers differ in three things: whether %3B
// begins a parameter, whether %2F is a slash (if it is accepted at all), and
// whether a backslash is one. A path with one of these is compared in all the ways
// in which it can be read, and gets 400 if they do not all lead to the same rule.
// So /app/..%3B/manager is not served by a rule for /app/*, nor does it get around
// an exclusion.
//
// # Extensions
//
// Blanks around ';' are ignored, with a warning; mod_jk takes them for a part of
// the names. Numbers are read up to the first character that is no digit; of
// several numbers of one name the last counts, of the others the first.
//
//	extension             value    meaning
//	reply_timeout         int, ms  instead of the worker's; 0: no limit, negative: not set
//	sticky_ignore         0, 1     1: balance as if there were no session
//	fail_on_status        ints     instead of the worker's list; negative: the member stays in service
//	stateless             0, 1     1: the request creates no session: round robin, whatever the load
//	active                names    these members of the balancer are active for the request
//	disabled              names    or disabled, which is stronger
//	stopped               names    or stopped, which is stronger still
//	use_server_errors     int      from this status on, the proxy's own content (--error-page)
//	session_cookie        text     instead of the balancer's
//	session_path          text     instead of the balancer's, with its ';'
//	set_session_cookie    0, 1     1 switches it on for the rule
//	session_cookie_path   text     instead of the balancer's; mod_jk forgets it
//
// # Where we differ from mod_jk
//
//	pattern *.jsp        is /*.jsp, with a warning; mod_jk refuses the rule
//	line worker.x.y=z    is always an error; mod_jk refuses all rules if it does not know the directive
//	session_path=;sid    keeps its ';'
//	rules by host name   ours, see above
//	%3B, %2F, backslash  see above
package urimap
