package understudy_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fieldCases are the situations in which others have lost sessions (H), surprised
// the applications that use them (I), or lost members (K). The numbering has gaps.
// What each is, and what is right, stands at the test that names it.
const fieldCases = `
	H01 H02 H04 H05 H07 H08 H10 H11 H13 H14 H16 H17 H19 H20 H22 H23 H25 H26 H28 H29 H31 H32 H34
	I01 I02 I04 I05 I07 I08 I10 I11 I13 I14 I16 I17
	K01 K02 K04 K05 K07 K08 K10 K11`

// TestFieldCasesAreNamed looks for each case in the tests of this module.
func TestFieldCasesAreNamed(t *testing.T) {
	named := map[string]string{}
	id := regexp.MustCompile(`\b[HIK][0-9]{2}\b`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") || path == "cases_test.go" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range id.FindAllString(string(text), -1) {
			named[found] = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for c := range strings.FieldsSeq(fieldCases) {
		if named[c] == "" {
			t.Errorf("no test names case %s", c)
		}
		delete(named, c)
	}
	for c, path := range named {
		t.Errorf("%s: there is no case %s", path, c)
	}
}
