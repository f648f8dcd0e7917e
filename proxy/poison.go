package proxy

import (
	"hash/maphash"
	"sync"
	"time"
)

// How long, and of how many requests, it is remembered that they were in flight
// when a member died.
const (
	suspectFor = time.Minute
	maxSuspect = 1024
)

// suspects remembers requests that were in flight when a member died: one of
// them may have killed it, and a request that kills is tried by its client again
// and again. Each such try may cost one member, but no second one (design D8).
//
// Requests are told apart by method, path and session. The zero value is ready.
type suspects struct {
	mu   sync.Mutex // guards the rest; held for O(maxSuspect), on failures only
	seed maphash.Seed
	seen []suspect // unordered; the oldest makes way
}

type suspect struct {
	key   uint64
	until time.Time
}

// add remembers a request and reports whether it was remembered already.
func (s *suspects) add(method, path, session []byte) bool {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seed = maphash.MakeSeed()
		s.seen = make([]suspect, 0, 16)
	}
	key := s.key(method, path, session)
	oldest := 0
	for i := range s.seen {
		if e := &s.seen[i]; e.key == key {
			known := now.Before(e.until)
			e.until = now.Add(suspectFor)
			return known
		}
		if s.seen[i].until.Before(s.seen[oldest].until) {
			oldest = i
		}
	}
	e := suspect{key: key, until: now.Add(suspectFor)}
	if len(s.seen) < maxSuspect {
		s.seen = append(s.seen, e)
	} else {
		s.seen[oldest] = e
	}
	return false
}

// has reports whether such a request was in flight at a death within the last
// minute.
func (s *suspects) has(method, path, session []byte) bool {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) == 0 {
		return false
	}
	key := s.key(method, path, session)
	for _, e := range s.seen {
		if e.key == key {
			return now.Before(e.until)
		}
	}
	return false
}

// s.mu must be held.
func (s *suspects) key(method, path, session []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, part := range [...][]byte{method, path, session} {
		_, _ = h.Write(part)
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}
