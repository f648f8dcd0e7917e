package settings

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

type grammar struct {
	Config string        `help:"YAML file with more settings."`
	Listen []string      `default:"127.0.0.1:8080" help:"Addresses."`
	Wait   time.Duration `default:"1s"             help:"How long."`
	Strict bool          `help:"Say no."`
}

// parse runs Parse with file as the text of a settings file, none if "".
func parse(t *testing.T, file string, env map[string]string, args ...string) (grammar, error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "s.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	var g grammar
	_, err := Parse(&g, Config{
		Name: "test", Args: args, Stdout: &bytes.Buffer{},
		Getenv: func(name string) string { return env[name] },
	})
	return g, err
}

func TestPrecedence(t *testing.T) {
	env := map[string]string{"UNDERSTUDY_WAIT": "2s"}
	tests := []struct {
		name string
		file string
		env  map[string]string
		args []string
		want time.Duration
	}{
		{"default", "", nil, nil, time.Second},
		{"file beats default", "wait: 3s", nil, nil, 3 * time.Second},
		{"environment beats file", "wait: 3s", env, nil, 2 * time.Second},
		{"flag beats all", "wait: 3s", env, []string{"--wait", "4s"}, 4 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, err := parse(t, tt.file, tt.env, tt.args...)
			if err != nil || g.Wait != tt.want {
				t.Errorf("Parse = %v, %v; want %v", g.Wait, err, tt.want)
			}
		})
	}
}

func TestLists(t *testing.T) {
	want := []string{"127.0.0.1:1", "[::1]:2"}
	for name, got := range map[string]func() (grammar, error){
		"file": func() (grammar, error) { return parse(t, "listen: ['127.0.0.1:1', '[::1]:2']", nil) },
		"environment": func() (grammar, error) {
			return parse(t, "", map[string]string{"UNDERSTUDY_LISTEN": "127.0.0.1:1,[::1]:2"})
		},
		"flags": func() (grammar, error) { return parse(t, "", nil, "--listen", "127.0.0.1:1", "--listen=[::1]:2") },
	} {
		if g, err := got(); err != nil || !slices.Equal(g.Listen, want) {
			t.Errorf("%s: Listen = %q, %v; want %q", name, g.Listen, err, want)
		}
	}
}

func TestErrorsNameThePlace(t *testing.T) {
	tests := []struct {
		name, file string
		env        map[string]string
		args       []string
		want       string
	}{
		{"unknown name in the file", "wait: 1s\nwiat: 2s\n", nil, nil, `s.yaml:2: unknown setting "wiat"`},
		{"wrong value in the file", "\nwait: soon\n", nil, nil, "s.yaml:2: "},
		{"twice in the file", "wait: 1s\nwait: 2s\n", nil, nil, "s.yaml"},
		{"nested value", "wait: {a: b}\n", nil, nil, "s.yaml:1: wait: want a value"},
		{"not a mapping", "- a\n", nil, nil, "s.yaml:1: want lines"},
		{"wrong value in the environment", "", map[string]string{"UNDERSTUDY_WAIT": "soon"}, nil, "UNDERSTUDY_WAIT: "},
		{"wrong flag", "", nil, []string{"--wait=soon"}, "--wait"},
		{"unknown flag", "", nil, []string{"--wiat=1s"}, "--wiat"},
		{"file is not there", "", nil, []string{"--config", "/does/not/exist"}, "/does/not/exist"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(t, tt.file, tt.env, tt.args...)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Parse: %v; want an error with %q", err, tt.want)
			}
		})
	}
}

// TestHelp checks that the help has every default and every value that is allowed,
// and that of a command says where its settings can come from.
func TestHelp(t *testing.T) {
	var g struct {
		Serve struct {
			Config string `placeholder:"FILE" help:"More."`
			Listen string `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address."`
			Level  string `default:"info" enum:"debug,info" help:"Least level."`
		} `cmd:"" help:"Serve."`
		Ask struct {
			Wait time.Duration `default:"1s" help:"How long."`
		} `cmd:"" help:"Ask."`
		Version struct{} `cmd:"" help:"Print it."`
	}
	for command, want := range map[string][]string{
		"serve":   {"Address. [127.0.0.1:8080]", `--level="info"`, "One of debug, info.", "UNDERSTUDY_SOME_FLAG", "the YAML file of --config", "More.\n"},
		"ask":     {"--wait=1s", "How long.\n", "(--some-flag is UNDERSTUDY_SOME_FLAG)."},
		"version": {"Print it.\n\nFlags:"},
	} {
		var out strings.Builder
		_, err := Parse(&g, Config{Name: "test", Args: []string{command, "--help"}, Getenv: func(string) string { return "" }, Stdout: &out})
		if !errors.Is(err, ErrHelp) {
			t.Errorf("%s --help: %v, want ErrHelp", command, err)
		}
		for _, part := range want {
			if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), strings.Join(strings.Fields(part), " ")) {
				t.Errorf("%s --help has no %q:\n%s", command, part, out.String())
			}
		}
	}
}

func TestOnLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:80": true, "127.9.9.9:0": true, "[::1]:80": true, "localhost:80": true,
		":80": false, "0.0.0.0:80": false, "[::]:80": false, "10.0.0.1:80": false, "example.com:80": false, "127.0.0.1": false, "": false,
	} {
		if got := OnLoopback(addr); got != want {
			t.Errorf("OnLoopback(%q) = %v, want %v", addr, got, want)
		}
	}
}
