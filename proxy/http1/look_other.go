//go:build !unix

package http1

// Without the descriptor a connection is waited for and looked at by reads.

func (c *Conn) initRaw()        {}
func (c *Conn) awaitRaw() error { return nil }
func (c *Conn) lookRaw() Sight  { return Quiet }
