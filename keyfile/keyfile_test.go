package keyfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

const (
	hexA = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	hexB = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name string
		file string
		want []string // Hex of each key
		err  string   // the whole error
	}{{
		name: "one key without a newline",
		file: hexA,
		want: []string{hexA},
	}, {
		name: "comments, blank lines and blanks around keys are skipped",
		file: "# new\n\n  " + hexB + "\t\r\n \t\n  # old\n" + hexA + "\n",
		want: []string{hexB, hexA},
	}, {
		name: "digits in capitals",
		file: strings.ToUpper(hexA),
		want: []string{hexA},
	}, {
		name: "empty",
		file: "",
		err:  "k:1: no key up to the end of the file, want a line of 64 hexadecimal digits (proxy keygen makes one)",
	}, {
		name: "only comments",
		file: "# nothing yet\n#" + hexA + "\n",
		err:  "k:3: no key up to the end of the file, want a line of 64 hexadecimal digits (proxy keygen makes one)",
	}, {
		name: "short",
		file: "# keys\n\n" + hexA[:40] + "\n",
		err:  "k:3: has 40 hexadecimal digits, want 64",
	}, {
		name: "two keys in one line without a blank",
		file: hexA + hexB,
		err:  "k:1: has 128 hexadecimal digits, want 64",
	}, {
		name: "a good key does not excuse a bad one",
		file: hexA + "\n" + hexB[1:] + "\n",
		err:  "k:2: has 63 hexadecimal digits, want 64",
	}, {
		name: "a letter that is no digit",
		file: hexA[:63] + "g",
		err:  "k:1: character 64 of 64 is no hexadecimal digit, want 64 digits and nothing else",
	}, {
		name: "byte order mark",
		file: "\ufeff" + hexA,
		err:  "k:1: character 1 of 67 is no hexadecimal digit, want 64 digits and nothing else",
	}, {
		name: "a comment behind a key",
		file: hexA + " # mine",
		err:  "k:1: character 65 of 71 is no hexadecimal digit, want 64 digits and nothing else",
	}, {
		name: "a comment directly behind a key",
		file: hexA + "# mine",
		err:  "k:1: a comment behind a key: give it a line of its own",
	}, {
		name: "the same key twice, in other capitals",
		file: hexA + "\n" + hexB + "\n" + strings.ToUpper(hexA) + "\n",
		err:  "k:3: the same key as in line 1: remove one of them",
	}, {
		name: "a line that never ends",
		file: strings.Repeat("a", maxLine+1),
		err:  "k:1: the line goes on after 4096 bytes, want 64 hexadecimal digits",
	}, {
		name: "a file that never ends",
		file: strings.Repeat("#\n", maxFile),
		err:  "k:32769: the file goes on after 65536 bytes: this is no key file",
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			keys, err := Parse("k", strings.NewReader(tt.file))
			var got []string
			for _, k := range keys {
				got = append(got, k.Hex())
			}
			if fmt.Sprint(err) != cmpText(tt.err) || !slices.Equal(got, tt.want) {
				t.Errorf("Parse = %q, %v; want %q, %s", got, err, tt.want, cmpText(tt.err))
			}
		})
	}
}

func cmpText(err string) string {
	if err == "" {
		return "<nil>"
	}
	return err
}

