package worker

import "strings"

// role is what a worker is used as; a directive has an effect in some roles only.
type role uint8

const (
	asAJP role = 1 << iota
	asHTTP
	asLB
	asMember // of a balancer, in addition to asAJP or asHTTP
	asStatus
	asGlobal // worker.<directive>, without a worker's name

	asServer = asAJP | asHTTP
	asListed = asAJP | asHTTP | asLB | asStatus
)

// repeat is what a second line with the same name does (mod_jk.md 1.4).
type repeat uint8

const (
	replaces  repeat = iota // the last one wins
	appends                 // joined with a comma: a list
	joinsStar               // joined with "*", which reads as the first integer
)

// A directive is one row of doc.go's table.
type directive struct {
	roles  role
	repeat repeat
	old    string // if not empty it is deprecated, and this is what to write instead or what becomes of it
}

// directiveOf returns the directive that a name ends in: what follows the last
// dot. Only this suffix decides whether a name is legal (mod_jk.md 1.2).
func directiveOf(key string) (name string, d directive, ok bool) {
	name = key[strings.LastIndexByte(key, '.')+1:]
	d, ok = directives()[name]
	return name, d, ok
}

// repeatOf returns how repeated lines named key combine, and with which separator.
// Like mod_jk it looks at the end of the name alone, so it covers variables too.
func repeatOf(key string) (rep repeat, sep string) {
	name, d, ok := directiveOf(key)
	switch {
	case !strings.Contains(key, "."):
		return joinsStar, "*"
	case name == "class_path", name == "ld_path":
		return joinsStar, ":"
	case name == "cmd_line":
		return joinsStar, " "
	case !ok || d.repeat == joinsStar:
		return joinsStar, "*"
	case d.repeat == appends:
		return appends, ","
	}
	return replaces, ""
}

const ignored = "it is ignored"

// directives returns the table of every legal directive: sections 2 and 1.8 of
// mod_jk.md. It is a function and not a variable so that nobody writes to it; the
// map is built once.
var directives = directiveTable() //nolint:gochecknoglobals // a read-only table behind a function

func directiveTable() func() map[string]directive {
	all := map[string]directive{
		"list":     {roles: asGlobal, repeat: appends},
		"maintain": {roles: asGlobal, repeat: joinsStar},

		"type":      {roles: asListed},
		"reference": {roles: asListed},
		"mount":     {roles: asListed, repeat: appends},

		"host":                   {roles: asServer},
		"port":                   {roles: asServer},
		"source":                 {roles: asServer},
		"prefer_ipv6":            {roles: asServer},
		"socket_timeout":         {roles: asServer},
		"socket_connect_timeout": {roles: asServer},
		"socket_keepalive":       {roles: asServer},
		"socket_buffer":          {roles: asServer},
		"max_packet_size":        {roles: asAJP},
		"secret":                 {roles: asAJP | asLB},
		"secretkey":              {roles: asAJP, repeat: joinsStar},

		"connection_pool_size":       {roles: asServer},
		"connection_pool_minsize":    {roles: asServer},
		"connection_pool_timeout":    {roles: asServer},
		"connection_acquire_timeout": {roles: asServer},
		"connection_ping_interval":   {roles: asServer},

		"ping_mode":        {roles: asServer},
		"ping_timeout":     {roles: asServer},
		"connect_timeout":  {roles: asServer},
		"prepost_timeout":  {roles: asServer},
		"reply_timeout":    {roles: asServer},
		"retries":          {roles: asServer | asLB},
		"retry_interval":   {roles: asServer | asLB},
		"recovery_options": {roles: asServer},
		"fail_on_status":   {roles: asServer, repeat: appends},
		"busy_limit":       {roles: asServer},

		"lbfactor":   {roles: asMember},
		"distance":   {roles: asMember, repeat: joinsStar},
		"domain":     {roles: asMember},
		"route":      {roles: asMember},
		"redirect":   {roles: asMember},
		"activation": {roles: asMember},

		"balance_workers":       {roles: asLB, repeat: appends},
		"sticky_session":        {roles: asLB},
		"sticky_session_force":  {roles: asLB},
		"method":                {roles: asLB},
		"lock":                  {roles: asLB},
		"lb_retries":            {roles: asLB},
		"recover_time":          {roles: asLB},
		"error_escalation_time": {roles: asLB},
		"max_reply_timeouts":    {roles: asLB},
		"session_cookie":        {roles: asLB},
		"session_path":          {roles: asLB},
		"set_session_cookie":    {roles: asLB},
		"session_cookie_path":   {roles: asLB},

		"css":                   {roles: asStatus},
		"read_only":             {roles: asStatus},
		"user":                  {roles: asStatus, repeat: appends},
		"user_case_insensitive": {roles: asStatus},
		"good":                  {roles: asStatus, repeat: appends},
		"bad":                   {roles: asStatus, repeat: appends},
		"prefix":                {roles: asStatus},
		"ns":                    {roles: asStatus},
		"xmlns":                 {roles: asStatus},
		"doctype":               {roles: asStatus},

		"balanced_workers":  {roles: asLB, repeat: joinsStar, old: "write balance_workers"},
		"cachesize":         {roles: asServer, old: "write connection_pool_size"},
		"cache_timeout":     {roles: asServer, old: "write connection_pool_timeout"},
		"recycle_timeout":   {roles: asServer, old: ignored + "; write connection_pool_timeout"},
		"jvm_route":         {roles: asMember, old: "write route"},
		"disabled":          {roles: asMember, old: "write activation=D"},
		"stopped":           {roles: asMember, old: "write activation=S"},
		"local_worker":      {roles: asMember, old: ignored + "; distance is its successor"},
		"local_worker_only": {roles: asLB, old: ignored + "; sticky_session_force is its successor"},
	}
	for _, name := range []string{"sysprops", "stdout", "stderr", "mx", "ms", "class_path", "bridge", "jvm_lib", "ld_path", "cmd_line", "native_lib"} {
		all[name] = directive{roles: asListed, repeat: joinsStar, old: ignored + ": type=jni is gone"}
	}
	return func() map[string]directive { return all }
}
