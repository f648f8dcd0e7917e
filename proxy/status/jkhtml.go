package status

import (
	_ "embed"
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"
)

//go:embed jk.html
var jkText string

// jkPage is what the page of a status worker shows.
type jkPage struct {
	Title, CSS, Time string
	Refresh          int
	Return           string // where a browser goes after a result, in 3 seconds
	Result           string // of a change, or why there is nothing else; empty: none
	Failed           bool

	Links     []jkLink
	Balancers []jkBalancer
	Servers   []jkTable
	Dump      []Property
	Form      *jkForm
	Legend    [][2]string
}

type jkLink struct{ Text, Href string }

type jkBalancer struct {
	Name                            string
	Links                           []jkLink
	Config, Summary, Members, Rules *jkTable // nil: not shown
	Reach                           *jkTable // how members are reached
}

type jkTable struct {
	Title string
	Links []jkLink
	Heads []jkLink // Href may be empty
	Rows  []jkRow
	Rules *jkTable
}

type jkRow struct {
	Links  []jkLink
	Rating string
	Cells  []string
}

// jkForm is what cmd=edit shows.
type jkForm struct {
	Title  string
	Hidden []Property
	Fields []jkField
	Locked bool // without a token nobody can send it
}

type jkField struct {
	Label, Param, Value string
	Choices             []jkChoice
}

type jkChoice struct {
	Word, Value string
	Chosen      bool
}

// href returns the address of another page of this worker, relative to this one.
func (c *call) href(pairs ...string) string {
	q := make([]string, 0, len(pairs)/2+1)
	for i := 0; i+1 < len(pairs); i += 2 {
		q = append(q, pairs[i]+"="+url.QueryEscape(pairs[i+1]))
	}
	if c.opt != 0 && (len(pairs) == 0 || pairs[0] != "opt") {
		q = append(q, "opt="+strconv.Itoa(c.opt))
	}
	return "?" + strings.Join(q, "&")
}

// may reports whether this view has links for changes.
func (c *call) may() bool { return !c.readOnly && c.opt&readOnlyView == 0 }

// writeHTML writes the page for people.
func (c *call) writeHTML(no *refusal) error {
	host, port := c.host()
	p := jkPage{Title: "Status of " + host + ":" + port, CSS: c.css, Time: c.now.Format("2006-01-02 15:04:05 -0700")}
	p.Links = []jkLink{{"Start page", c.href()}}
	switch {
	case no != nil:
		p.Result, p.Failed = no.text, true
	case changes(c.cmd) && c.cmd != cmdEdit:
		p.Result = "Action finished"
		p.Return = c.href("cmd", cmdList)
		if c.q["from"] == cmdShow {
			p.Return = c.href("cmd", cmdShow, "w", c.q["w"])
		}
	case c.cmd == cmdEdit:
		p.Form = c.form()
	case c.cmd == cmdDump:
		p.Dump = c.snap.Properties
	default:
		c.fill(&p)
	}
	t, err := template.New("jk").Parse(jkText)
	if err != nil {
		return err
	}
	return t.Execute(&c.out, p)
}

// fill fills in what list, show and version show.
func (c *call) fill(p *jkPage) {
	if n := c.q.number("re"); n > 0 {
		p.Refresh = min(n, maxRefresh)
	}
	about := []string{"cmd", c.cmd}
	if c.q["w"] != "" {
		about = append(about, "w", c.q["w"])
	}
	if c.q["sw"] != "" {
		about = append(about, "sw", c.q["sw"])
	}
	for _, l := range []jkLink{{"XML", mimeXML}, {"Properties", mimeProp}, {"Text", mimeTXT}} {
		p.Links = append(p.Links, jkLink{l.Text, c.href(append(about, "mime", l.Href)...)})
	}
	p.Links = append(p.Links, jkLink{"Refresh every 10 s", c.href(append(about, "re", "10")...)}, jkLink{"Dump", c.href("cmd", cmdDump)})
	if !c.readOnly {
		word := "Read only"
		if c.opt&readOnlyView != 0 {
			word = "Read and write"
		}
		p.Links = append(p.Links, jkLink{word, c.href("opt", strconv.Itoa(c.opt^readOnlyView), "cmd", c.cmd, "w", c.q["w"])})
	}
	if c.cmd == cmdVersion {
		return
	}
	if c.opt&hideLegend == 0 {
		p.Legend = legend()
	}
	for _, w := range c.workers(true) {
		if c.worker == w || c.cmd == cmdList && c.opt&hideBalancers == 0 {
			p.Balancers = append(p.Balancers, c.balancerTables(w))
		}
	}
	for _, w := range c.workers(false) {
		if (c.worker == w || c.cmd == cmdList && c.opt&hideAJP == 0) && len(w.Members) > 0 {
			p.Servers = append(p.Servers, c.serverTable(w))
		}
	}
}

