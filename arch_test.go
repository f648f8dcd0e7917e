package understudy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/understudy-lb/understudy"

// imports is the policy: which of our packages each package may import.
// A package that is not listed may not exist. Do not edit this to make a build
// pass; an arrow added here is a decision, and has an ADR.
var imports = map[string][]string{
	"admin":            {},
	"keyfile":          {},
	"cookie":           {},
	"cluster":          {},
	"session/owner":    {},
	"session/peer":     {},
	"session":          {"cookie", "cluster", "session/owner", "session/peer"},
	"proxy/properties": {},
	"proxy/worker":     {"proxy/properties"},
	"proxy/urimap":     {"proxy/properties"},
	"proxy/httpdconf":  {"proxy/properties"},
	"proxy/balance":    {},
	"proxy/status":     {"admin"},
	"proxy/http1":      {},
	"proxy/ajp":        {},
	"proxy/accesslog":  {},
	"proxy/endpoint":   {"proxy/http1", "proxy/ajp"},
	"proxy":            {"cookie", "proxy/worker", "proxy/urimap", "proxy/balance", "proxy/status", "proxy/http1", "proxy/ajp", "proxy/endpoint", "proxy/accesslog"},
	"proxy/frontend":   {"keyfile", "proxy", "proxy/http1"},
	"cmd/proxy":        {"admin", "settings", "keyfile", "cookie", "cluster", "proxy", "proxy/accesslog", "proxy/properties", "proxy/httpdconf", "proxy/worker", "proxy/urimap", "proxy/status", "proxy/frontend"},
	"cmd/appnode":      {"admin", "settings", "keyfile", "cookie", "cluster", "session", "session/peer"},
	"examples/node":    {"cluster", "cookie", "keyfile", "session"},
	"examples/login":   {"examples/node", "session"},
	"examples/cart":    {"examples/node", "session"},
	"test/pipenet":     {},
	"test/model":       {},
	"test/stage":       {},
	"settings":         {},
}

func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,GoFiles", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg struct {
			ImportPath string
			Imports    []string
			GoFiles    []string
		}
		if err := dec.Decode(&pkg); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		if len(pkg.GoFiles) == 0 {
			continue // only tests, as this directory
		}
		name := strings.TrimPrefix(pkg.ImportPath, module+"/")
		allowed, ok := imports[name]
		if !ok {
			t.Errorf("package %s is not in the policy", name)
		}
		for _, imp := range pkg.Imports {
			if dep, ours := strings.CutPrefix(imp, module+"/"); ours && !slices.Contains(allowed, dep) {
				t.Errorf("%s imports %s, which the policy does not allow", name, dep)
			}
		}
	}
}

// TestFiles checks what a linter does not: that every package says what it is
// for, in one place.
func TestFiles(t *testing.T) {
	docs := map[string]int{}
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		docs[filepath.Dir(path)] += 0
		if f.Doc != nil {
			docs[filepath.Dir(path)]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, n := range docs {
		if n != 1 {
			t.Errorf("%s has %d package comments, want 1", dir, n)
		}
	}
}
