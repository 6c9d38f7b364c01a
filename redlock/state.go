package redlock

import (
	"cmp"
	"slices"
	"strings"
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
	Holders []Holder // one writer, or readers or permits in the order of their fences
	// Rest is for how long the lock goes on being taken although a hold of it was released (AtLeast): by
	// nobody, or beside its readers; 0: it does not. Of a semaphore it is until the last permit has rested.
	// Without holders and without a rest it is free.
	Rest    time.Duration
	Permits int   // that the semaphore has; 0: it is a lock
	Resting int   // permits of it that rest
	Fence   int64 // the highest fence of the holders, 0 for none
	Waiters int   // live ones; behind the first 500 places all are counted, live or not
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

// nobody is the owner of a hold that was released and rests; of a permit that rests it is the beginning.
// rest.lua makes it.
const nobody = "-"

// SetRest puts the holders in order, sets Fence to the highest of theirs, and takes the holds of nobody out.
// It is called once.
func (s *State) SetRest() {
	slices.SortFunc(s.Holders, func(a, b Holder) int { return cmp.Compare(a.Fence, b.Fence) })
	if last := len(s.Holders) - 1; last >= 0 {
		s.Fence = s.Holders[last].Fence
	}
	s.Holders = slices.DeleteFunc(s.Holders, func(h Holder) bool {
		permit := h.Mode == Permit && strings.HasPrefix(h.Owner, nobody)
		rests := permit || h.Owner == nobody
		if rests {
			s.Rest = max(s.Rest, h.TTL)
		}
		if permit {
			s.Resting++
		}
		return rests
	})
}

// Taken says that a newcomer who wants to write would be refused.
func (s *State) Taken() bool { return len(s.Holders) > 0 || s.Rest > 0 }

// Name is "free", "write", "read", "permits" of a semaphore of which some are used, or "resting": nobody
// holds the lock, but it is taken for s.Rest.
func (s State) Name() string {
	switch {
	case s.Used() > 0:
		return "permits"
	case len(s.Holders) == 0 && s.Rest > 0:
		return "resting"
	case len(s.Holders) == 0:
		return "free"
	case s.Holders[0].Mode == Write:
		return "write"
	}
	return "read"
}

// Used is how many permits of a semaphore are held or rest; 0 for a lock.
func (s *State) Used() int {
	if s.Permits == 0 {
		return 0
	}
	return len(s.Holders) + s.Resting
}
