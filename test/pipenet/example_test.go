package pipenet_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/understudy-lb/understudy/test/pipenet"
)

func Example() {
	net := pipenet.New()
	a, b := net.Host("10.0.0.1"), net.Host("10.0.0.2")
	ln, err := b.Listen("tcp", ":7000")
	if err != nil {
		fmt.Println(err)
		return
	}

	net.Cut("10.0.0.1", "10.0.0.2")
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err = a.Dial(ctx, "tcp", ln.Addr().String())
	fmt.Println("cut:", err)

	net.Heal("10.0.0.1", "10.0.0.2")
	_, err = a.Dial(context.Background(), "tcp", ln.Addr().String())
	fmt.Println("healed:", err)

	b.Kill()
	_, err = a.Dial(context.Background(), "tcp", ln.Addr().String())
	fmt.Println("killed:", errors.Is(err, syscall.ECONNREFUSED))
	// Output:
	// cut: dial tcp 10.0.0.2:7000: context deadline exceeded
	// healed: <nil>
	// killed: true
}
