package worker_test

import (
	"fmt"
	"strings"

	"github.com/understudy-lb/understudy/proxy/worker"
)

// A file with a template, a variable, and a mistake.
func ExampleParse() {
	f, err := worker.Parse("workers.properties", strings.NewReader(`
worker.list=shop
worker.shop.type=lb
worker.shop.balance_workers=a,b

net=10.0.0
worker.node.type=http
worker.node.port=8080
worker.a.reference=worker.node
worker.a.host=$(net).1
worker.b.reference=worker.node
worker.b.host=$(net).2
worker.b.prot=8081
`), nil)
	fmt.Println(err)
	for _, m := range f.LBs[0].Members[:2] {
		fmt.Println(m.Name, m.Address(), m.SocketConnectTimeout)
	}
	// Output:
	// workers.properties:13: worker.b.prot: unknown directive "prot"
	// a 10.0.0.1:8080 500ms
	// b 10.0.0.2:8080 500ms
}
