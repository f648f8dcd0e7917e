package httpdconf

import (
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/understudy-lb/understudy/proxy/properties"
)

// enter begins a section.
func (r *reader) enter(at properties.Problem, name string, args []string) {
	if len(r.sections) >= maxDepth*4 {
		r.giveUp(at, "sections in each other, more than %d deep", maxDepth*4)
		return
	}
	s := section{name: name, args: args, line: at.Line}
	arg := ""
	if len(args) > 0 {
		arg = args[0]
	}
	condition, negated := strings.CutPrefix(arg, "!")
	holds := true
	switch name {
	case "ifmodule":
		holds = r.loaded(condition)
	case "ifdefine":
		_, holds = r.defined[condition]
	case "iffile":
		_, err := fs.Stat(r.cfg.FS, fsPath(r.absolute(condition)))
		holds = err == nil
	case "virtualhost":
		if len(r.out.Servers) > maxServers {
			r.giveUp(at, "more than %d virtual hosts", maxServers)
		} else if r.on() {
			r.server = &Server{File: at.File, Line: at.Line}
			r.out.Servers = append(r.out.Servers, r.server)
		}
		negated = false
	case "location":
		negated = false
	case "ifversion", "limit", "limitexcept", "requireall", "requireany", "requirenone":
		negated = false
	default:
		s.off = fmt.Sprintf("it stands in <%s>, which holds for some requests only", strings.Join(append([]string{name}, args...), " "))
		negated = false
	}
	if holds == negated && s.off == "" {
		s.off = fmt.Sprintf("<%s> does not hold, as far as can be told", strings.Join(append([]string{name}, args...), " "))
	}
	r.sections = append(r.sections, s)
}

// leave ends the innermost section.
func (r *reader) leave() {
	last := len(r.sections) - 1
	s := r.sections[last]
	r.sections = r.sections[:last]
	if s.name == "virtualhost" && r.on() {
		r.server = r.out.Servers[0]
	}
}

// loaded reports whether a module is, by its name or that of its source.
func (r *reader) loaded(module string) bool {
	name := moduleName(module)
	// Debian builds these in.
	return r.modules[name] || slices.Contains([]string{"core", "http", "so", "log_config", "logio", "version", "watchdog", "unixd"}, name)
}

func moduleName(s string) string {
	s = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(s), ".c"), "_module")
	return strings.TrimPrefix(s, "mod_")
}

// directive takes in one directive.
func (r *reader) directive(at properties.Problem, name, lower string, args []string) {
	if !r.on() {
		// What does not count is not lost without a word, if it is ours.
		if strings.HasPrefix(lower, "jk") || steers(lower, args) {
			i := slices.IndexFunc(r.sections, func(s section) bool { return s.off != "" })
			r.warn(at, "%s is left out: %s", name, r.sections[i].off)
		}
		return
	}
	d, known := r.directives[lower]
	switch {
	case known && (len(args) < d.least || len(args) > d.most):
		r.fail(at, "%s has %d arguments, want %s", name, len(args), wanted(d.least, d.most))
	case known && d.set != nil:
		d.set(r, at, args)
	case known:
		r.warn(at, "%s: %s", name, d.why)
	case strings.HasPrefix(lower, "jk"):
		r.warn(at, "%s is not known, and has no effect here", name)
	case steers(lower, args):
		r.warn(at, "%s %s: variables that steer mod_jk have no counterpart; say it with rules", name, properties.Show(strings.Join(args, " ")))
	case guards(lower):
		if i := slices.IndexFunc(r.sections, func(s section) bool { return s.name == "location" }); i >= 0 {
			r.warn(at, "%s of <Location %s>: the proxy lets everybody in; an exclusion keeps all out", name, properties.Show(strings.Join(r.sections[i].args, " ")))
		}
	case others(lower):
		r.warn(at, "%s %s: is done by httpd, and not by the proxy", name, properties.Show(strings.Join(args[:min(2, len(args))], " ")))
	}
}

// guards reports whether a directive restricts access.
func guards(lower string) bool {
	switch lower {
	case "require", "allow", "deny", "authtype", "authbasicprovider", "sslverifyclient", "sslrequire":
		return true
	}
	return false
}

// others reports whether a directive of another module does something with requests.
func others(lower string) bool {
	switch lower {
	case "proxypass", "proxypassmatch", "rewriterule", "redirect", "redirectmatch", "alias", "aliasmatch", "scriptalias",
		"header", "requestheader", "limitrequestbody", "errordocument", "sslengine", "sslcertificatefile":
		return true
	}
	return false
}

