package lock

import (
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// heldSince remembers since when holds are held that were granted through this proxy, some 30,000 of them.
// When there are too many, those whose leases end first are forgotten, and counted. Safe for concurrent use.
type heldSince struct {
	seed      maphash.Seed
	born      time.Time
	sets      [1 << 12]heldSet
	forgotten atomic.Uint64
}

// heldSet are the holds of one hash. Its memory comes with its first holds, and stays.
type heldSet struct {
	mu  sync.Mutex
	all []heldOne
}

// mostOfSet is how many holds a heldSet has at most.
const mostOfSet = 8

// heldOne is one hold. Times count from heldSince.born.
type heldOne struct {
	lock, id     uint64 // hashes of its name, and of its name and token
	since, until time.Duration
	fence        int64
	series       *series
}

// kept is the end of the lease of a hold that is kept alive: nobody knows it.
const kept = time.Duration(math.MaxInt64)

func newHeldSince() *heldSince { return &heldSince{seed: maphash.MakeSeed(), born: time.Now()} }

func (h *heldSince) lock(name string) uint64 { return maphash.String(h.seed, name) }

// of finds the set of a hold, which it locks, and the place of the hold there; -1: it is not remembered.
func (h *heldSince) of(lock uint64, token string) (set *heldSet, id uint64, i int) {
	id = 31*lock + maphash.String(h.seed, token)
	set = &h.sets[id%uint64(len(h.sets))]
	set.mu.Lock()
	for i := range set.all {
		if set.all[i].id == id {
			return set, id, i
		}
	}
	return set, id, -1
}

// take removes and returns a hold of a set, which is locked.
func (s *heldSet) take(i int) heldOne {
	one, last := s.all[i], len(s.all)-1
	s.all[i], s.all[last] = s.all[last], heldOne{}
	s.all = s.all[:last]
	return one
}

// room makes room for one more hold, and returns a hold that has to go for that.
func (h *heldSince) room(set *heldSet, now time.Duration) (gone heldOne, ok bool) {
	if len(set.all) < mostOfSet {
		return gone, false
	}
	first := 0
	for i := range set.all {
		if set.all[i].until < set.all[first].until {
			first = i
		}
	}
	if gone = set.take(first); gone.until > now {
		h.forgotten.Add(1)
		return gone, false
	}
	return gone, true
}

// note notes that a hold was granted at, with that fence, until its lease is over. ended is called with
// another hold that had ended before.
func (h *heldSince) note(
	name, token string, s *series, fence int64, at time.Time, until time.Time, keep bool, ended func(heldOne),
) {
	lock := h.lock(name)
	now, end := at.Sub(h.born), until.Sub(h.born)
	if keep {
		end = kept
	}
	set, id, i := h.of(lock, token)
	defer set.mu.Unlock()
	if i >= 0 && set.all[i].fence == fence { // asked for once more
		set.all[i].until = max(set.all[i].until, end)
		return
	}
	if i >= 0 {
		ended(set.take(i))
	} else if gone, ok := h.room(set, now); ok {
		ended(gone)
	}
	set.all = append(set.all, heldOne{lock, id, now, end, fence, s})
}

// prolong notes that the lease of a hold goes on until then.
func (h *heldSince) prolong(name, token string, until time.Time, keep bool) {
	set, _, i := h.of(h.lock(name), token)
	defer set.mu.Unlock()
	switch {
	case i < 0:
	case keep:
		set.all[i].until = kept
	default:
		set.all[i].until = max(set.all[i].until, until.Sub(h.born))
	}
}

// end forgets a hold and returns it. A fence that is not 0 is that of the grant.
func (h *heldSince) end(name, token string, fence int64) (one heldOne, ok bool) {
	set, _, i := h.of(h.lock(name), token)
	defer set.mu.Unlock()
	if i < 0 || fence != 0 && set.all[i].fence != fence {
		return one, false
	}
	return set.take(i), true
}

// endAll forgets all holds for which which says so.
func (h *heldSince) endAll(which func(*heldOne) bool) (all []heldOne) {
	for i := range h.sets {
		set := &h.sets[i]
		set.mu.Lock()
		for i := len(set.all) - 1; i >= 0; i-- {
			if which(&set.all[i]) {
				all = append(all, set.take(i))
			}
		}
		set.mu.Unlock()
	}
	return all
}

// now is the time since h was made.
func (h *heldSince) now() time.Duration { return time.Since(h.born) }
