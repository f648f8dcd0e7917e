package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/understudy-lb/understudy/proxy"
	"github.com/understudy-lb/understudy/proxy/frontend"
	"github.com/understudy-lb/understudy/proxy/worker"
)

// A proxy over one member, from its start to its end.
func ExampleProxy() {
	member := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s for %s", r.URL, r.Host) //nolint:errcheck // the client has gone if it fails
	}))
	defer member.Close()
	host, port, _ := net.SplitHostPort(member.Listener.Addr().String())

	file, err := worker.Parse("workers.properties", strings.NewReader(
		"worker.a.type=http\nworker.a.host="+host+"\nworker.a.port="+port+"\n"+
			"worker.lb.type=lb\nworker.lb.balance_workers=a\nworker.list=lb\n"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := proxy.New(proxy.Config{Workers: file})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	front, err := frontend.New(frontend.Config{Proxy: p})
	if err != nil {
		fmt.Println(err)
		return
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	served := make(chan error, 1)
	go func() { served <- front.Serve(ln) }()

	r, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+ln.Addr().String()+"/counter?n=1", nil)
	r.Host = "shop.test"
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		fmt.Println(err)
		return
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	fmt.Printf("%d %s\n", resp.StatusCode, body)

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	fmt.Println(front.Shutdown(ctx), <-served)
	// Output:
	// 200 /counter?n=1 for shop.test
	// <nil> <nil>
}