func wanted(least, most int) string {
	if least == most {
		return strconv.Itoa(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// steers reports whether a directive of another module sets what mod_jk looks at
// (mod_jk.md 5.9).
func steers(lower string, args []string) bool {
	switch lower {
	case "sethandler", "forcetype":
		return len(args) > 0 && strings.EqualFold(args[0], "jakarta-servlet")
	case "setenv", "setenvif", "setenvifnocase", "browsermatch", "rewriterule", "passenv":
		text := strings.Join(args, " ")
		return strings.Contains(text, "no-jk") || strings.Contains(text, "JK_")
	}
	return false
}

// A known directive is one that matters here.
type known struct {
	least, most int // arguments
	set         func(*reader, properties.Problem, []string)
	why         string // without set: why nothing is made of it
}

const many = 1000

// directives returns those that matter.
func directives() map[string]known {
	events := "events go to standard error, one JSON line each, with --log-level"
	one := "there is one process, which needs none"
	attributes := "a member of type http has no request attributes; of type ajp13 it gets those that Tomcat accepts by itself"
	return map[string]known{
		"include":         {1, 1, func(r *reader, at properties.Problem, args []string) { r.include(at, args[0], false) }, ""},
		"includeoptional": {1, 1, func(r *reader, at properties.Problem, args []string) { r.include(at, args[0], true) }, ""},
		"serverroot":      {1, 1, func(r *reader, _ properties.Problem, args []string) { r.root = r.absolute(args[0]) }, ""},
		"define": {1, 2, func(r *reader, _ properties.Problem, args []string) {
			r.defined[args[0]] = strings.Join(args[1:], "")
		}, ""},
		"undefine": {1, 1, func(r *reader, _ properties.Problem, args []string) { delete(r.defined, args[0]) }, ""},
		"loadmodule": {2, 2, func(r *reader, _ properties.Problem, args []string) {
			r.modules[moduleName(args[0])] = true
		}, ""},
		"servername":  {1, 1, (*reader).addNames, ""},
		"serveralias": {1, many, (*reader).addNames, ""},
		"use":         {1, many, nil, "macros are not followed; what this one has of mod_jk is missing"},
		"allowencodedslashes": {1, 1, func(r *reader, at properties.Problem, args []string) {
			if !strings.EqualFold(args[0], "off") {
				r.flag(at, "--encoded-slashes")
			}
		}, ""},

		"jkworkersfile":    {1, 1, (*reader).workersFile, ""},
		"jkworkerproperty": {1, many, (*reader).property, ""},
		"jkmountfile":      {1, 1, func(r *reader, _ properties.Problem, args []string) { r.server.MountFile = r.absolute(args[0]) }, ""},
		"jkmountfilereload": {1, 1, func(r *reader, at properties.Problem, args []string) {
			if n, err := strconv.Atoi(args[0]); err == nil && n >= 0 && n < 1e6 && n != 60 {
				r.flag(at, fmt.Sprintf("--urimap-reload=%ds", n))
			}
		}, ""},
		"jkmount":     {1, 2, func(r *reader, at properties.Problem, args []string) { r.rule(at, "JkMount", args, false) }, ""},
		"jkunmount":   {1, 2, func(r *reader, at properties.Problem, args []string) { r.rule(at, "JkUnMount", args, true) }, ""},
		"jkmountcopy": {1, 1, (*reader).mountCopy, ""},
		"jkoptions":   {1, many, (*reader).options, ""},

		"jkautoalias":    {1, 1, nil, "the proxy has no files of its own to serve; put them behind a server of type http"},
		"jkstripsession": {1, 2, nil, "it concerns files that the web server itself serves, and there are none here"},
		"jkrequestlogformat": {1, 1, func(r *reader, at properties.Problem, args []string) {
			r.flag(at, "--access-log=-")
			r.warn(at, "JkRequestLogFormat %s: the access log has all of it: as JSON %%w is lb, %%R is member, %%T is ms, %%V is host (docs/logs.md)", properties.Quote(args[0]))
		}, ""},
		"jklogfile":          {1, 1, nil, events},
		"jkloglevel":         {1, 1, nil, events},
		"jklogstampformat":   {1, 1, nil, events},
		"jkshmfile":          {1, 1, nil, one},
		"jkshmsize":          {1, 1, nil, one},
		"jkwatchdoginterval": {1, 1, nil, "maintenance has a timer of its own (worker.maintain)"},
		"jkenvvar":           {1, 2, nil, attributes},
		"jkextractssl":       {1, 1, nil, "the TLS of clients is told to members without it"},
		"jkworkerindicator":  {1, 1, nil, "variables that steer mod_jk have no counterpart; say it with rules"},
	}
}

func (r *reader) flag(at properties.Problem, text string) {
	if !slices.ContainsFunc(r.out.Flags, func(f Flag) bool { return f.Text == text }) {
		r.out.Flags = append(r.out.Flags, Flag{at.File, at.Line, text})
	}
}

func (r *reader) addNames(at properties.Problem, args []string) {
	for _, name := range args {
		if r.names++; r.names > 10*maxServers {
			r.giveUp(at, "more than %d names of virtual hosts", 10*maxServers)
			return
		}
		if _, rest, ok := strings.Cut(name, "://"); ok {
			name = rest
		}
		if host, _, err := net.SplitHostPort(name); err == nil {
			name = host
		}
		if name = strings.ToLower(name); !slices.Contains(r.server.Names, name) {
			r.server.Names = append(r.server.Names, name)
		}
	}
}

func (r *reader) workersFile(at properties.Problem, args []string) {
	name := r.absolute(args[0])
	if r.out.WorkersFile != "" && r.out.WorkersFile != name {
		r.warn(at, "JkWorkersFile: there is one already, %s; this one counts", properties.Show(r.out.WorkersFile))
	}
	r.out.WorkersFile = name
}

func (r *reader) property(at properties.Problem, args []string) {
	text := strings.Join(args, " ")
	if !strings.Contains(text, "=") {
		r.fail(at, "JkWorkerProperty %s: there is no '='", properties.Show(text))
		return
	}
	if len(r.out.Properties) < maxRules {
		r.out.Properties = append(r.out.Properties, Property{at.File, at.Line, text})
	}
}

func (r *reader) mountCopy(at properties.Problem, args []string) {
	switch strings.ToLower(args[0]) {
	case "on":
		r.server.Copy = true
	case "all":
		r.copyAll = true
	case "off":
		r.server.Copy = false
	default:
		r.fail(at, "JkMountCopy %s: want On, Off or All", properties.Show(args[0]))
	}
}

// rule takes in JkMount and JkUnMount.
func (r *reader) rule(at properties.Problem, name string, args []string, exclude bool) {
	rule := Rule{File: at.File, Line: at.Line, Exclude: exclude}
	i := slices.IndexFunc(r.sections, func(s section) bool { return s.name == "location" })
	switch {
	case len(args) == 2 && i < 0:
		rule.Pattern, rule.Value = args[0], args[1]
	case len(args) == 1 && i >= 0 && len(r.sections[i].args) == 1:
		rule.Pattern, rule.Value = r.sections[i].args[0], args[0]
	case i >= 0:
		r.fail(at, "%s: in <Location> of one path there is the worker only", name)
		return
	default:
		r.fail(at, "%s: want a path and a worker", name)
		return
	}
	switch {
	case !strings.HasPrefix(rule.Pattern, "/"):
		r.fail(at, "%s %s: a path begins with '/'", name, properties.Show(rule.Pattern))
	case strings.ContainsAny(rule.Pattern, "=#\r\n") || strings.ContainsAny(rule.Value, "#\r\n"):
		r.warn(at, "%s %s: a rule in a file cannot have '=' or '#', so it is left out", name, properties.Show(rule.Pattern))
	case r.rules >= maxRules:
		r.giveUp(at, "more than %d rules", maxRules)
	default:
		r.rules++
		// Of two with one pattern the last counts.
		r.server.Rules = slices.DeleteFunc(r.server.Rules, func(old Rule) bool {
			same := old.Pattern == rule.Pattern && old.Exclude == rule.Exclude
			if same {
				r.warn(at, "%s %s: set again, %s:%d has no effect any more", name, properties.Show(rule.Pattern), old.File, old.Line)
			}
			return same
		})
		r.server.Rules = append(r.server.Rules, rule)
	}
}

// options takes in JkOptions (mod_jk.md 5.8).
func (r *reader) options(at properties.Problem, args []string) {
	for _, option := range args {
		name, off := strings.CutPrefix(option, "-")
		name = strings.ToLower(strings.TrimPrefix(name, "+"))
		switch {
		case name == "rejectunsafeuri" && !off:
			r.flag(at, "--reject-unsafe")
		case name == "forwardurlproxy", name == "forwarduriproxy", name == "forwarduricompat", name == "forwarduriescaped":
			r.warn(at, "JkOptions %s: paths are forwarded byte for byte as they came (ForwardURICompatUnparsed)", option)
		case name == "forwarduricompatunparsed", strings.HasPrefix(name, "collapseslashes"), off:
		default:
			r.warn(at, "JkOptions %s: has no counterpart here", option)
		}
	}
}

// finish does what can be done at the end only.
func (r *reader) finish() {
	for _, s := range r.out.Servers[1:] {
		s.Copy = s.Copy || r.copyAll
	}
}
