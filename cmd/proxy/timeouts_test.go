package main

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/understudy-lb/understudy/proxy"
)

// flagDefaults returns the settings of a struct by flag, with their defaults, and
// which of them are durations.
func flagDefaults(t reflect.Type) (defaults map[string]string, durations []string) {
	defaults = map[string]string{}
	for f := range t.Fields() {
		if f.Anonymous {
			more, ds := flagDefaults(f.Type)
			maps.Copy(defaults, more)
			durations = append(durations, ds...)
			continue
		}
		name := f.Tag.Get("name")
		if name == "" {
			name = strings.ToLower(regexp.MustCompile("([a-z0-9])([A-Z])").ReplaceAllString(f.Name, "$1-$2"))
		}
		defaults[name] = f.Tag.Get("default")
		if f.Type == reflect.TypeFor[time.Duration]() {
			durations = append(durations, name)
		}
	}
	return defaults, durations
}

// testNames returns the tests of the module.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	decl := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range decl.FindAllStringSubmatch(string(text), -1) {
			names[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// The page of time-outs and limits has every setting that is one, with the default
// that it really has, and each row is shown by a test that exists.
func TestTimeoutsPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/timeouts.md")
	if err != nil {
		t.Fatal(err)
	}
	defaults, durations := flagDefaults(reflect.TypeFor[serveConfig]())
	tests := testNames(t)
	flag, test := regexp.MustCompile("`--([a-z-]+)`"), regexp.MustCompile(`\bTest\w+`)
	found := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, " | ")
		if len(cells) < 4 || strings.HasPrefix(line, "| what") || strings.HasPrefix(line, "| ---") {
			continue
		}
		names := test.FindAllString(cells[len(cells)-1], -1)
		if len(names) == 0 {
			t.Errorf("no test shows %q", strings.TrimSpace(line))
		}
		for _, name := range names {
			if !tests[name] {
				t.Errorf("there is no %s: %q", name, strings.TrimSpace(line))
			}
		}
		if m := flag.FindStringSubmatch(cells[1]); m != nil {
			found[m[1]] = true
			if def, ok := defaults[m[1]]; !ok || def != cells[2] {
				t.Errorf("--%s: the page says %q and the command %q", m[1], cells[2], def)
			}
		}
	}
	for _, name := range durations {
		if !found[name] {
			t.Errorf("--%s is not on the page", name)
		}
	}
	if len(found) < 10 {
		t.Errorf("the page has %d settings", len(found))
	}
}

// What is no time, or too little, is refused by the name of the setting; 0 means no
// limit where there may be none.
func TestTimeoutSettings(t *testing.T) {
	retry := retryConfig{MaxResend: 1, RetryBudget: 20, ResendWait: time.Second}
	times := timeoutConfig{BodyTimeout: time.Second, WriteTimeout: time.Second}
	type settings struct {
		retryConfig
		timeoutConfig
		balanceConfig
	}
	apply := func(change func(*settings)) (cfg proxy.Config, err error) {
		s := settings{retry, times, balanceConfig{DrainIdle: time.Minute}}
		change(&s)
		if err = s.retryConfig.apply(&cfg); err == nil {
			err = s.timeoutConfig.apply(&cfg)
		}
		if err == nil {
			err = s.balanceConfig.apply(&cfg)
		}
		return cfg, err
	}
	for want, change := range map[string]func(*settings){
		"--max-resend 0":        func(s *settings) { s.MaxResend = 0 },
		"--retry-budget 101":    func(s *settings) { s.RetryBudget = 101 },
		"--resend-wait -1s":     func(s *settings) { s.ResendWait = -time.Second },
		"--body-timeout 0s":     func(s *settings) { s.BodyTimeout = 0 },
		"--write-timeout -1s":   func(s *settings) { s.WriteTimeout = -time.Second },
		"--request-timeout -1s": func(s *settings) { s.RequestTimeout = -time.Second },
		"--connection-age -1s":  func(s *settings) { s.ConnectionAge = -time.Second },
		"--health-interval -1s": func(s *settings) { s.HealthInterval = -time.Second },
		"--drain-deadline -1s":  func(s *settings) { s.DrainDeadline = -time.Second },
		"--drain-idle 0s":       func(s *settings) { s.DrainIdle = 0 },
		"--slow-start -1s":      func(s *settings) { s.SlowStart = -time.Second },
	} {
		if _, err := apply(change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
	cfg, err := apply(func(s *settings) { s.ResendWait, s.RetryBudget, s.ConnectionAge, s.MaxResend = 0, 0, 0, -1 })
	if err != nil || cfg.ResendWait >= 0 || cfg.RetryBudget >= 0 || cfg.ConnectionAge >= 0 || cfg.MaxResend >= 0 {
		t.Errorf("0 gives %+v, %v; want no wait and no limits", cfg, err)
	}
}
