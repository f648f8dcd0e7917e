package status

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/understudy-lb/understudy/admin"
)

// JKConfig sets up a [JK]: a worker of type status. What it has no comment for is the
// directive of that name (mod_jk.md 2.7).
type JKConfig struct {
	// Snapshot returns how things stand now; see [Config]. Required.
	Snapshot func() Snapshot

	// Change does what an operator wants. It is called for those who know Token, one
	// at a time or several. If nil, nothing can be changed.
	Change func(Change) error

	// Compat answers everything with status 200, as mod_jk does.
	Compat bool

	// Token is what somebody must know who changes something, and whom User names
	// must give as a password. If zero, nobody can.
	Token admin.Token

	Name                string // of the worker
	CSS                 string
	ReadOnly            bool
	User                []string // if empty, everybody may look
	UserCaseInsensitive bool
	Good, Bad           []string
	Prefix              string
	NS, XMLNS           string // empty for none
	Doctype             string
}

// A JK answers requests for a worker of type status as mod_jk does (mod_jk.md 6),
// but where docs/deviations.md says otherwise: changes go by POST, with the token.
type JK struct {
	snapshot      func() Snapshot
	change        func(Change) error
	token         admin.Token
	compat        bool
	name          string
	css           string
	readOnly      bool
	users         []string
	anyCase       bool
	goods, bads   []string
	prefix        string
	ns, xmlns     string
	doctype       string
	stylesAllowed string
}

// NewJK returns the status worker that cfg describes.
func NewJK(cfg JKConfig) (*JK, error) {
	if cfg.Snapshot == nil {
		return nil, errors.New("status: JKConfig.Snapshot is nil")
	}
	return &JK{
		snapshot: cfg.Snapshot, change: cfg.Change, compat: cfg.Compat, token: cfg.Token, name: cfg.Name, css: cfg.CSS, readOnly: cfg.ReadOnly,
		users: slices.Clone(cfg.User), anyCase: cfg.UserCaseInsensitive, goods: slices.Clone(cfg.Good), bads: slices.Clone(cfg.Bad),
		prefix: cmp.Or(cfg.Prefix, "worker"), ns: cfg.NS, xmlns: cfg.XMLNS, doctype: cfg.Doctype, stylesAllowed: styles(cfg.CSS),
	}, nil
}

// styles returns what a Content-Security-Policy has to allow for css.
func styles(css string) string {
	u, err := url.Parse(css)
	switch {
	case css == "" || err != nil:
		return ""
	case u.Host == "":
		return " 'self'"
	case u.Scheme == "http" || u.Scheme == "https":
		return " " + u.Scheme + "://" + u.Host
	}
	return ""
}

// The commands.
const (
	cmdList    = "list"
	cmdShow    = "show"
	cmdEdit    = "edit"
	cmdUpdate  = "update"
	cmdReset   = "reset"
	cmdRecover = "recover"
	cmdDump    = "dump"
	cmdVersion = "version"
)

// needsWorker reports whether a command is about one worker.
func needsWorker(cmd string) bool {
	switch cmd {
	case cmdShow, cmdEdit, cmdUpdate, cmdReset, cmdRecover:
		return true
	}
	return false
}

// changes reports whether a command is refused in read-only mode.
func changes(cmd string) bool { return needsWorker(cmd) && cmd != cmdShow }

// maxJKForm bounds what is read of the form of a change, in bytes.
const maxJKForm = 16 << 10

// A call is one request to a status worker.
type call struct {
	*JK
	r    *http.Request
	q    params
	cmd  string
	mime string
	opt  int
	now  time.Time
	snap Snapshot

	worker *Worker // that w names; nil without one
	member *Member // that sw names; nil without one

	out bytes.Buffer
}

// A refusal is why a command was not carried out.
type refusal struct {
	status int
	text   string // mod_jk's, where it has one
}

func refused(status int, text string) *refusal { return &refusal{status, text} }

// ServeHTTP implements [http.Handler].
func (j *JK) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{JK: j, r: r, q: params{}, now: time.Now()}
	c.q.parse(r.URL.RawQuery)
	if r.Method == http.MethodPost && isForm(r) {
		form, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxJKForm))
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(form)) // for the token
		c.q.parse(string(form))
		delete(c.q, admin.FormField)
	}
	c.opt = c.q.number("opt")
	c.mime = cmp.Or(c.q["mime"], mimeHTML)
	c.cmd = cmp.Or(c.q["cmd"], cmdList)
	c.snap = j.snapshot()
	no := c.check()
	if no == nil && changes(c.cmd) && c.cmd != cmdEdit {
		no = c.carryOut()
	}
	if no != nil && no.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", c.challenge())
	}
	if no != nil && no.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	c.reply(w, no)
}

