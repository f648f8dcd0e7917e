package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"github.com/understudy-lb/understudy/proxy"
	"github.com/understudy-lb/understudy/proxy/status"
	"github.com/understudy-lb/understudy/proxy/urimap"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// Bounds of the file of --state.
const (
	maxState   = 1 << 20 // bytes
	maxKept    = 20_000  // settings
	stateVer   = 1       // of the file's form
	maxSetting = 4096    // bytes of a value
)

// A keptSetting is one that an operator has changed.
type keptSetting struct {
	Worker string `json:"worker"`
	Member string `json:"member,omitempty"` // empty: the worker itself
	Name   string `json:"setting"`
	Value  string `json:"value"`
	File   string `json:"file"` // what workers.properties asked for then: if it asks for something else, that counts
}

func (k keptSetting) String() string {
	return fmt.Sprintf("%s %s %s", k.Worker, cmp.Or(k.Member, "-"), k.Name)
}

// stateFile is the form of the file.
type stateFile struct {
	Version int           `json:"version"`
	Kept    []keptSetting `json:"changes"`
}

// kept are the settings that operators have changed, which --state keeps over a
// restart.
type kept struct {
	path string // empty: over none
	log  zerolog.Logger

	// mu is held while the file is written, too, so that it ends up with the last
	// change. Who changes something waits for it, and nobody else.
	mu   sync.Mutex
	base map[keptSetting]string // what the file asks for, by worker, member and name
	all  []keptSetting
}

// place is k without values.
func (k keptSetting) place() keptSetting {
	return keptSetting{Worker: k.Worker, Member: k.Member, Name: k.Name}
}

// asked returns what the files ask for of all that can be changed.
func asked(file *worker.File, rules *urimap.Map) (map[keptSetting]string, error) {
	p, err := proxy.New(proxy.Config{Workers: file, URIMap: rules})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	base := map[keptSetting]string{}
	each(p.Snapshot(), func(k keptSetting) { base[k.place()] = k.Value })
	return base, nil
}

// each calls f for all settings of a snapshot.
func each(snap status.Snapshot, f func(keptSetting)) {
	add := func(w *status.Worker, m *status.Member) {
		k := keptSetting{Worker: w.Name}
		if m != nil {
			k.Member = m.Name
		}
		for _, s := range status.Settings(w, m) {
			k.Name, k.Value = s.Name, s.Value
			f(k)
		}
	}
	for i := range snap.Workers {
		w := &snap.Workers[i]
		add(w, nil)
		for j := range w.Members {
			add(w, &w.Members[j])
		}
	}
}

// changed returns what is not as the files ask for.
func (s *server) changed() []status.Changed {
	s.kept.mu.Lock()
	base := s.kept.base // replaced as a whole
	s.kept.mu.Unlock()
	var all []status.Changed
	each(s.proxy.Snapshot(), func(k keptSetting) {
		if file, ok := base[k.place()]; ok && file != k.Value {
			all = append(all, status.Changed{Worker: k.Worker, Member: k.Member, Setting: k.Name, Value: k.Value, File: file})
		}
	})
	return all
}

// readState reads the file of --state. There need not be one yet.
func readState(path string) ([]keptSetting, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(f, maxState+1))
	if err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	all, err := parseState(text)
	if err != nil {
		return nil, fmt.Errorf("--state: %s: %w; without the file the proxy starts as workers.properties says", path, err)
	}
	return all, nil
}

// parseState reads what save has written.
func parseState(text []byte) ([]keptSetting, error) {
	if len(text) > maxState {
		return nil, fmt.Errorf("it is larger than %d bytes", maxState)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var s stateFile
	if err := dec.Decode(&s); err != nil {
		return nil, fmt.Errorf("it is not what a proxy has written: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows what a proxy has written")
	}
	if s.Version != stateVer {
		return nil, fmt.Errorf("it has version %d, want %d", s.Version, stateVer)
	}
	if len(s.Kept) > maxKept {
		return nil, fmt.Errorf("it has %d settings, want at most %d", len(s.Kept), maxKept)
	}
	for i, k := range s.Kept {
		if k.Worker == "" || k.Name == "" || len(k.Value) > maxSetting {
			return nil, fmt.Errorf("its change %d has no worker, no setting, or a value of more than %d bytes", i+1, maxSetting)
		}
	}
	return s.Kept, nil
}

// resume makes count what was kept, after a start or when files were read again, and
// forgets what the files do not have any more or ask for otherwise now.
func (s *server) resume(file *worker.File, rules *urimap.Map) error {
	k := &s.kept
	base, err := asked(file, rules)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.base = base
	n := len(k.all)
	k.all = slices.DeleteFunc(k.all, func(c keptSetting) bool {
		err := s.again(c)
		if err != nil {
			k.log.Warn().Str("worker", c.Worker).Str("member", c.Member).Str("setting", c.Name).Str("value", c.Value).Err(err).Msg("kept change dropped")
		}
		return err != nil
	})
	if len(k.all) == n || k.path == "" {
		return nil
	}
	return k.save()
}

// What has become of a kept change.
var (
	errVanished = errors.New("the files do not have it any more")
	errAsked    = errors.New("the files ask for another value than then")
)

// again makes c count. s.kept.mu must be held.
func (s *server) again(c keptSetting) error {
	now, ok := s.kept.base[c.place()]
	switch {
	case !ok:
		return errVanished
	case now != c.File:
		return errAsked
	}
	return s.proxy.Apply(status.Change{Worker: c.Worker, Member: c.Member, Set: []status.Property{{Name: c.Name, Value: c.Value}}})
}

// change does what an operator wants, and keeps it.
func (s *server) change(ch status.Change) error {
	k := &s.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := s.proxy.Apply(ch); err != nil || ch.Do != status.DeedSet || k.path == "" {
		return err
	}
	for _, p := range ch.Set {
		k.note(keptSetting{Worker: ch.Worker, Member: ch.Member, Name: p.Name, Value: p.Value})
	}
	if err := k.save(); err != nil {
		k.log.Error().Err(err).Msg("change not kept")
		return fmt.Errorf("the change counts, but is not kept: %w", err)
	}
	return nil
}

// note adds c, in place of what was kept there. What gossip alone knows has no file
// that it could be kept beside. k.mu must be held.
func (k *kept) note(c keptSetting) {
	k.all = slices.DeleteFunc(k.all, func(o keptSetting) bool { return o.place() == c.place() })
	file, ok := k.base[c.place()]
	if c.File = file; ok && file != c.Value {
		k.all = append(k.all, c)
	}
}

// save writes the file, whole or not at all. k.mu must be held.
func (k *kept) save() error {
	slices.SortFunc(k.all, func(a, b keptSetting) int { return strings.Compare(a.String(), b.String()) })
	text, err := json.MarshalIndent(stateFile{Version: stateVer, Kept: k.all}, "", "  ")
	if err != nil {
		return err
	}
	if len(k.all) > maxKept || len(text) >= maxState {
		return fmt.Errorf("--state: there are %d changes in %d bytes, more than it takes", len(k.all), len(text))
	}
	dir := filepath.Dir(k.path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(k.path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // if all goes well, it has another name by then
	_, err = tmp.Write(append(text, '\n'))
	if err == nil {
		err = tmp.Sync()
	}
	if err := errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), k.path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
