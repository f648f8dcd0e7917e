package httpdconf

import (
	"io/fs"
	"os"

	"github.com/understudy-lb/understudy/proxy/properties"
)

// Bounds of a configuration.
const (
	maxDepth   = 16      // of includes, and of sections in each other
	maxFiles   = 1000    // files read
	maxText    = 8 << 20 // bytes of all files together, and of what is put in for variables
	maxEntries = 10_000  // names of directories looked at for wildcards
	maxRules   = 5000    // JkMount and JkUnMount, and ten times as many lines of rules in all
	maxServers = 1000    // virtual hosts, and ten times as many names of them
)

// Config says where [Read] looks. Its zero value is usable.
type Config struct {
	// FS has the files, by path without the first slash. If nil, it is the system's.
	FS fs.FS

	// Getenv looks up ${NAME} that no Define sets. It may be nil. The file envvars
	// beside the configuration, as Debian has it, is looked at before.
	Getenv func(string) (string, bool)
}

// A File is what a configuration says of mod_jk.
type File struct {
	ServerRoot  string     // unless set, where the configuration is
	WorkersFile string     // JkWorkersFile, absolute; "" without one
	Properties  []Property // JkWorkerProperty, in order: they come before the workers file
	Servers     []*Server  // the main server, and then the virtual hosts
	Flags       []Flag     // of proxy serve, that do what a directive does
	Problems    []properties.Problem
}

// A Property is a line of workers.properties within the configuration.
type Property struct {
	File string
	Line int
	Text string // name=value
}

// A Flag is one of proxy serve.
type Flag struct {
	File string
	Line int
	Text string
}

// A Server is the main server, or a virtual host.
type Server struct {
	File string // where it begins
	Line int
	Main bool

	Names     []string // ServerName, ServerAlias, without ports, in lower case
	MountFile string   // JkMountFile, absolute; "" without one
	Rules     []Rule   // JkMount, JkUnMount
	Copy      bool     // JkMountCopy: it has those of the main server too
}

// A Rule is a JkMount or JkUnMount, or a Location around one.
type Rule struct {
	File    string
	Line    int
	Pattern string // as in uriworkermap.properties, but without '!'
	Value   string // worker, perhaps with extensions
	Exclude bool
}

// Key returns what stands left of '=' in a uriworkermap.properties.
func (r Rule) Key() string {
	if r.Exclude {
		return "!" + r.Pattern
	}
	return r.Pattern
}

func systemFS() fs.FS { return os.DirFS("/") }

// Read reads the configuration that begins with the file at path, which is absolute.
//
// The File is never nil. The error, then a [*properties.SyntaxError], says that
// something in it cannot be read, so that more may be missing than the problems say.
func Read(path string, cfg Config) (*File, error) {
	if cfg.FS == nil {
		cfg.FS = systemFS()
	}
	r := newReader(path, cfg)
	r.environment()
	r.file(path, properties.Problem{File: path})
	r.finish()
	r.out.ServerRoot = r.root
	r.out.Problems = r.problems.Sorted()
	return r.out, r.problems.Err()
}
