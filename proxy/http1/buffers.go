package http1

import "sync"

// Buffers is a free list of buffers in two sizes. It keeps them over garbage
// collections, which a sync.Pool does not, so the steady state allocates
// nothing. Its methods are safe for concurrent use.
type Buffers struct {
	size, big, keep int

	mu    sync.Mutex // guards what follows; held for a few instructions
	small [][]byte
	large [][]byte
	inUse int
}

// BuffersConfig sets up [Buffers].
type BuffersConfig struct {
	// Size is that of an ordinary buffer in bytes. If zero, it is 16 KiB; less
	// than 4 KiB counts as 4 KiB.
	Size int

	// Big is the size for long heads and bulk. If zero, it is 64 KiB; less
	// than Size counts as Size. No head can be longer.
	Big int

	// Keep is how many free buffers of ordinary size are kept; an eighth of it
	// of the big size. If zero, it is 1024.
	Keep int
}

const (
	defaultSize = 16 << 10
	defaultBig  = 64 << 10
	defaultKeep = 1024
	minSize     = 4 << 10
)

// NewBuffers returns an empty free list.
func NewBuffers(cfg BuffersConfig) *Buffers {
	if cfg.Size == 0 {
		cfg.Size = defaultSize
	}
	if cfg.Big == 0 {
		cfg.Big = defaultBig
	}
	if cfg.Keep == 0 {
		cfg.Keep = defaultKeep
	}
	size := max(cfg.Size, minSize)
	return &Buffers{size: size, big: max(cfg.Big, size), keep: cfg.Keep}
}

// Get returns a buffer of ordinary size with unspecified content.
func (p *Buffers) Get() []byte { return p.get(&p.small, p.size) }

// GetBig returns a buffer of the big size with unspecified content.
func (p *Buffers) GetBig() []byte {
	if p.big == p.size {
		return p.Get()
	}
	return p.get(&p.large, p.big)
}

func (p *Buffers) get(list *[][]byte, size int) []byte {
	p.mu.Lock()
	p.inUse++
	if n := len(*list); n > 0 {
		b := (*list)[n-1]
		(*list)[n-1] = nil
		*list = (*list)[:n-1]
		p.mu.Unlock()
		return b
	}
	p.mu.Unlock()
	return make([]byte, size)
}

// Put takes a buffer back. The caller must not touch it afterwards. A nil
// buffer, and one of neither size, is left to the garbage collector.
func (p *Buffers) Put(b []byte) {
	b = b[:cap(b)]
	p.mu.Lock()
	defer p.mu.Unlock()
	switch len(b) {
	case p.size:
		p.inUse--
		if len(p.small) < p.keep {
			p.small = append(p.small, b)
		}
	case p.big:
		p.inUse--
		if len(p.large) < max(1, p.keep/8) {
			p.large = append(p.large, b)
		}
	}
}

// InUse returns how many buffers were handed out and not put back: none when
// nothing is read or written.
func (p *Buffers) InUse() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inUse
}

// Free returns how many buffers of either size wait to be used.
func (p *Buffers) Free() (small, large int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.small), len(p.large)
}
