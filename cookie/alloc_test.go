package cookie

import (
	"testing"
)

// TestAllocations is the gate of design section 6: reading the session of a
// request allocates nothing, whichever key has signed and wherever the value
// stands. Each call is checked to do what its name says.
func TestAllocations(t *testing.T) {
	c := newCodec(t, newKey, oldKey)
	f := newFinder(t, c)
	var s Scratch
	newest, old, bad := []byte(encode(t, usual, newKey)), []byte(encode(t, usual, oldKey)), []byte(encode(t, usual, foreignKey))
	verify := func(raw []byte, want bool) func() {
		return func() {
			if _, ok := c.Verify(raw, &s); ok != want {
				t.Errorf("Verify(%s) = %v, want %v", raw, ok, want)
			}
		}
	}
	find := func(path string, want string, cookies ...string) func() {
		target := []byte(path)
		var lines [][]byte
		for _, line := range cookies {
			lines = append(lines, []byte(line))
		}
		return func() {
			if ref := f.Find(target, lines, members, &s); string(ref.Primary) != want {
				t.Errorf("Find(%q, %q) names %q, want %q", path, cookies, ref.Primary, want)
			}
		}
	}
	strs := []string{"a=b", "JSESSIONID=" + string(old)}
	tests := []struct {
		name string
		call func()
	}{
		{"Verify, first key", verify(newest, true)},
		{"Verify, second key", verify(old, true)},
		{"Verify, no key", verify(bad, false)},
		{"Verify, no base64", verify([]byte("§"+string(newest[2:])), false)},
		{"Find, cookie of the first key", find("/a/b?c=d", "a", "x=y; JSESSIONID="+string(newest))},
		{"Find, cookie of the second key", find("/a/b?c=d", "a", "x=y", `JSESSIONID="`+string(old)+`"`)},
		{"Find, forged", find("/a", "", "JSESSIONID="+string(bad))},
		{"Find, signed path", find("/a;jsessionid="+string(newest)+"/b", "a")},
		{"Find, signed path, all encoded", find("/a;jsessionid="+percent(string(newest))+"/b", "a")},
		{"Find, plain cookie", find("/a", "n2", "x=y; JSESSIONID=abc.n2,z=1")},
		{"Find, plain path, encoded", find("/a;jsessionid=abc%2En2/b", "n2")},
		{"Find, ranked", find("/a", "node1", "JSESSIONID=id.node1:node2.1")},
		{"Find, nothing", find("/a", "", "x=y; z=1")},
		{"FindStrings", func() {
			if ref := f.FindStrings("/a", strs, members, &s); !ref.Signed {
				t.Error("FindStrings found nothing")
			}
		}},
	}
	for _, tt := range tests {
		if got := testing.AllocsPerRun(100, tt.call); got != 0 {
			t.Errorf("%s: %v allocations, want 0", tt.name, got)
		}
	}
}
