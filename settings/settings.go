// Package settings reads what an operator sets for a command: flags, then
// environment variables, then one YAML file, then defaults, in this order of
// precedence.
//
// A setting has one name everywhere: the flag --cluster-key is the variable
// UNDERSTUDY_CLUSTER_KEY and the line "cluster-key: …" of the file that
// --config names. A list in the file is a YAML sequence, in the environment
// it is separated by commas.
package settings

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// prefix begins the name of every environment variable that is a setting.
const prefix = "UNDERSTUDY_"

// maxFile is the longest settings file that is read, in bytes.
const maxFile = 1 << 20

// ErrHelp is returned by [Parse] after it has printed help because the command
// line asked for it.
var ErrHelp = errors.New("settings: help was asked for")

// Config says what [Parse] reads and where it prints help.
type Config struct {
	Name        string              // of the program, for help
	Description string              // one sentence, for help
	Args        []string            // the command line without the program
	Getenv      func(string) string // as os.Getenv; "" counts as not set
	Stdout      io.Writer           // where help goes
}

// Parse fills grammar, a pointer to a struct with kong's tags, and returns the
// command that was chosen ("" if the grammar has none). If the grammar has a
// flag --config, the file that it names is read too.
//
// An error names the place to edit: the flag, the variable, or file and line.
func Parse(grammar any, cfg Config) (command string, err error) {
	helped := false
	parser, err := kong.New(grammar,
		kong.Name(cfg.Name),
		kong.Description(cfg.Description+"\n\n"+everywhere),
		kong.ValueFormatter(help),
		kong.Writers(cfg.Stdout, cfg.Stdout),
		kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.UsageOnError(),
	)
	if err != nil {
		return "", fmt.Errorf("settings: %w", err)
	}
	for _, command := range parser.Model.Leaves(false) {
		switch {
		case slices.ContainsFunc(command.Flags, func(f *kong.Flag) bool { return f.Name == "config" }):
			command.Detail = everywhere
		case len(command.Flags) > 0:
			command.Detail = variables + "."
		}
	}
	src := &source{getenv: cfg.Getenv}
	if err := kong.Resolvers(src).Apply(parser); err != nil {
		return "", fmt.Errorf("settings: %w", err)
	}
	ctx, err := parser.Parse(cfg.Args)
	if helped {
		return "", ErrHelp
	}
	if err == nil {
		if file := fileNamed(ctx); file != "" {
			if src.file, err = readFile(file, parser.Model); err != nil {
				return "", err
			}
			ctx, err = parser.Parse(cfg.Args)
		}
	}
	if err != nil {
		return "", err
	}
	return ctx.Command(), nil
}

// What the help says of where a setting can come from.
const (
	variables  = "Every flag is also an environment variable (--some-flag is " + prefix + "SOME_FLAG)"
	everywhere = variables + " and a name in the YAML file of --config."
)

// help is what the help says of a flag: also its default where a placeholder
// stands in its place, and the values that it can have.
func help(v *kong.Value) string {
	text := v.Help
	if v.Enum != "" {
		text += " One of " + strings.ReplaceAll(v.Enum, ",", ", ") + "."
	}
	if v.Tag != nil && v.Tag.PlaceHolder != "" && v.HasDefault {
		text += " [" + v.Default + "]"
	}
	return text
}

// fileNamed returns the value of --config, "" without one.
func fileNamed(ctx *kong.Context) string {
	for _, flag := range ctx.Flags() {
		if flag.Name == "config" {
			if s, ok := ctx.FlagValue(flag).(string); ok {
				return s
			}
		}
	}
	return ""
}

// source is kong's resolver over environment and file.
type source struct {
	getenv func(string) string
	file   map[string]entry // from the settings file; nil without one
}

// An entry is one line of the settings file.
type entry struct {
	value string // a list is joined with commas
	place string // file:line
}

// Validate is kong's; there is nothing to do.
func (s *source) Validate(*kong.Application) error { return nil }

// Resolve returns the value of a flag that the command line does not have, or
// nil.
func (s *source) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	name := prefix + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
	value, place := s.getenv(name), name
	if value == "" {
		e, ok := s.file[flag.Name]
		if !ok {
			return nil, nil //nolint:nilnil // kong's way to say: not set here
		}
		value, place = e.value, e.place
	}
	// Tried here once so that the error can name the place.
	scratch := reflect.New(flag.Target.Type()).Elem()
	if err := flag.Mapper.Decode(&kong.DecodeContext{
		Value: flag.Value, Scan: kong.Scan().PushTyped(value, kong.FlagValueToken),
	}, scratch); err != nil {
		return nil, fmt.Errorf("%s: %w", place, err)
	}
	return value, nil
}

// readFile reads the settings file at path; only names of flags of app are
// allowed in it.
func readFile(path string, app *kong.Application) (map[string]entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s: is larger than %d bytes", path, maxFile)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(doc.Content) == 0 {
		return nil, nil //nolint:nilnil // an empty file sets nothing
	}
	return entries(path, doc.Content[0], known(app))
}

// known returns the names of all flags of app and its commands.
func known(app *kong.Application) map[string]bool {
	names := map[string]bool{}
	for _, nodes := range append([]*kong.Node{app.Node}, app.Leaves(true)...) {
		for _, flags := range nodes.AllFlags(false) {
			for _, flag := range flags {
				names[flag.Name] = true
			}
		}
	}
	delete(names, "help")
	delete(names, "config")
	return names
}

func entries(path string, top *yaml.Node, names map[string]bool) (map[string]entry, error) {
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: want lines of the form name: value", path, top.Line)
	}
	set := map[string]entry{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		place := fmt.Sprintf("%s:%d", path, key.Line)
		if !names[key.Value] {
			return nil, fmt.Errorf("%s: unknown setting %q", place, key.Value)
		}
		if _, twice := set[key.Value]; twice {
			return nil, fmt.Errorf("%s: %s is set twice", place, key.Value)
		}
		var parts []string
		list := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			list = value.Content
		}
		for _, v := range list {
			if v.Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("%s: %s: want a value or a list of values", place, key.Value)
			}
			parts = append(parts, v.Value)
		}
		set[key.Value] = entry{strings.Join(parts, ","), place}
	}
	return set, nil
}

// OnLoopback reports whether addr, HOST:PORT, can be reached from this machine
// alone. A name counts only if it is "localhost", an empty host not at all.
func OnLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
