package cookie_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/understudy-lb/understudy/cookie"
)

func ExampleCodec() {
	codec, err := cookie.New(cookie.Config{
		Keys: [][]byte{bytes.Repeat([]byte("k"), 32)}, // from a key file, in earnest
	})
	if err != nil {
		log.Fatal(err)
	}
	raw, err := codec.Encode(cookie.Value{ID: "s1", Primary: "a", Secondary: "b", Epoch: cookie.Epoch{N: 3, Boot: 1893456000, Seq: 1}})
	if err != nil {
		log.Fatal(err)
	}
	v, err := codec.Decode(raw)
	fmt.Println(v.Primary, v.Secondary, v.Epoch, err)

	_, err = codec.Decode("forged")
	fmt.Println(err)

	// Output:
	// a b 3.1893456000.1 <nil>
	// cookie: invalid session cookie
}

func ExampleFinder() {
	finder, err := cookie.NewFinder(cookie.FinderConfig{}) // mod_jk's names; no signed values
	if err != nil {
		log.Fatal(err)
	}
	usable := func(route []byte) bool { return string(route) == "n2" }
	var scratch cookie.Scratch // one for each goroutine

	ref := finder.Find([]byte("/cart;jsessionid=old.n1"), [][]byte{[]byte("lang=de; JSESSIONID=abc.n2")}, usable, &scratch)
	fmt.Printf("%s on %s, from the path: %v\n", ref.ID, ref.Primary, ref.FromPath)

	// Output:
	// abc on n2, from the path: false
}

func ExampleParseEpoch() {
	e, err := cookie.ParseEpoch("3.1893456000.1")
	fmt.Println(e.N, e.Boot, e.Seq, err)

	_, err = cookie.ParseEpoch("3.01.1")
	fmt.Println(err)

	// Output:
	// 3 1893456000 1 <nil>
	// cookie: epoch "3.01.1": want counter.boot.number, each decimal and below 2^32
}

func ExampleStripParam() {
	fmt.Println(cookie.StripParam("/shop;jsessionid=abc.n2/cart;v=1?x=y", "jsessionid"))
	// Output: /shop/cart;v=1?x=y
}

func ExampleValidName() {
	fmt.Println(cookie.ValidName("node-1"))
	fmt.Println(cookie.ValidName("node 1"))
	// Output:
	// <nil>
	// cookie: name "node 1" has ' ': want letters, digits, '-', '_', '.' and '~'
}