// TestTooManyKeys checks the bound, which package cookie shares: every key is
// one more MAC for each forged cookie.
func TestTooManyKeys(t *testing.T) {
	var file bytes.Buffer
	for range maxKeys {
		fmt.Fprintln(&file, Generate().Hex())
	}
	if keys, err := Parse("k", bytes.NewReader(file.Bytes())); err != nil || len(keys) != maxKeys {
		t.Errorf("Parse of %d keys = %d keys, %v", maxKeys, len(keys), err)
	}
	fmt.Fprintln(&file, Generate().Hex())
	_, err := Parse("k", &file)
	if want := "k:9: more than 8 keys: remove those that are out of use"; err == nil || err.Error() != want {
		t.Errorf("Parse of %d keys = %v, want %s", maxKeys+1, err, want)
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cluster.key")
	if _, err := Read(path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("Read of no file = %v, want an error that names it and is fs.ErrNotExist", err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("Read of a folder = %v, want an error that names it", err)
	}
	if err := os.WriteFile(path, []byte("# x\n"+hexA[:10]+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || err.Error() != path+":2: has 10 hexadecimal digits, want 64" {
		t.Errorf("Read of a short key = %v, want %s:2: …", err, path)
	}
	if err := os.WriteFile(path, []byte(hexA+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if keys, err := Read(path); err != nil || len(keys) != 1 || keys[0].Hex() != hexA {
		t.Errorf("Read = %d keys, %v; want the one of the file", len(keys), err)
	}
}

func TestParseReportsReadErrors(t *testing.T) {
	broken := io.MultiReader(strings.NewReader(hexA+"\n"), iotest.ErrReader(io.ErrClosedPipe))
	if _, err := Parse("k", broken); !errors.Is(err, io.ErrClosedPipe) || !strings.HasPrefix(err.Error(), "k:2: ") {
		t.Errorf("Parse = %v, want k:2: %v", err, io.ErrClosedPipe)
	}
}

// TestDerive pins the derivation: a node of another version has to come to the
// same keys. The vectors come from RFC 5869 computed step by step with openssl.
func TestDerive(t *testing.T) {
	keys, err := Parse("k", strings.NewReader(hexA))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{hexA: "the key itself"}
	for purpose, want := range derived {
		got := fmt.Sprintf("%x", keys[0].Derive(purpose))
		if got != want {
			t.Errorf("Derive(%q) = %s, want %s", purpose, got, want)
		}
		if seen[got] != "" {
			t.Errorf("Derive(%q) is the same as that of %s", purpose, seen[got])
		}
		seen[got] = purpose
	}
}

// TestKeysAreNotPrinted goes through the verbs that end up in logs.
func TestKeysAreNotPrinted(t *testing.T) {
	key := Generate()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		if got := fmt.Sprintf(verb, key); got != "key(redacted)" {
			t.Errorf("Sprintf(%q, key) = %q", verb, got)
		}
		if got := fmt.Sprintf(verb, []any{&key, struct{ K Key }{key}}); strings.Contains(got, key.Hex()[:8]) {
			t.Errorf("Sprintf(%q) of a struct with a key shows it: %s", verb, got)
		}
	}
}

// TestErrorsHoldNoKey puts a fault at each place of a file and looks for eight
// digits of a key in the complaint.
func TestErrorsHoldNoKey(t *testing.T) {
	file := "# c\n" + hexA + "\n" + hexB + "\n"
	for i := range file {
		for _, bad := range []string{"", "x", "0", "#", " ", "\n", "\x00", "é"} {
			_, err := Parse("k", strings.NewReader(file[:i]+bad+file[i+1:]))
			if err == nil {
				continue
			}
			for _, key := range []string{hexA, hexB} {
				for j := 0; j+8 <= len(key); j++ {
					if strings.Contains(err.Error(), key[j:j+8]) {
						t.Fatalf("the error shows part of a key: %v", err)
					}
				}
			}
		}
	}
}

func TestGenerate(t *testing.T) {
	a, b := Generate(), Generate()
	if a == b || a == (Key{}) {
		t.Errorf("two generated keys are equal, or the first is zero")
	}
	keys, err := Parse("k", strings.NewReader(a.Hex()))
	if err != nil || keys[0] != a {
		t.Errorf("Parse(Generate().Hex()) = %v, want the same key", err)
	}
}

// FuzzParse checks that no contents make Parse panic, that keys come back in
// the order of their lines, and that every complaint names file and line.
func FuzzParse(f *testing.F) {
	f.Add([]byte(hexA + "\n" + hexB))
	f.Add([]byte("# x\n\n" + hexA[:40]))
	f.Add([]byte("\r\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		keys, err := Parse("k", bytes.NewReader(file))
		if err != nil {
			var line int
			if _, e := fmt.Sscanf(err.Error(), "k:%d: ", &line); e != nil || line < 1 {
				t.Errorf("Parse(%q) = %v, want k:LINE: …", file, err)
			}
			return
		}
		if len(keys) == 0 {
			t.Errorf("Parse(%q) has neither keys nor an error", file)
		}
		rest := strings.ToLower(string(file))
		for _, k := range keys {
			_, after, ok := strings.Cut(rest, k.Hex())
			if !ok {
				t.Fatalf("Parse(%q) has a key that is not in it, or not in its place", file)
			}
			rest = after
		}
	})
}

// derived is what hexA stands for, by purpose.
var derived = map[string]string{
	"gossip":      "ccf9199a2fec4c94159cc4b786c2d50bd45a7ddd3e45df3e789c09dbd7e70dd0",
	"replication": "becf8fb88f24081d57974c72b15a4d3c6698759e21779579f82955bc411f27f5",
	"cookie":      "d312010749451693b3693be2b76500bebccc12836e62d8ac374a76868dc672f1",
}

func TestDeriveAllKeepsTheOrder(t *testing.T) {
	keys := []Key{Generate(), Loopback(), Generate()}
	for i, got := range DeriveAll(keys, "cookie") {
		if want := keys[i].Derive("cookie"); !bytes.Equal(got, want) {
			t.Errorf("DeriveAll[%d] is not what the key of that place derives", i)
		}
	}
	if Loopback() != keys[1] || bytes.Equal(DeriveAll(keys, "gossip")[1], DeriveAll(keys, "cookie")[1]) {
		t.Error("Loopback changes, or serves two purposes with one key")
	}
}
