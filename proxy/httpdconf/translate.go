package httpdconf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/understudy-lb/understudy/proxy/properties"
)

// A Translation is what a [File] amounts to in the files that a proxy reads, and the
// flags of proxy serve that go with them.
type Translation struct {
	ServerRoot string // which a workers.properties has as $(ServerRoot)

	Workers string // content of a workers.properties
	Rules   string // content of a uriworkermap.properties; "" if nothing is mapped here
	Flags   []string

	// Problems are those of the configuration, and what the translation leaves out.
	Problems []properties.Problem
}

// Translate reads what the configuration at path, which is absolute, amounts to. The
// Translation is never nil; for the error see [Read].
func Translate(path string, cfg Config) (*Translation, error) {
	f, err := Read(path, cfg)
	t := translator{r: newReader(path, cfg), f: f, out: &Translation{}, loaded: map[string]string{}}
	t.out.ServerRoot = f.ServerRoot
	if cfg.FS == nil {
		t.r.cfg.FS = systemFS()
	}
	t.workers()
	t.rules()
	for _, flag := range f.Flags {
		t.out.Flags = append(t.out.Flags, flag.Text)
	}
	t.out.Problems = append(f.Problems, t.r.problems.Sorted()...)
	if e := t.r.problems.Err(); err == nil {
		err = e
	}
	return t.out, err
}

// A translator is one run of [Translate].
type translator struct {
	r      *reader
	f      *File
	out    *Translation
	loaded map[string]string // files by name
	lines  int               // of all tables
}

// workers puts JkWorkerProperty before the workers file, as mod_jk reads them.
func (t *translator) workers() {
	var b strings.Builder
	for _, p := range t.f.Properties {
		fmt.Fprintf(&b, "# %s:%d\n%s\n", p.File, p.Line, p.Text)
	}
	main := properties.Problem{File: t.f.Servers[0].File}
	switch text, err := t.load(t.f.WorkersFile); {
	case t.f.WorkersFile == "" && len(t.f.Properties) == 0:
		t.r.fail(main, "there is no JkWorkersFile and no JkWorkerProperty in it, so mod_jk has no workers here")
	case t.f.WorkersFile == "":
	case err != nil:
		t.r.fail(main, "JkWorkersFile: %v", err)
	default:
		if b.Len() > 0 {
			fmt.Fprintf(&b, "# %s\n", t.f.WorkersFile)
		}
		b.WriteString(text)
	}
	t.out.Workers = b.String()
}

func (t *translator) load(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	if text, ok := t.loaded[name]; ok {
		return text, nil
	}
	text, err := t.r.load(name)
	if err == nil {
		t.loaded[name] = text
	}
	return text, err
}

// A table is the rules of one server.
type table struct {
	server *Server
	lines  []entry
	at     map[string]int // where in lines a key is
	text   string         // by which others can be compared with it
}

// An entry is one line of a table.
type entry struct {
	from  string // where it stands
	key   string // "" for a line that is no rule
	value string
}

// rules puts the rules of all servers into one file. Those of the server that answers
// requests to any other name stand as they are; those of another one have its names
// before them, and count for these.
func (t *translator) rules() {
	main := t.f.Servers[0]
	servers := t.f.Servers[1:]
	if len(servers) == 0 {
		servers = t.f.Servers
	} else if len(main.Rules) > 0 || main.MountFile != "" {
		if !slices.ContainsFunc(servers, func(s *Server) bool { return s.Copy }) {
			t.r.warn(properties.Problem{File: main.File, Line: main.Line},
				"no virtual host has the rules of the main server (JkMountCopy): they are left out, since a virtual host answers instead")
		}
	}
	var all []*table
	silent := map[*Server]bool{}
	for i, s := range servers {
		if t.r.full {
			break
		}
		of := t.table(s, main)
		silent[s] = len(of.lines) == 0
		switch {
		case len(of.lines) == 0 && i == 0:
		case len(of.lines) == 0:
			continue
		case slices.ContainsFunc(all, func(o *table) bool { return o.text == of.text && sameNames(o.server, s) }):
			continue // the same host on another port
		}
		all = append(all, of)
	}
	var b strings.Builder
	hosts := map[string]*Server{}
	for i, of := range all {
		if i == 0 || sameText(all) {
			if i == 0 {
				t.write(&b, of, "")
			}
			continue
		}
		if len(of.server.Names) == 0 {
			t.r.warn(properties.Problem{File: of.server.File, Line: of.server.Line},
				"the virtual host has rules, but no ServerName to know its requests by: they are left out")
		}
		for _, name := range of.server.Names {
			at := properties.Problem{File: of.server.File, Line: of.server.Line}
			switch other := hosts[name]; {
			case strings.ContainsAny(name, "*?/|=#; "):
				t.r.warn(at, "ServerAlias %s: rules by host want whole names, so those for it are left out", properties.Show(name))
			case other != nil:
				t.r.warn(at, "%s has other rules at %s:%d; those count, since the port is not looked at", properties.Show(name), other.File, other.Line)
			case slices.Contains(all[0].server.Names, name):
				t.r.warn(at, "%s has other rules at %s:%d; those count, since the port is not looked at", properties.Show(name), all[0].server.File, all[0].server.Line)
			default:
				hosts[name] = of.server
				t.out.Flags = append(t.out.Flags, "--map-hosts="+name)
				t.write(&b, of, "/"+name)
			}
		}
	}
	t.silent(silent, servers, all)
	t.out.Rules = b.String()
}

