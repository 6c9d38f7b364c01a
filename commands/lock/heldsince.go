package lock

import (
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/internal/lockevent"
	"lockproxy/redlock"
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
	mode         redlock.Mode
	series       *series
}

// event is what an event tells of a hold that ends; of one that is not remembered, that is little.
func (h *heldOne) event(why string) lockevent.Event {
	return lockevent.Event{Mode: modeNames[h.mode], Fence: h.fence, Reason: why}
}

// kept is the end of the lease of a hold that is kept alive: nobody knows it.
const kept = time.Duration(math.MaxInt64)

func newHeldSince() *heldSince { return &heldSince{seed: maphash.MakeSeed(), born: time.Now()} }

func (h *heldSince) lock(name string) uint64 { return maphash.String(h.seed, name) }

// id is the hash of a lock, given as such, and a token.
func (h *heldSince) id(lock uint64, token string) uint64 {
	return 31*lock + maphash.String(h.seed, token)
}

// of finds the set of a hold, which it locks, and the place of the hold there; -1: it is not remembered.
func (h *heldSince) of(lock uint64, token string) (set *heldSet, id uint64, i int) {
	id = h.id(lock, token)
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

// note notes that a was granted at. ended is called with another hold that had ended before.
func (h *heldSince) note(a *redlock.Acquire, one heldOne, at time.Time, ended func(heldOne)) {
	now := at.Sub(h.born)
	one.lock, one.since, one.until = h.lock(a.Name), now, now+a.Lease
	if a.Keep {
		one.until = kept
	}
	set, id, i := h.of(one.lock, a.Token)
	defer set.mu.Unlock()
	one.id = id
	if i >= 0 && set.all[i].fence == one.fence { // asked for once more
		set.all[i].until = max(set.all[i].until, one.until)
		return
	}
	if i >= 0 {
		ended(set.take(i))
	} else if gone, ok := h.room(set, now); ok {
		ended(gone)
	}
	set.all = append(set.all, one)
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
