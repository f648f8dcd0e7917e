package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/understudy-lb/understudy/keyfile"
)

// keygen makes a key.
type keygen struct {
	Out string `placeholder:"FILE" help:"Put the key into FILE instead, unless a key file is there already."`
}

func (k *keygen) run(e env) error {
	key := keyfile.Generate().Hex()
	if k.Out == "" {
		_, err := fmt.Fprintln(e.stdout, key)
		return err
	}
	err := writeNew(k.Out, []byte(key+"\n"))
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	// It may be run at every start, as by a container: what is there counts.
	if _, err := keyfile.Read(k.Out); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	_, err = fmt.Fprintf(e.stderr, "proxy: keygen: %s has a key already and stays as it is\n", k.Out)
	return err
}

// writeNew makes the file path with text, readable by its owner alone: whole or
// not at all, and never in place of another one (an error that is os.ErrExist).
func writeNew(path string, text []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // its other name is what counts
	_, err = tmp.Write(text)
	if err == nil {
		err = tmp.Sync()
	}
	if err := errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return os.Link(tmp.Name(), path)
}

// version prints what this program was built from.
func version(e env) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("version: this binary does not say what it was built from")
	}
	revision := "unknown revision"
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	_, err := fmt.Fprintf(e.stdout, "understudy %s %s %s\n", info.Main.Version, revision, info.GoVersion)
	return err
}

// healthTimeout is how long a health page may take.
const healthTimeout = 3 * time.Second

// health asks a health page, as a container's health check does.
type health struct {
	URL string `arg:"" placeholder:"URL" help:"Such as http://127.0.0.1:9090/readyz."`
}

func (h *health) run(ctx context.Context, e env) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL, nil)
	if err != nil {
		return err
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		say(e.stderr, "proxy: health: %v\n", err)
		return errFailed
	}
	defer res.Body.Close() //nolint:errcheck // only read
	reason, err := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	if err != nil || res.StatusCode != http.StatusOK {
		say(e.stderr, "proxy: health: %s: %s: %s\n", h.URL, res.Status, reason)
		return errFailed
	}
	return nil
}
