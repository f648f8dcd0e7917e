//go:build linux

package hosts

import (
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A line is a slow cable: a tap device at the host and one at the switch, and
// this process carries the frames from one to the other, each a while after it
// came. (The kernel's own means, netem, is often not there.)
type line struct {
	ends  [2]*os.File
	delay atomic.Int64 // nanoseconds, each way
	wg    sync.WaitGroup
}

// lines finds the line of a host's cable.
var lines sync.Map // lineKey → *line

type lineKey struct {
	ns  string
	lan lan
}

// setDelay makes frames on a slow cable take d each way from now on.
func setDelay(h *host, l lan, d time.Duration) {
	if v, ok := lines.Load(lineKey{h.ns, l}); ok {
		v.(*line).delay.Store(int64(d)) //nolint:forcetypeassert // nothing else is stored
	}
}

// newLine makes the devices of a cable that has no delay yet. They are gone
// when the line is closed, or with this process.
func newLine(t *testing.T, h *host, l lan) *line {
	t.Helper()
	n := &line{}
	for i, end := range []struct{ ns, dev string }{{h.ns, string(l)}, {h.bed.name + "-switch", string(l) + "-" + h.name}} {
		f, err := tap(end.ns, end.dev)
		if err != nil {
			t.Fatal(err)
		}
		n.ends[i] = f
	}
	n.wg.Go(func() { n.carry(n.ends[0], n.ends[1]) })
	n.wg.Go(func() { n.carry(n.ends[1], n.ends[0]) })
	lines.Store(lineKey{h.ns, l}, n)
	return n
}

func (n *line) close() {
	for _, end := range n.ends {
		end.Close()
	}
	n.wg.Wait()
}

// tap makes a tap device in a namespace; frames are read from and written to
// the file.
func tap(ns, dev string) (f *os.File, err error) {
	err = within(ns, func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return os.NewSyscallError("open /dev/net/tun", err)
		}
		req, err := unix.NewIfreq(dev)
		if err == nil {
			req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
			err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
		}
		if err != nil {
			unix.Close(fd)
			return os.NewSyscallError("make tap device", err)
		}
		f = os.NewFile(uintptr(fd), dev)
		return nil
	})
	return f, err
}

// frame is an Ethernet frame on its way.
type frame struct {
	due  time.Time
	data []byte
}

// carry takes frames from one end to the other until the line is closed. What
// the queue has no room for is lost, as in a switch.
func (n *line) carry(from, to *os.File) {
	queue := make(chan frame, 4096)
	n.wg.Go(func() {
		for f := range queue {
			time.Sleep(time.Until(f.due))
			to.Write(f.data)
		}
	})
	defer close(queue)
	buf := make([]byte, 65536)
	for {
		k, err := from.Read(buf)
		if err != nil {
			return
		}
		f := frame{time.Now().Add(time.Duration(n.delay.Load())), append([]byte(nil), buf[:k]...)}
		select {
		case queue <- f:
		default:
		}
	}
}