func isForm(r *http.Request) bool {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "application/x-www-form-urlencoded")
}

// challenge asks for a password where users are named, and for the token else.
func (c *call) challenge() string {
	if len(c.users) > 0 {
		return `Basic realm="status"`
	}
	return "Bearer"
}

// check goes through mod_jk's checks, in its order (mod_jk.md 6.2), and finds the
// worker.
func (c *call) check() *refusal {
	mime := c.mime
	known := mime == mimeHTML || mime == mimeXML || mime == mimeTXT || mime == mimeProp
	if !known {
		c.mime = mimeProp
	}
	switch {
	case !c.mayLook():
		return refused(http.StatusUnauthorized, "Access denied.")
	case changes(c.cmd) && (c.readOnly || c.opt&readOnlyView != 0):
		return refused(http.StatusForbidden, "This command is not allowed in read only mode.")
	case !needsWorker(c.cmd) && c.cmd != cmdList && c.cmd != cmdDump && c.cmd != cmdVersion:
		return refused(http.StatusBadRequest, "Invalid command.")
	case !known:
		return refused(http.StatusBadRequest, "Invalid mime type.")
	case needsWorker(c.cmd):
		return c.find()
	}
	return nil
}

// mayLook reports whether the client is somebody whom user names: by Basic
// authentication, with the token as password. mod_jk asks the web server.
func (c *call) mayLook() bool {
	if len(c.users) == 0 {
		return true
	}
	name, password, ok := c.r.BasicAuth()
	return ok && c.token.Is(password) && slices.ContainsFunc(c.users, func(u string) bool {
		return u == name || c.anyCase && strings.EqualFold(u, name)
	})
}

// find finds the worker that a command is about, and its member.
func (c *call) find() *refusal {
	w, sw := c.q["w"], c.q["sw"]
	if w == "" {
		return refused(http.StatusBadRequest, "NULL or EMPTY worker param")
	}
	for i := range c.snap.Workers {
		if c.snap.Workers[i].Name == w {
			c.worker = &c.snap.Workers[i]
		}
	}
	isStatus := slices.Contains(c.snap.Statuses, w)
	switch {
	case c.worker == nil && !isStatus:
		return refused(http.StatusNotFound, "Could not find given worker")
	case sw == "":
		return nil
	case c.worker == nil || !c.worker.balances():
		return refused(http.StatusBadRequest, "worker type has no sub workers")
	case strings.Contains(sw, "*") && c.cmd != cmdUpdate:
		return refused(http.StatusBadRequest, "wildcard not allowed in sub worker for this command")
	}
	for i := range c.worker.Members {
		if m := &c.worker.Members[i]; glob(sw, m.Name) {
			c.member = m
			return nil
		}
	}
	return refused(http.StatusNotFound, "could not find sub worker")
}

// balances reports whether w is of type lb.
func (w *Worker) balances() bool { return w.Type == "lb" }

// glob reports whether s is what pattern says, where '*' is any text. What stands
// between two of them is looked for once, so that no pattern takes long: anybody may
// send one.
func glob(pattern, s string) bool {
	part, rest, more := strings.Cut(pattern, "*")
	s, ok := strings.CutPrefix(s, part)
	if !ok || !more {
		return ok && s == ""
	}
	for {
		if part, rest, more = strings.Cut(rest, "*"); !more {
			return strings.HasSuffix(s, part)
		}
		if _, s, ok = strings.Cut(s, part); !ok {
			return false
		}
	}
}

// rate rates a member by the worker's rules.
func (c *call) rate(m *Member) rating { return rate(m, c.goods, c.bads) }

// contentType is that of each format.
func (c *call) contentType() string {
	switch c.mime {
	case mimeHTML:
		return "text/html; charset=utf-8"
	case mimeXML:
		return "text/xml; charset=utf-8"
	}
	return "text/plain; charset=utf-8"
}