// silent warns of hosts that have no rules, and now go by others'.
func (t *translator) silent(silent map[*Server]bool, servers []*Server, all []*table) {
	if len(all) == 0 || len(all[0].lines) == 0 {
		return
	}
	for _, s := range servers {
		mapped := slices.ContainsFunc(all, func(o *table) bool { return o.server == s || sameNames(o.server, s) })
		if !mapped && len(s.Names) > 0 && silent[s] {
			t.r.warn(properties.Problem{File: s.File, Line: s.Line},
				"virtual host %s maps nothing; here its requests go by the rules of %s:%d", properties.Show(s.Names[0]), all[0].server.File, all[0].server.Line)
		}
	}
}

func sameText(all []*table) bool {
	return !slices.ContainsFunc(all, func(o *table) bool { return o.text != all[0].text })
}

func sameNames(a, b *Server) bool { return slices.Equal(a.Names, b.Names) }

// table returns what a server maps: the lines of its file, which come first, and its
// own rules, and those of the main server if it copies them.
func (t *translator) table(s, main *Server) *table {
	of := &table{server: s, at: map[string]int{}}
	file := s.MountFile
	sources := []*Server{s}
	if s.Copy && s != main {
		if file == "" {
			file = main.MountFile
		}
		sources = append(sources, main)
	}
	if file != "" {
		text, err := t.load(file)
		if err != nil {
			t.r.fail(properties.Problem{File: s.File, Line: s.Line}, "JkMountFile: %v", err)
		}
		of.file(file, text)
	}
	for _, from := range sources {
		for _, r := range from.Rules {
			of.add(entry{fmt.Sprintf("%s:%d", r.File, r.Line), r.Key(), r.Value})
		}
	}
	if t.lines += len(of.lines); t.lines > 10*maxRules {
		t.r.giveUp(properties.Problem{File: s.File, Line: s.Line}, "more than %d lines of rules", 10*maxRules)
		of.lines = nil
	}
	var b strings.Builder
	for _, l := range of.lines {
		b.WriteString(l.key + "=" + l.value + "\n")
	}
	of.text = b.String()
	return of
}

// file adds the lines of a uriworkermap.properties.
func (t *table) file(name, text string) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "#")
		key, value, _ := strings.Cut(line, "=")
		key, value = strings.Trim(key, properties.Blanks), strings.Trim(value, properties.Blanks)
		if key == "" || value == "" {
			continue
		}
		e := entry{fmt.Sprintf("%s:%d", name, number), key, value}
		if i, again := t.at[key]; again {
			t.lines[i] = e // a second line takes the place of the first
		} else {
			t.add(e)
		}
	}
}

// add adds a rule unless there is one with the same pattern, which comes first.
func (t *table) add(e entry) {
	if _, again := t.at[e.key]; !again {
		t.at[e.key] = len(t.lines)
		t.lines = append(t.lines, e)
	}
}

// write writes a table whose patterns have a host before them.
func (t *translator) write(b *strings.Builder, of *table, host string) {
	for _, l := range of.lines {
		path := strings.TrimPrefix(strings.TrimPrefix(l.key, "-"), "!")
		mark := l.key[:len(l.key)-len(path)]
		switch {
		case host == "":
		case strings.HasPrefix(path, "/"):
			if first, more, ok := strings.Cut(path, "|"); ok {
				path = host + first + "|" + more
			} else {
				path = host + path
			}
		case strings.HasPrefix(path, "*"):
			path = host + "/" + path
		}
		fmt.Fprintf(b, "# %s\n%s%s=%s\n", l.from, mark, path, l.value)
	}
}