// deeds are the links in front of a worker or a member.
func (c *call) deeds(w *Worker, m *Member) []jkLink {
	about := []string{"w", w.Name}
	if m != nil {
		about = append(about, "sw", m.Name)
	}
	links := []jkLink{{"S", c.href(append([]string{"cmd", cmdShow}, about...)...)}}
	if !c.may() {
		return links
	}
	edit := c.href(append([]string{"cmd", cmdEdit, "from", c.cmd}, about...)...)
	links = append(links, jkLink{"E", edit}, jkLink{"R", edit + "&do=" + cmdReset})
	if m != nil && m.State == "ERR" {
		links = append(links, jkLink{"T", edit + "&do=" + cmdRecover})
	}
	return links
}

func heads(names ...string) []jkLink {
	all := make([]jkLink, len(names))
	for i, n := range names {
		all[i].Text = n
	}
	return all
}

// values returns those of fields as cells.
func values(f fields) []string {
	cells := make([]string, len(f))
	for i, a := range f {
		cells[i] = a.value
	}
	return cells
}

func names(f fields) []jkLink {
	all := make([]jkLink, len(f))
	for i, a := range f {
		all[i].Text = strings.ReplaceAll(a.name, "_", " ")
	}
	return all
}

// configured is how many of the fields of a balancer are configuration; the others
// are its summary.
const configured = 9

func (c *call) balancerTables(w *Worker) jkBalancer {
	b := jkBalancer{Name: w.Name, Links: c.deeds(w, nil)}
	f := c.balancerFields(w)
	if c.opt&hideLBConfig == 0 {
		b.Config = &jkTable{Heads: names(f[:configured]), Rows: []jkRow{{Cells: values(f[:configured])}}}
	}
	if c.opt&hideLBSummary == 0 {
		b.Summary = &jkTable{Heads: names(f[configured:]), Rows: []jkRow{{Cells: values(f[configured:])}}}
	}
	if c.opt&hideMembers == 0 {
		b.Members = c.memberTable(w)
		if c.opt&hideAJPConfig == 0 {
			b.Reach = c.reachTable(w)
		}
	}
	if c.opt&hideMaps == 0 {
		b.Rules = c.ruleTable(w)
	}
	return b
}

// memberHeads are the columns of members, in mod_jk's order, with the setting that
// the column is about.
func memberHeads() []jkLink {
	return []jkLink{
		{"Name", ""},
		{"Act", "vwa"},
		{"State", ""},
		{"D", "vwd"},
		{"F", "vwf"},
		{"M", ""},
		{"V", ""},
		{"Acc", ""},
		{"Sess", ""},
		{"Err", ""},
		{"CE", ""},
		{"RE", ""},
		{"Wr", ""},
		{"Rd", ""},
		{"Busy", ""},
		{"MaxBusy", ""},
		{"Con", ""},
		{"MaxCon", ""},
		{"Route", "vwn"},
		{"RR", "vwr"},
		{"Cd", "vwc"},
		{"Rs", ""},
		{"LR", ""},
		{"LE", ""},
	}
}

func (c *call) memberTable(w *Worker) *jkTable {
	t := &jkTable{Heads: memberHeads()}
	for i := range t.Heads {
		if h := &t.Heads[i]; h.Href != "" {
			att := h.Href
			if h.Href = ""; c.may() {
				h.Href = c.href("cmd", cmdEdit, "from", c.cmd, "w", w.Name, "att", att)
			}
		}
	}
	for i := range w.Members {
		m := &w.Members[i]
		if c.member != nil && c.member != m {
			continue
		}
		t.Rows = append(t.Rows, jkRow{Links: c.deeds(w, m), Rating: c.rate(m).String(), Cells: append([]string{
			m.Name, m.Activation, m.State, strconv.Itoa(m.Distance), strconv.Itoa(m.LBFactor), fmt.Sprint(m.LBMult), fmt.Sprint(m.LBValue),
			fmt.Sprint(m.Served), fmt.Sprint(m.NewSessions),
		}, append(c.trafficCells(m), m.Route, m.Redirect, m.Domain, c.wholeSeconds(m.RecoverIn), c.age(m.ResetAt), c.failedAt(m))...)})
	}
	return t
}

// trafficCells are Err, CE, RE, Wr, Rd, Busy, MaxBusy, Con and MaxCon.
func (c *call) trafficCells(m *Member) []string {
	return []string{
		fmt.Sprint(m.Errors), fmt.Sprint(m.ClientErrors), fmt.Sprint(m.Timeouts), sizeText(m.BytesWritten), sizeText(m.BytesRead),
		strconv.Itoa(m.InFlight), strconv.Itoa(m.MaxInFlight), strconv.Itoa(m.Open), strconv.Itoa(m.MaxOpen),
	}
}

func (c *call) wholeSeconds(d time.Duration) string { return strconv.Itoa(in(time.Second, d)) }

