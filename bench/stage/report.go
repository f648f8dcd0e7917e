package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Write writes the report name as text, as a chart and as the bare numbers to a
// folder, and shows the text.
func Write(dir, name, text, chart string, numbers any) error {
	raw, err := json.MarshalIndent(numbers, "", " ")
	if err != nil {
		return err
	}
	file := func(ext, text string) error {
		return os.WriteFile(filepath.Join(dir, name+ext), []byte(text), 0o644)
	}
	fmt.Print(text)
	return errors.Join(os.MkdirAll(dir, 0o755), file(".md", text), file(".svg", chart), file(".json", string(raw)+"\n"))
}

// Versions lists what Go and each of the commands say of themselves, in one line;
// a command that is not there is left out.
func Versions(ctx context.Context, cmds ...[]string) string {
	list := []string{runtime.Version()}
	for _, cmd := range append(cmds, []string{"uname", "-sr"}) {
		out, err := exec.CommandContext(ctx, cmd[0], cmd[1:]...).CombinedOutput()
		if err == nil {
			line, _, _ := strings.Cut(string(out), "\n")
			list = append(list, strings.ReplaceAll(strings.TrimSpace(line), "\t", " "))
		}
	}
	return List(list)
}

// List is a list in Markdown.
func List(items []string) string {
	var b strings.Builder
	for _, s := range items {
		fmt.Fprintf(&b, "* %s\n", s)
	}
	return b.String()
}

// Chart is an SVG picture with a title; bars is what stands in it.
func Chart(width, height int, title, bars string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">
<rect width="100%%" height="100%%" fill="white"/>
<text x="10" y="20" font-size="14">%s</text>
%s</svg>
`, width, height, title, bars)
}

// Milliseconds is d as the reports show it.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Spread is the median with the lowest and highest; empty without any.
func Spread(v []float64, digits int) string {
	if len(v) == 0 {
		return ""
	}
	return fmt.Sprintf("%.[4]*[1]f (%.[4]*[2]f–%.[4]*[3]f)", Median(slices.Clone(v)), slices.Min(v), slices.Max(v), digits)
}
