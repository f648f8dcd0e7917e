package status

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
)

//go:embed page.html
var pageText string

// Page is how the page is to be shown.
type Page struct {
	Now     time.Time // for "3 s ago"
	Refresh int       // the browser asks again after so many seconds; zero: never

	Orders bool   // members have buttons to drain and to resume them
	Locked bool   // they could have, if the proxy had a token
	Asked  *Asked // an order that is to be confirmed; nil: none
	Last   *Done  // the last order; nil: none yet
}

// WriteHTML writes s as a page for people. It needs no scripts and no other files.
func WriteHTML(w io.Writer, s Snapshot, p Page) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"ago":   func(t time.Time) string { return ago(p.Now, t) },
		"bytes": sizeText,
		"mood":  mood,
		"round": func(d time.Duration) string { return d.Round(time.Second).String() },
		"act":   activation,
		"order": order,
		"left":  left,
	}).Parse(pageText)
	if err != nil {
		return err
	}
	var m *Member
	if p.Asked != nil {
		m = p.Asked.member(s)
	}
	return t.Execute(w, struct {
		Snapshot
		Page
		Member *Member // that Asked is about; nil: there is none
	}{s, p, m})
}

// ago returns how long before now t was, in one unit.
func ago(now, t time.Time) string {
	d := max(0, now.Sub(t))
	switch {
	case t.IsZero():
		return "never"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", d/time.Hour)
	}
	return fmt.Sprintf("%d days ago", d/(24*time.Hour))
}

// sizeText returns n bytes with a binary unit.
func sizeText(n uint64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1024, 0
	for v >= 1024 && unit < len(units)-1 {
		v, unit = v/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[unit])
}

// mood returns the colour of a member: good, odd or bad.
func mood(m Member) string {
	switch {
	case !m.InService:
		return "bad"
	case !strings.HasPrefix(m.State, "OK"), m.Activation != "ACT", m.Phase != "" && m.Phase != "running":
		return "odd"
	}
	return "good"
}

// order returns the order that makes sense for m as it stands.
func order(m Member) string {
	if m.Phase == "draining" || m.Activation != "ACT" {
		return orderResume
	}
	return orderDrain
}

// left says what an app node that drains has still to hand over, or how many sessions
// the proxy has seen that any other one still has; empty if it does not drain, or does
// not say.
func left(m Member) string {
	switch {
	case m.Draining != nil && m.Phase == "":
		text := fmt.Sprintf("%d sessions seen lately", m.Draining.Left)
		if m.Draining.EndsIn > 0 {
			text += fmt.Sprintf(", ends in %v", m.Draining.EndsIn.Round(time.Second))
		}
		return text
	case m.Phase != "draining" || m.Sessions == Unknown:
		return ""
	case m.Sessions+m.Copies == 0:
		return "nothing left"
	}
	return fmt.Sprintf("%d sessions and %d copies left", m.Sessions, m.Copies)
}

// activation returns mod_jk's short form as a word.
func activation(short string) string {
	switch short {
	case "ACT":
		return "active"
	case "DIS":
		return "disabled"
	case "STP":
		return "stopped"
	}
	return short
}
