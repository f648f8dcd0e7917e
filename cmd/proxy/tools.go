package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/understudy-lb/understudy/keyfile"
)

// keygen prints a key file with one new key.
func keygen(e env) error {
	_, err := fmt.Fprintln(e.stdout, keyfile.Generate().Hex())
	return err
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
		fmt.Fprintln(e.stderr, "proxy: health:", err)
		return errFailed
	}
	defer res.Body.Close() //nolint:errcheck // only read
	reason, err := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	if err != nil || res.StatusCode != http.StatusOK {
		fmt.Fprintf(e.stderr, "proxy: health: %s: %s: %s\n", h.URL, res.Status, reason)
		return errFailed
	}
	return nil
}
