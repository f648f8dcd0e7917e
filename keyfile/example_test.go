package keyfile_test

import (
	"fmt"
	"strings"

	"github.com/understudy-lb/understudy/keyfile"
)

func ExampleParse() {
	file := `# made by proxy keygen
00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
`
	keys, err := keyfile.Parse("cluster.key", strings.NewReader(file))
	fmt.Println(keys, len(keys[0].Derive("gossip")), err)

	_, err = keyfile.Parse("cluster.key", strings.NewReader(file[:60]))
	fmt.Println(err)

	// Output:
	// [key(redacted)] 32 <nil>
	// cluster.key:2: has 37 hexadecimal digits, want 64
}

func ExampleKey_Hex() {
	key := keyfile.Generate()
	fmt.Println(len(key.Hex()), key)
	// Output:
	// 64 key(redacted)
}
