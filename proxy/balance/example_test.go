package balance_test

import (
	"fmt"

	"github.com/understudy-lb/understudy/proxy/balance"
)

// A request whose session names n2 as primary and n3 as secondary, while n2 does
// not answer.
func ExampleBalancer_Pick() {
	b, err := balance.New(balance.Config{
		Members: []balance.Member{{Route: "n1"}, {Route: "n2"}, {Route: "n3"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var round balance.Round
	for range 2 {
		lease, err := b.Pick(balance.Request{Primary: []byte("n2"), Secondary: []byte("n3"), Round: &round})
		if err != nil {
			fmt.Println(err)
			return
		}
		outcome := balance.OK
		if lease.Route() == "n2" {
			outcome = balance.Unreachable
		}
		fmt.Println(lease.Route(), "by", lease.Reason(), "was", outcome)
		lease.Done(outcome)
	}
	// Output:
	// n2 by primary was unreachable
	// n3 by secondary was ok
}
