package redlock

import (
	"slices"
	"time"
)

// Holder is one hold of a lock.
type Holder struct {
	Owner string // OwnerOf its token; show people only its Digest
	Mode  Mode
	TTL   time.Duration // what is left of its lease
	Count int64
	Fence int64
	Age   time.Duration // since it was granted
	Kept  bool          // a proxy keeps it alive
	Meta  string        // text that its owner gave
}

// Digest is what people see of the owner: 8 hex digits.
func (h *Holder) Digest() string { return digestOf(h.Owner) }

// State is a lock as it is now.
type State struct {
	Key     string
	Holders []Holder // one writer, or readers in the order of their fences; none: the lock is free
	Fence   int64    // the highest fence of the holders, 0 for none
	Waiters int      // live ones; behind the first 500 places all are counted, live or not
}

// Held returns the hold of token, or nil.
func (s *State) Held(token string) *Holder {
	owner := OwnerOf(token)
	i := slices.IndexFunc(s.Holders, func(h Holder) bool { return h.Owner == owner })
	if i < 0 {
		return nil
	}
	return &s.Holders[i]
}

// Name is "free", "write" or "read".
func (s State) Name() string {
	switch {
	case len(s.Holders) == 0:
		return "free"
	case s.Holders[0].Mode == Write:
		return "write"
	}
	return "read"
}
