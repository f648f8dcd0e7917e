package cluster

import (
	"errors"
	"fmt"
)

// An Order is what an operator wants of a member, passed on by another one
// (SESS-39). The cluster's key is what the receiver believes; without a key only
// programs on the same machine can send one.
type Order byte

// The orders. They go over the wire.
const (
	OrderDrain  Order = 1 // hand the sessions over, and take no new ones
	OrderResume Order = 2 // serve again
)

// orderVersion begins the message of an order: it is followed by the order and
// the id of the boot that it is for. Those of departures begin with another byte.
const orderVersion = 2

var errOrder = errors.New("malformed order")

// Order sends an order to a member, and returns when it has arrived. What becomes
// of it is to be seen in that member's State.
func (c *Cluster) Order(to Member, o Order) error {
	if to.ID() == c.view.self {
		c.delegate.order(o)
		return nil
	}
	if err := sendReliable(c.ml, to, append([]byte{orderVersion, byte(o)}, to.ID()...)); err != nil {
		return fmt.Errorf("cluster: order to %s: %w", to.ID(), err)
	}
	return nil
}

// Orders returns a channel of capacity one that gets the orders to this member;
// of several that nobody has read the last one counts.
func (c *Cluster) Orders() <-chan Order { return c.delegate.orders }

// decodeOrder reads the message of an order. Nothing of b is trusted or retained.
func decodeOrder(b []byte) (o Order, id string, err error) {
	if len(b) < 2 || len(b) > 2+maxName+11 || b[0] != orderVersion {
		return 0, "", errOrder
	}
	if o = Order(b[1]); o != OrderDrain && o != OrderResume {
		return 0, "", errOrder
	}
	if _, _, err := parseID(string(b[2:])); err != nil {
		return 0, "", errOrder
	}
	return o, string(b[2:]), nil
}

// order puts o in the place of any order that nobody has read.
func (d *delegate) order(o Order) {
	d.ordering.Lock()
	defer d.ordering.Unlock()
	select {
	case <-d.orders:
	default: // it was read
	}
	d.orders <- o // there is room: nobody else writes
}
