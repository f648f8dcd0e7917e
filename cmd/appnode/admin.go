package main

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// maxListed bounds the sessions in one reply of /api/sessions.
const maxListed = 10_000

// held is what a node holds in one role.
type held struct {
	Sessions int   `json:"sessions"`
	Bytes    int64 `json:"bytes"`
}

// listed is one session as an operator sees it: never its id, nor what is in it.
type listed struct {
	Hash      string  `json:"hash"`
	Role      string  `json:"role"`
	Primary   string  `json:"primary"`
	Secondary string  `json:"secondary"`
	Bytes     int     `json:"bytes"`
	Version   uint64  `json:"version"`
	Idle      float64 `json:"idleSeconds"`
	Left      float64 `json:"leftSeconds"`
}

// listSessions says how many sessions the node holds, and shows ?limit= of them.
func (n *node) listSessions(w http.ResponseWriter, r *http.Request) {
	limit := 0
	if text := r.URL.Query().Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 0 || limit > maxListed {
			http.Error(w, "limit: want a number from 0 to "+strconv.Itoa(maxListed), http.StatusBadRequest)
			return
		}
	}
	s := n.sessions.Stats()
	out := struct {
		Node       string   `json:"node"`
		Primary    held     `json:"primary"`
		Secondary  held     `json:"secondary"`
		Tombstones int      `json:"tombstones"`
		List       []listed `json:"list"`
	}{
		Node: n.cfg.Name, Primary: held{s.Primary, s.PrimaryBytes}, Secondary: held{s.Secondary, s.SecondaryBytes},
		Tombstones: s.Tombstones, List: []listed{},
	}
	for i := range n.sessions.Sessions() {
		if len(out.List) == limit {
			break
		}
		out.List = append(out.List, listed{i.Hash, i.Role, i.Primary, i.Secondary, i.Bytes, i.Version, i.Idle.Seconds(), i.Left.Seconds()})
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if err := json.NewEncoder(w).Encode(out); err != nil {
		n.log.Debug().Err(err).Msg("client left")
	}
}

// endSession ends the session with ?hash=, as it stands in logs and lists
// (session.HashID).
func (n *node) endSession(w http.ResponseWriter, r *http.Request) {
	if !n.sessions.End(r.FormValue("hash")) {
		http.Error(w, "this node holds no session of that hash", http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
