package endpoint_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/understudy-lb/understudy/proxy/endpoint"
	"github.com/understudy-lb/understudy/proxy/http1"
)

// Two requests go over one connection.
func Example() {
	member := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok"))
	}))
	defer member.Close()

	e, err := endpoint.New(endpoint.Config{Address: member.Listener.Addr().String()})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()

	for range 2 {
		c, failure := e.Send(context.Background(), []byte("GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n"), endpoint.Wait{})
		if failure != nil {
			log.Fatal(failure)
		}
		var rep http1.Reply
		if failure := c.ReadReply(&rep, http1.MethodGet); failure != nil {
			c.Close()
			log.Fatal(failure)
		}
		piece, err := rep.Body.Next()
		if err != nil {
			log.Fatal(c.BodyFailure(err))
		}
		fmt.Printf("%d %s\n", rep.Status, piece)
		c.Done(&rep)
	}
	fmt.Println("dials:", e.Stats().Dials)
	// Output:
	// 200 ok
	// 200 ok
	// dials: 1
}