func (c *call) age(at time.Time) string { return c.wholeSeconds(c.now.Sub(at)) }

func (c *call) failedAt(m *Member) string {
	if m.FailedAt.IsZero() {
		return ""
	}
	return m.FailedAt.Format("2006-01-02 15:04:05")
}

// reachTable says how the members are reached.
func (c *call) reachTable(w *Worker) *jkTable {
	t := &jkTable{}
	for i := range w.Members {
		m := &w.Members[i]
		if c.member != nil && c.member != m {
			continue
		}
		var f fields
		c.connectionFields(&f, m)
		t.Heads = append(heads("Name"), names(f)...)
		t.Rows = append(t.Rows, jkRow{Cells: append([]string{m.Name}, values(f)...)})
	}
	return t
}

func (c *call) ruleTable(w *Worker) *jkTable {
	if len(w.Rules) == 0 {
		return nil
	}
	t := &jkTable{}
	for i := range w.Rules {
		f := w.Rules[i].fields(c.snap.Proxy)
		t.Heads = names(f)
		t.Rows = append(t.Rows, jkRow{Cells: values(f)})
	}
	return t
}

// serverTable is of a worker that is a single server.
func (c *call) serverTable(w *Worker) jkTable {
	m := &w.Members[0]
	t := jkTable{Title: w.Name, Links: c.deeds(w, nil), Heads: heads("Type", "Address", "State", "Acc", "Err", "CE", "RE", "Wr", "Rd", "Busy", "MaxBusy", "Con", "MaxCon", "LR", "LE")}
	t.Rows = []jkRow{{Rating: c.rate(m).String(), Cells: append([]string{m.Type, m.Address, m.State, fmt.Sprint(m.Served)}, append(c.trafficCells(m), c.age(m.ResetAt), c.failedAt(m))...)}}
	if c.opt&hideMaps == 0 {
		t.Rules = c.ruleTable(w)
	}
	return t
}

// form is what cmd=edit shows: settings to change, or what reset and recover ask
// for.
func (c *call) form() *jkForm {
	f := &jkForm{Locked: !c.token.Set() || c.change == nil}
	cmd, subject := cmdUpdate, c.q["w"]
	if c.member != nil {
		subject += ", member " + c.member.Name
	}
	switch do := c.q["do"]; do {
	case cmdReset:
		cmd, f.Title = do, "Set the counts to zero of "+subject
	case cmdRecover:
		cmd, f.Title = do, "Let the next request try "+subject
	default:
		f.Title = "Change " + subject
		f.Fields = c.formFields()
	}
	f.Hidden = append(f.Hidden, Property{"cmd", cmd}, Property{"w", c.q["w"]}, Property{"from", c.q["from"]})
	for _, name := range []string{"sw", "att"} {
		if c.q[name] != "" {
			f.Hidden = append(f.Hidden, Property{name, c.q[name]})
		}
	}
	if c.opt != 0 {
		f.Hidden = append(f.Hidden, Property{"opt", strconv.Itoa(c.opt)})
	}
	return f
}

func (c *call) formFields() []jkField {
	var all []jkField
	if s := c.attribute(); s != nil {
		for i := range c.worker.Members {
			m := &c.worker.Members[i]
			f := s.field(c.worker, m)
			f.Label, f.Param = m.Name+": "+s.label, "val"+strconv.Itoa(i)
			all = append(all, f)
		}
		return all
	}
	m := c.member
	if m == nil && c.worker != nil && len(c.worker.Members) > 0 {
		m = &c.worker.Members[0]
	}
	for _, s := range c.settings() {
		all = append(all, s.field(c.worker, m))
	}
	return all
}

func (s *setting) field(w *Worker, m *Member) jkField {
	f := jkField{Label: s.label, Param: s.param, Value: s.value(w, m)}
	for _, word := range s.words {
		f.Choices = append(f.Choices, jkChoice{word.text, word.value, word.value == f.Value})
	}
	return f
}

// legend says what the columns mean.
func legend() [][2]string {
	return [][2]string{
		{"Act", "activation: ACT active, DIS disabled, STP stopped"},
		{"State", "OK, ERR; IDLE: no requests lately, BUSY: no connection is free, REC: recovering, PRB: being tried, FRC: tried for want of others"},
		{"D, F, M, V", "distance, load-balancing factor, what one request adds to the value, the value"},
		{"Acc, Sess", "requests sent there, and those without a session"},
		{"Err, CE, RE", "failed requests, clients that went away, replies that did not come in time (decays)"},
		{"Wr, Rd", "bytes sent to the member, and read from it"},
		{"Busy, Con", "requests under way, connections; with Max, the most since the last reset"},
		{"Route, RR, Cd", "session route, redirect route, cluster domain"},
		{"Rs", "seconds until it may recover"},
		{"LR, LE", "seconds since the last reset, time of the last error"},
	}
}
