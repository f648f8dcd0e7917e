package cluster_test

import (
	"context"
	"fmt"

	"github.com/understudy-lb/understudy/cluster"
)

// Two members find each other; one leaves, and the other knows for sure.
func Example() {
	a, err := cluster.New(cluster.Config{
		Self: cluster.Member{Name: "a", Boot: 1, HTTP: "127.0.0.1:8081", State: cluster.Running},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = a.Close() }()
	changed, stop := a.Subscribe()
	defer stop()

	b, err := cluster.New(cluster.Config{
		Self: cluster.Member{Name: "b", Boot: 1, HTTP: "127.0.0.1:8082"},
		Join: []string{a.Self().Gossip},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	<-b.Sought()
	for _, m := range b.Members() {
		fmt.Println(m.ID(), m.HTTP, m.State)
	}
	for len(a.Members()) < 2 {
		<-changed
	}

	if err := b.Leave(context.Background()); err != nil {
		fmt.Println(err)
	}
	for !a.Gone("b#1") {
		<-changed
	}
	fmt.Println("b#1 is gone, a sees", len(a.Members()))
	_ = b.Close()
	// Output:
	// a#1 127.0.0.1:8081 running
	// b#1 127.0.0.1:8082 starting
	// b#1 is gone, a sees 1
}