// reply writes what the client gets; no is why there is nothing else in it.
func (c *call) reply(w http.ResponseWriter, no *refusal) {
	status := http.StatusOK
	if no != nil && (!c.compat || no.status == http.StatusUnauthorized) { // or no browser would ask for a password
		status = no.status
	}
	if c.mime == mimeHTML {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"+c.stylesAllowed+"; base-uri 'none'; frame-ancestors 'none'; form-action 'self'")
		w.Header().Set("Referrer-Policy", "same-origin") // as on the admin page
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if err := c.writeHTML(no); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	} else {
		c.writeDocument(no)
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", c.contentType())
	w.WriteHeader(status)
	_, _ = w.Write(c.out.Bytes()) // as in send
}

// writeDocument writes the reply in a machine format.
func (c *call) writeDocument(no *refusal) {
	if c.mime == mimeXML {
		c.openXML()
	}
	if no == nil {
		c.writeHead()
		switch c.cmd {
		case cmdList:
			c.writeBalancers()
			c.writeServers()
		case cmdShow:
			if c.worker != nil {
				c.writeWorker(c.worker)
			}
		case cmdDump:
			var f fields
			for _, p := range c.snap.Properties {
				f.text(p.Name, p.Value)
			}
			c.write(object{kind: aConfiguration, fields: f})
		}
	}
	c.writeResult(no)
	if c.mime == mimeXML {
		c.put("</", c.ns, "status>\n")
	}
}

// writeHead writes whom the client has asked, and when; a change says nothing of it,
// and edit not all.
func (c *call) writeHead() {
	if c.cmd == cmdUpdate || c.cmd == cmdReset || c.cmd == cmdRecover {
		return
	}
	var server, at, software fields
	host, port := c.host()
	server.text("name", host)
	server.text("port", port)
	c.write(object{kind: aServer, fields: server})
	if c.cmd == cmdEdit {
		return
	}
	at.text("datetime", c.now.Format(stamp))
	at.text("tz", c.now.Format(zone))
	at.when("unix", c.now)
	c.write(object{kind: aTime, fields: at})
	software.quote("web_server", c.software())
	software.text("jk_version", c.software())
	c.write(object{kind: aSoftware, fields: software})
}

// software is who we are: it takes the place of the web server's and of mod_jk's.
func (c *call) software() string { return "understudy/" + cmp.Or(c.snap.Version, "devel") }

// host returns whom the client has asked for, and the port.
func (c *call) host() (host, port string) {
	host, port, err := net.SplitHostPort(c.r.Host)
	if err != nil {
		host, port = c.r.Host, "80"
		if c.r.URL.Scheme == "https" {
			port = "443"
		}
	} else if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return clean(host), clean(port)
}

func (c *call) writeResult(no *refusal) {
	var f fields
	if no != nil {
		f.text("type", "ERROR")
		f.quote("message", no.text)
	} else {
		f.text("type", "OK")
		f.quote("message", "Action finished")
	}
	c.write(object{kind: aResult, fields: f})
}

// workers returns those that are balancers, or those that are not.
func (c *call) workers(balancing bool) []*Worker {
	var all []*Worker
	for i := range c.snap.Workers {
		if w := &c.snap.Workers[i]; w.balances() == balancing {
			all = append(all, w)
		}
	}
	return all
}

func (c *call) writeBalancers() {
	all := c.workers(true)
	if c.opt&hideBalancers != 0 || len(all) == 0 {
		return
	}
	c.write(object{kind: balancers, id: numbered("count", len(all))})
	for _, w := range all {
		c.writeWorker(w)
	}
	c.end(balancers)
}

func (c *call) writeServers() {
	all := c.workers(false)
	if c.opt&hideAJP != 0 {
		return
	}
	c.write(object{kind: ajpWorkers, id: numbered("count", len(all))})
	for _, w := range all {
		c.writeWorker(w)
	}
	c.end(ajpWorkers)
}

// writeWorker writes a worker with its members and rules.
func (c *call) writeWorker(w *Worker) {
	if !w.balances() {
		if len(w.Members) > 0 {
			c.write(object{kind: anAJP, id: name(w.Name), fields: c.serverFields(w, &w.Members[0])})
		}
		c.writeRules(w)
		return
	}
	c.write(object{kind: aBalancer, id: name(w.Name), fields: c.balancerFields(w)})
	for i := range w.Members {
		m := &w.Members[i]
		if c.opt&hideMembers == 0 && (c.member == nil || c.member == m) {
			c.write(object{kind: aMember, worker: w.Name, id: name(m.Name), fields: c.memberFields(m)})
		}
	}
	c.writeRules(w)
	c.end(aBalancer)
}

func (c *call) writeRules(w *Worker) {
	if c.opt&hideMaps != 0 {
		return
	}
	for i := range w.Rules {
		c.write(object{kind: aRule, worker: w.Name, id: numbered("id", i+1), fields: w.Rules[i].fields(c.snap.Proxy)})
	}
}
