package stage

import (
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
)

// nextPort is the port that FreeAddr tries next. The kernel takes its own ports
// from 32768 on, so nobody gets one of these by chance in between.
var nextPort atomic.Int32 //nolint:gochecknoglobals // ports are shared by all tests of a process

// FreeAddr returns an address on loopback on which nothing listens, neither by
// TCP nor by UDP.
func FreeAddr(t testing.TB) string {
	t.Helper()
	nextPort.CompareAndSwap(0, int32(12000+os.Getpid()%15000))
	for range 1000 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(12000+int(nextPort.Add(1)-12000)%20000))
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		ln.Close()
		pc, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		pc.Close()
		return addr
	}
	t.Fatal("no free port")
	return ""
}
