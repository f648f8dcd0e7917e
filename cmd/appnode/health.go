package main

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/understudy-lb/understudy/session/peer"
)

// health says how the node is, to whoever asks without a session.
type health struct {
	ready func() error
	peers func() []peer.Status
}

// healthz answers 200 as long as the process serves, and says if its sessions are
// less safe than they could be (TC-9b). That is no reason to end it: it serves
// them all the same, and nobody else may have them.
func (h health) healthz(w http.ResponseWriter, _ *http.Request) {
	if why := degraded(h.peers()); why != "" {
		fmt.Fprintln(w, "degraded:", why) //nolint:errcheck // nobody to tell
		return
	}
	fmt.Fprintln(w, "ok") //nolint:errcheck // nobody to tell
}

// readyz answers 200, or 503 with the reason why the node takes no requests.
func (h health) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := h.ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready") //nolint:errcheck // nobody to tell
}

// degraded says what is wrong with replication; "" if nothing. A member that is
// proven gone is nobody to wait for. One that is only silent is named for a
// minute, as long as it is dialled.
func degraded(peers []peer.Status) string {
	up := 0
	var silent []string
	for _, p := range peers {
		switch p.State {
		case peer.Up:
			up++
		case peer.Dialling, peer.Comparing, peer.Unreachable:
			silent = append(silent, p.Name)
		case peer.Gone:
		}
	}
	switch {
	case up == 0 && len(silent) > 0:
		return "not connected with " + strings.Join(silent, ", ") + "; sessions have no copies"
	case up == 0:
		return "no other node is there; sessions have no copies"
	case len(silent) > 0:
		return "not connected with " + strings.Join(silent, ", ")
	}
	return ""
}
