package urimap

import (
	"bytes"

	"github.com/understudy-lb/understudy/proxy/properties"
)

// Config says how [Parse] reads a uriworkermap.properties. Its zero value is
// usable.
type Config struct {
	// Getenv looks up variables that the file does not define. It may be nil.
	Getenv func(string) (string, bool)

	// Workers are those of worker.list, the only ones that a rule may name. If
	// nil, the names in rules are not checked, and nothing is known of them.
	Workers []Worker

	// Mounts are the mount directives of workers.properties. Their rules come
	// behind those of the file that are equal in rank.
	Mounts []Mount

	// Hosts are names of hosts that have rules of their own: those whose pattern
	// begins with '/' and the name. They count for requests to this host, and no
	// others do.
	Hosts []string

	// EncodedSlashes accepts %2F in a path (httpd's AllowEncodedSlashes). It is
	// then both, a slash and not a slash: the path is mapped only if that makes
	// no difference. If false, such a path is not mapped.
	EncodedSlashes bool

	// RejectUnsafe is mod_jk's RejectUnsafeURI: a path that has a '%' or a '\'
	// when it is decoded is not mapped.
	RejectUnsafe bool
}

// A Worker is what a [Map] has to know of one worker of worker.list.
type Worker struct {
	Name     string
	Balancer bool     // of type lb: some extensions have no meaning for others
	Members  []string // of a balancer: the names of its workers, not their routes
}

// A Mount is the mount directive of a listed worker.
type Mount struct {
	File     string // where the directive stands, for problems
	Line     int
	Worker   string
	Patterns []string // as in the file, but without '|' and extensions
}

// Source is where a rule comes from.
type Source uint8

// The sources, in the order in which rules of equal rank are tried.
const (
	FromFile  Source = iota // uriworkermap.properties
	FromMount               // directive mount of workers.properties
)

// String returns the name that mod_jk's status worker shows.
func (s Source) String() string {
	if s == FromMount {
		return "worker definition"
	}
	return "uriworkermap"
}

// A Rule maps the paths that match its pattern to a worker, or exempts them
// from being mapped. A line with '|' is two rules.
type Rule struct {
	File   string
	Line   int // from 1
	Source Source
	Text   string // the pattern as the file has it: "-!/app|/*"

	// Host is the host whose requests the rule is for, one of Config.Hosts; empty:
	// all that are not among these.
	Host string

	// Pattern is what a normalised path is compared with: it begins with '/',
	// '*' is any sequence of bytes, '?' is any one byte.
	Pattern string

	// Worker is the name of the worker; of an exclusion also "*", which means
	// all of them. The worker may not exist.
	Worker string

	Exclude    bool       // '!': what matches goes to nobody
	Disabled   bool       // '-': has no effect
	Extensions Extensions // of an exclusion: none

	place    int    // in Map.Rules
	glob     glob   // of the whole pattern
	excluded *index // exclusions of this worker, those for "*" not included; may be nil
}

// Outcome is what becomes of a path.
type Outcome uint8

// The outcomes. Only Mapped goes to a worker.
const (
	// Unmapped: no rule matches. Also the path "*" of OPTIONS.
	Unmapped Outcome = iota
	// Mapped: to the worker of the first rule that matches.
	Mapped
	// Excluded: a rule matches, but so does an exclusion for its worker.
	Excluded
	// Malformed: the path does not begin with '/', goes above the root, or has
	// an escape that is none or is %00.
	Malformed
	// Ambiguous: bytes of the path mean one thing to some servers and another
	// thing to others, and that would make a difference. See the package comment.
	Ambiguous
	// TooLong: more than 4095 bytes are left when the path is normalised.
	TooLong
	// EncodedSlash: %2F, unless Config.EncodedSlashes is set.
	EncodedSlash
	// Unsafe: '%' or '\', if Config.RejectUnsafe is set.
	Unsafe
)

// A Match is what a [Map] says of a path.
type Match struct {
	Outcome Outcome
	Worker  string // of Mapped; else empty
	Rule    *Rule  // of Mapped and Excluded, the rule that decided; else nil. Not to be written to
}

