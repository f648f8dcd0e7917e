package urimap_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/understudy-lb/understudy/proxy/urimap"
)

const rules = `# the shop, and what the web server keeps
/shop|/*=shoplb;reply_timeout=5000
!/shop/static/*=*
/*.jsp=legacy
`

func ExampleMap_Match() {
	m, err := urimap.Parse("uriworkermap.properties", strings.NewReader(rules), urimap.Config{})
	if err != nil {
		log.Fatal(err)
	}
	var scratch urimap.Scratch // one for each goroutine
	for _, path := range []string{"/shop", "/shop;jsessionid=1a2b.n1/cart", "/shop/static/logo.png", "/x.jsp", "/shop/../../x"} {
		if match, ok := m.Match([]byte(path), &scratch); ok {
			fmt.Println(path, "→", match.Worker, match.Rule.Extensions.ReplyTimeout)
		} else {
			fmt.Println(path, "→", match.Outcome.Status())
		}
	}

	// Output:
	// /shop → shoplb 5s
	// /shop;jsessionid=1a2b.n1/cart → shoplb 5s
	// /shop/static/logo.png → 404
	// /x.jsp → legacy 0s
	// /shop/../../x → 400
}

func ExampleMap_Explain() {
	m, err := urimap.Parse("uriworkermap.properties", strings.NewReader(rules), urimap.Config{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(m.Explain("/shop/static/../x.jsp?y=1"))

	// Output:
	// /shop/static/../x.jsp is compared as /shop/x.jsp
	//   uriworkermap.properties:2: /shop/*=shoplb;reply_timeout=5000: matches, the first
	//   uriworkermap.properties:4: /*.jsp=legacy: matches too, but comes later: fewer slashes, 1 instead of 2
	//   uriworkermap.properties:3: !/shop/static/*=*: does not exclude
	// /shop/static/../x.jsp: worker shoplb;reply_timeout=5000
}

func ExampleParse() {
	m, err := urimap.Parse("uriworkermap.properties", strings.NewReader("*.jsp=shop\n/app/*=Shop\n/app/*=shop\n"), urimap.Config{
		Workers: []urimap.Worker{{Name: "shop", Balancer: true, Members: []string{"n1", "n2"}}},
	})
	fmt.Println(err)
	for _, p := range m.Problems {
		fmt.Println(p)
	}
	fmt.Print(m)

	// Output:
	// <nil>
	// uriworkermap.properties:1: *.jsp: mod_jk refuses a pattern without '/' at its start; it is read as /*.jsp
	// uriworkermap.properties:3: /app/*: set again, line 2 has no effect any more
	// uriworkermap.properties:3: /app/*=shop
	// uriworkermap.properties:1: /*.jsp=shop
}

func ExampleNormalise() {
	for _, path := range []string{"/app//./x", "/app/..;a=b/manager", "/.."} {
		normal, ok := urimap.Normalise(nil, []byte(path))
		fmt.Println(string(normal), ok)
	}

	// Output:
	// /app/x true
	// /manager true
	//  false
}
