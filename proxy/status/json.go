package status

import (
	"encoding/json"
	"io"
	"time"
)

// The document of /api/members. Scripts rely on the names: add, do not change.
type (
	document struct {
		Members []memberJSON `json:"members"`
		Gossip  []nodeJSON   `json:"gossip"`
	}
	memberJSON struct {
		Worker       string         `json:"worker"`
		Name         string         `json:"name"`
		Type         string         `json:"type"`
		Route        string         `json:"route"`
		Address      string         `json:"address"`
		Boot         uint32         `json:"boot,omitempty"`
		Activation   string         `json:"activation"`
		State        string         `json:"state"`
		Phase        string         `json:"phase,omitempty"`
		InService    bool           `json:"inService"`
		ByGossip     bool           `json:"byGossip"`
		LBFactor     int            `json:"lbfactor"`
		LBMult       uint64         `json:"lbmult"`
		LBValue      uint64         `json:"lbvalue"`
		Distance     int            `json:"distance"`
		Domain       string         `json:"domain"`
		Redirect     string         `json:"redirect"`
		Sessions     *int64         `json:"sessions,omitempty"`
		Copies       int64          `json:"copies,omitempty"`
		Lacking      int64          `json:"lackingCopy,omitempty"`
		Draining     *drainJSON     `json:"draining,omitempty"`
		InFlight     int            `json:"inFlight"`
		MaxInFlight  int            `json:"maxInFlight"`
		Tunnels      int            `json:"tunnels"`
		Waiting      int            `json:"waiting"`
		Open         int            `json:"connections"`
		MaxOpen      int            `json:"maxConnections"`
		Served       uint64         `json:"served"`
		NewSessions  uint64         `json:"newSessions"`
		Errors       uint64         `json:"errors"`
		ClientErrors uint64         `json:"clientErrors"`
		Timeouts     uint64         `json:"replyTimeouts"`
		Busy         uint64         `json:"busy"`
		Retries      uint64         `json:"retries"`
		BytesRead    uint64         `json:"bytesRead"`
		BytesWritten uint64         `json:"bytesWritten"`
		LastError    *lastErrorJSON `json:"lastError,omitempty"`
		RecoverIn    float64        `json:"recoverInSeconds,omitempty"`
		ResetAt      *time.Time     `json:"resetAt,omitempty"`
	}
	drainJSON struct {
		Since  time.Time `json:"since"`
		Left   int       `json:"sessionsSeen"`
		EndsIn float64   `json:"endsInSeconds,omitempty"`
	}
	lastErrorJSON struct {
		Text string    `json:"text"`
		At   time.Time `json:"at"`
	}
	nodeJSON struct {
		Name    string `json:"name"`
		Boot    uint32 `json:"boot"`
		Address string `json:"address"`
		State   string `json:"state"`
		Proxy   bool   `json:"proxy"`
	}
)

// WriteJSON writes s as the document of /api/members: the members of all workers,
// a member of two workers twice, and whom gossip knows.
func WriteJSON(w io.Writer, s Snapshot) error {
	doc := document{Members: []memberJSON{}, Gossip: []nodeJSON{}}
	for _, worker := range s.Workers {
		for _, m := range worker.Members {
			doc.Members = append(doc.Members, memberDocument(worker.Name, m))
		}
	}
	for _, n := range s.Gossip {
		doc.Gossip = append(doc.Gossip, nodeJSON(n))
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}

func memberDocument(worker string, m Member) memberJSON {
	doc := memberJSON{
		Worker:       worker,
		Name:         m.Name,
		Type:         m.Type,
		Route:        m.Route,
		Address:      m.Address,
		Boot:         m.Boot,
		Activation:   m.Activation,
		State:        m.State,
		Phase:        m.Phase,
		InService:    m.InService,
		ByGossip:     m.ByGossip,
		LBFactor:     m.LBFactor,
		LBMult:       m.LBMult,
		LBValue:      m.LBValue,
		Distance:     m.Distance,
		Domain:       m.Domain,
		Redirect:     m.Redirect,
		InFlight:     m.InFlight,
		MaxInFlight:  m.MaxInFlight,
		Tunnels:      m.Tunnels,
		Waiting:      m.Waiting,
		Open:         m.Open,
		MaxOpen:      m.MaxOpen,
		Served:       m.Served,
		NewSessions:  m.NewSessions,
		Errors:       m.Errors,
		ClientErrors: m.ClientErrors,
		Timeouts:     m.Timeouts,
		Busy:         m.Busy,
		Retries:      m.Retries,
		BytesRead:    m.BytesRead,
		BytesWritten: m.BytesWritten,
		RecoverIn:    m.RecoverIn.Seconds(),
	}
	if !m.ResetAt.IsZero() {
		at := m.ResetAt.UTC()
		doc.ResetAt = &at
	}
	doc.Copies, doc.Lacking = m.Copies, m.Lacking
	if d := m.Draining; d != nil {
		doc.Draining = &drainJSON{d.Since, d.Left, d.EndsIn.Seconds()}
	}
	if m.Sessions != Unknown {
		doc.Sessions = &m.Sessions
	}
	if m.LastError != "" || !m.LastErrorAt.IsZero() {
		doc.LastError = &lastErrorJSON{m.LastError, m.LastErrorAt.UTC()}
	}
	return doc
}
