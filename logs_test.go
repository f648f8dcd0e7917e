package understudy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestEventsAreDocumented compares the events of all packages with the tables of
// docs/logs.md, both ways: scripts rely on messages. Those of level debug are for
// developers and may change.
func TestEventsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("docs/logs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, events, ok := strings.Cut(string(page), "\n## Events\n")
	if !ok {
		t.Fatal("docs/logs.md has no section Events")
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (?:info|warn|error)").FindAllStringSubmatch(events, -1) {
		documented[m[1]] = false
	}
	for message, where := range logged(t) {
		if _, ok := documented[message]; !ok {
			t.Errorf("%s: the event %q is not in docs/logs.md", where, message)
		}
		documented[message] = true
	}
	for message, found := range documented {
		// Messages of package cluster are put together.
		what, member := strings.CutPrefix(message, "member ")
		if !found && (!member || !in(t, "cluster", strconv.Quote(what))) {
			t.Errorf("docs/logs.md has the event %q, which nobody logs", message)
		}
	}
}

// logged returns the messages of events above level debug, and where they are.
func logged(t *testing.T) map[string]string {
	t.Helper()
	messages := map[string]string{}
	set := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 || !calls(call, "Msg") || debug(call) {
				return true
			}
			if lit, ok := call.Args[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					messages[text] = set.Position(lit.Pos()).String()
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

// calls reports whether call is of a method called name.
func calls(call *ast.CallExpr, name string) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == name
}

// debug reports whether a chain of calls begins with level debug, or with an event
// of which that is known elsewhere: those of level debug are made beforehand.
func debug(call *ast.CallExpr) bool {
	for {
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		if sel.Sel.Name == "Debug" || sel.Sel.Name == "Trace" {
			return true
		}
		next, ok := sel.X.(*ast.CallExpr)
		if !ok {
			id, variable := sel.X.(*ast.Ident)
			return variable && id.Name == "e"
		}
		call = next
	}
}

// in reports whether text stands in a source file of dir.
func in(t *testing.T, dir, text string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test.go") && strings.Contains(string(b), text) {
			return true
		}
	}
	return false
}
