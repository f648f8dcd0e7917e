package oracle

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	ruleFiles   = 60 // of one run, or as many as there are seeds; each is a virtual host of one httpd, and a proxy of ours
	pathsOfFile = 60
)

// TestMapping compares which worker paths are mapped to, by many files of rules.
func TestMapping(t *testing.T) {
	needApache(t)
	r := newReport(t, "Rules and paths", max(ruleFiles, seeds(t)))
	names := []string{"w1", "w2", "w3"}
	packets := map[string]int{}
	dir := directory(t)
	workers := &scenario{}
	for _, name := range names {
		packets[name] = smallestPacket
		workers.set(name, "retries", 1)
	}
	workers.set("", "list", strings.Join(names, ","))
	c := newCast(t, names, packets)
	file(t, filepath.Join(dir, "workers.properties"), workers.workersFile(c))
	file(t, filepath.Join(dir, "uriworkermap.properties"), "")

	scenarios := map[uint64]*scenario{}
	var hosts strings.Builder
	for seed := uint64(1); seed <= r.seeds; seed++ {
		if *seedFlag != 0 && seed != *seedFlag {
			continue
		}
		s := mapping(seed, names)
		s.lines = workers.lines
		scenarios[seed] = s
		rules := file(t, filepath.Join(dir, fmt.Sprintf("%d.properties", seed)), s.rulesFile())
		fmt.Fprintf(&hosts, "<VirtualHost *>\nServerName v%d.test\nJkMountFile %s\n</VirtualHost>\n", seed, rules)
	}
	jk := apache(t, dir, hosts.String())
	for seed, s := range scenarios {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			own := directory(t)
			file(t, filepath.Join(own, "workers.properties"), s.workersFile(c))
			file(t, filepath.Join(own, "uriworkermap.properties"), s.rulesFile())
			ours := understudy(t, own)
			theirs := play(t, s, c, jk)
			for i, o := range play(t, s, c, ours) {
				x := &exchange{scenario: s, step: s.steps[i], index: i, jk: theirs[i], ours: o}
				if wrong, _ := r.judge(x, x.compareMapping()); len(wrong) > 0 {
					t.Errorf("rules %d: %v\n    %v\n    mod_jk: %v\n    we: %v", seed, x.step, wrong, x.jk, x.ours)
				}
			}
			ours.stop()
			r.add(func() { r.played++ })
			if t.Failed() {
				t.Logf("uriworkermap.properties:\n%s", s.rulesFile())
			}
		})
	}
	jk.stop()
	r.took = time.Since(r.began)
	t.Log(r)
	if r.mapped*4 < r.compared {
		t.Errorf("only %d of %d paths are mapped: hardly a test", r.mapped, r.compared)
	}
}

// mapping makes one file of rules, and paths that they are about.
func mapping(seed uint64, names []string) *scenario {
	d := dice{rand.New(rand.NewPCG(seed, 0x3a99))}
	s := &scenario{seed: seed, members: names}
	seen := map[string]bool{}
	for range 2 + d.IntN(12) {
		pattern := pick(d, "", "", "", "", "-", "!", "!", "-!") + s.pattern(d)
		if d.chance(15) {
			pattern += pick(d, "|/*", "|*", "|/a", "|.jsp")
		}
		worker := pick(d, names...)
		if strings.Contains(pattern, "!") && d.chance(30) {
			worker = "*"
		}
		if d.chance(2) {
			worker = "nobody"
		}
		for _, p := range sides(pattern) {
			if seen[strings.TrimLeft(p, "-")] {
				pattern = "" // which of two equal ones wins is not defined
			}
		}
		if pattern == "" {
			continue
		}
		for _, p := range sides(pattern) {
			seen[strings.TrimLeft(p, "-")] = true
		}
		line := pattern + pick(d, "=", " = ") + worker
		if d.chance(5) {
			line += " # of old"
		}
		s.rules = append(s.rules, line)
	}
	for range pathsOfFile {
		host := "v" + strconv.FormatUint(seed, 10) + ".test"
		s.steps = append(s.steps, step{request: request{method: "GET", target: s.target(d), fields: []field{{"Host", host}}}})
	}
	return s
}

// sides are the one or two patterns of a rule.
func sides(pattern string) []string {
	before, after, found := strings.Cut(pattern, "|")
	if !found {
		return []string{pattern}
	}
	return []string{before, before + after}
}

var segments = []string{"a", "a", "b", "app", "app", "static", "x.jsp", "y.gif", "a.b", "aa", "ab"}

func (s *scenario) pattern(d dice) string {
	if d.chance(3) {
		return pick(d, "*.jsp", "app/*")
	}
	var b strings.Builder
	for range 1 + d.IntN(3) {
		segment := pick(d, segments...)
		switch {
		case d.chance(12):
			segment = "*"
		case d.chance(12):
			segment = pick(d, "*.jsp", "a*", "?", "a?", "*b", "?*")
		}
		b.WriteString("/" + segment)
	}
	if d.chance(35) {
		b.WriteString(pick(d, "/*", "/", "*", "/*/"))
	}
	return b.String()
}

// target is a path as clients send it, good or bad: often one that a rule is about.
func (s *scenario) target(d dice) string {
	if len(s.rules) == 0 || d.chance(40) {
		return anyPath(d)
	}
	pattern, _, _ := strings.Cut(pick(d, s.rules...), "=")
	pattern = pick(d, sides(strings.TrimLeft(strings.TrimSpace(pattern), "-!"))...)
	var b strings.Builder
	for _, c := range pattern {
		switch {
		case c == '*' && d.chance(70):
			b.WriteString(pick(d, "", "a", "x.jsp", strings.TrimPrefix(anyPath(d), "/")))
		case c == '?' && d.chance(70):
			b.WriteString(pick(d, "a", "b", "."))
		case d.chance(3):
			b.WriteString(pick(d, "%2e", ";v=1", "//", "A"))
		default:
			b.WriteRune(c)
		}
	}
	return "/" + strings.TrimPrefix(b.String(), "/")
}

func anyPath(d dice) string {
	var b strings.Builder
	for range 1 + d.IntN(4) {
		segment := pick(d, segments...)
		if d.chance(12) {
			segment = pick(d, "..", ".", "", "%2e%2e", "%2E", "..;x=1", ";x=1", "a%20b", "a%2fb", "a%5Cb", "%61pp", "a%3bb", "a%25b",
				"%C3%A9", "a%", "A", "App", "a+b", "a:b", "..%3b", "%00", "a%3Fb", "...", "a;b/c", "a&b", "(a)", "a,b", "~a", "%7Ea", "a\\b")
		}
		if d.chance(5) {
			segment += pick(d, ";jsessionid=1.w1", ";v=2", ";")
		}
		b.WriteString("/" + segment)
	}
	if d.chance(20) {
		b.WriteString(pick(d, "/", "//", "/.", "/..", "?q=1", "?"))
	}
	return b.String()
}