// A Map is a uriworkermap.properties that has been read. Nothing in it changes
// any more, so it is safe for concurrent use; its fields are for reading.
type Map struct {
	Name     string
	Rules    []*Rule              // in the order in which they are tried, exclusions and disabled ones among them
	Problems []properties.Problem // by file and line

	encodedSlashes bool
	rejectUnsafe   bool

	mapping index // the rules that map
	always  index // the exclusions for all workers

	own   []*Rule         // those of Rules that are for the host of this map
	hosts map[string]*Map // maps of Config.Hosts; nil in one of these
}

// maxHost is the length of the longest name of a host, in bytes.
const maxHost = 253

// For returns the map for requests to host, which may have a port. It does not
// allocate.
func (m *Map) For(host []byte) *Map {
	if len(m.hosts) == 0 {
		return m
	}
	if i := bytes.LastIndexByte(host, ':'); i >= 0 && bytes.IndexByte(host[i:], ']') < 0 {
		host = host[:i]
	}
	host = bytes.TrimSuffix(host, []byte("."))
	var lower [maxHost]byte
	if len(host) > maxHost {
		return m
	}
	for i, c := range host {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	if of := m.hosts[string(lower[:len(host)])]; of != nil {
		return of
	}
	return m
}

// maxPath is the length of the longest path that is mapped, in bytes
// (mod_jk.md 5.5).
const maxPath = 4095

// A Scratch is room for the normal form of a path. It grows to what is needed, up
// to 16 KiB, and keeps that for the next one. Its zero value is ready. One
// goroutine at a time may use it.
type Scratch struct {
	buf []byte
}

// Match returns what is to become of a request for path, and whether that is to
// send it to a worker. The path is that of the request target as received:
// encoded, with its path parameters, without the query. It is neither changed nor
// retained, and what is forwarded is the caller's decision.
//
// Match allocates nothing but what a Scratch grows by. If s is nil, a path that is
// not normal costs one allocation.
func (m *Map) Match(path []byte, s *Scratch) (Match, bool) {
	var r Match
	if isPlain(path) {
		r = m.find(path)
	} else {
		r = m.readAndFind(path, s)
	}
	return r, r.Outcome == Mapped
}

// find returns what becomes of a path in normal form.
func (m *Map) find(path []byte) Match {
	if len(path) > maxPath {
		return Match{Outcome: TooLong}
	}
	r := m.mapping.first(path)
	if r == nil {
		return Match{}
	}
	x := m.always.first(path)
	if y := r.excluded.first(path); y != nil && (x == nil || y.place < x.place) {
		x = y
	}
	if x != nil {
		return Match{Outcome: Excluded, Rule: x}
	}
	return Match{Outcome: Mapped, Worker: r.Worker, Rule: r}
}

// readAndFind returns what becomes of a path as received. All readings of the
// path must agree.
func (m *Map) readAndFind(path []byte, s *Scratch) Match {
	doubts, o := m.survey(path)
	if o != Mapped {
		return Match{Outcome: o}
	}
	if s == nil {
		s = &Scratch{}
	}
	r := m.readings(&s.buf, path, doubts)
	if cap(s.buf) > maxScratch {
		s.buf = nil
	}
	return r
}

// maxScratch is how much a [Scratch] keeps, in bytes.
const maxScratch = 16 << 10

// readings looks at the path in every reading that the doubts allow. It grows
// buf to what it needs.
func (m *Map) readings(buf *[]byte, path []byte, doubts reading) Match {
	first := m.read(buf, path, doubts)
	for r := doubts; r != 0; {
		r = (r - 1) & doubts
		if m.read(buf, path, r) != first {
			return Match{Outcome: Ambiguous}
		}
	}
	return first
}

// read looks at the path in one reading.
func (m *Map) read(buf *[]byte, path []byte, r reading) Match {
	normal, ok := normalForm((*buf)[:0], path, r)
	*buf = normal[:0]
	if !ok {
		return Match{Outcome: Malformed}
	}
	return m.find(normal)
}
