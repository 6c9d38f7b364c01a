package single

import (
	"hash/maphash"
	"sync"
	"time"

	"lockproxy/redlock"
)

// lastGrants remembers some thousands of writers that were last granted locks through this proxy, one for a
// lock. It knows two things for their UNLOCKs:
//
//   - The fence that the hold should have. If the hold has that fence and is unchanged since the grant, Redis
//     need not check whether this UNLOCK is a copy of one that freed an earlier hold.
//   - That the lock was plain. Then free.lua deletes it if it still is what it was.
//
// A grant may be forgotten for another one, which only costs time. Safe for concurrent use.
type lastGrants struct {
	seed   maphash.Seed
	born   time.Time
	places [1 << 12]fewGrants
}

// fewGrants are grants of a few locks.
type fewGrants struct {
	mu     sync.Mutex
	grants [4]lastGrant
}

// lastGrant is what is remembered of one grant.
type lastGrant struct {
	lock  uint64 // hash of its name
	to    uint64 // hash of name and token
	fence int64
	id    [redlock.IDBytes]byte // of the request, if the lock was plain; otherwise zero
	ends  time.Duration         // then: of the lease, since lastGrants.born
}

// plainGrant is a plain lock as it was granted.
type plainGrant struct {
	fence int64 // 0: it is not known that there is one
	id    [redlock.IDBytes]byte
	ends  time.Time // of the lease
}

func newLastGrants() *lastGrants { return &lastGrants{seed: maphash.MakeSeed(), born: time.Now()} }

// of finds the grant of a lock, nil if there is none. Its place stays locked.
func (l *lastGrants) of(name string) (place *fewGrants, g *lastGrant, lock uint64) {
	lock = maphash.String(l.seed, name)
	place = &l.places[lock%uint64(len(l.places))]
	place.mu.Lock()
	for i := range place.grants {
		if g := &place.grants[i]; g.lock == lock {
			return place, g, lock
		}
	}
	return place, nil, lock
}

// hold is the hash of a lock, given as such, and a token.
func (l *lastGrants) hold(lock uint64, token string) uint64 {
	return 31*lock + maphash.String(l.seed, token)
}

// note notes a grant to a; plain says that the lock is plain.
func (l *lastGrants) note(a *redlock.Acquire, granted redlock.Grant, plain bool) {
	place, g, lock := l.of(a.Name)
	defer place.mu.Unlock()
	if g == nil { // the one whose lease ends first is forgotten
		g = &place.grants[0]
		for i := range place.grants {
			if other := &place.grants[i]; other.ends < g.ends {
				g = other
			}
		}
	}
	*g = lastGrant{lock: lock, to: l.hold(lock, a.Token), fence: granted.Fence}
	if plain && len(a.ID) == len(g.id) { // it is longer if the client has named the request
		copy(g.id[:], a.ID)
		g.ends = granted.At.Add(granted.TTL).Sub(l.born)
	}
}

// changed notes that a lock is not plain any more.
func (l *lastGrants) changed(name string) {
	place, g, _ := l.of(name)
	defer place.mu.Unlock()
	if g != nil {
		g.notPlain()
	}
}

func (g *lastGrant) notPlain() { g.id, g.ends = [redlock.IDBytes]byte{}, 0 }

// fence is the fence that a token should have; 0: it is not known.
func (l *lastGrants) fence(name, token string) int64 {
	place, g, lock := l.of(name)
	defer place.mu.Unlock()
	if g == nil || g.to != l.hold(lock, token) {
		return 0
	}
	return g.fence
}

// take returns the plain lock that r is to free, to one caller only. Its lease goes on.
func (l *lastGrants) take(r *redlock.Release) (plain plainGrant) {
	place, g, lock := l.of(r.Name)
	defer place.mu.Unlock()
	if g == nil || g.id[0] == 0 || g.to != l.hold(lock, r.Token) || r.Named != "" ||
		r.Fence != 0 && r.Fence != g.fence {
		return plain
	}
	if ends := l.born.Add(g.ends); time.Now().Before(ends) {
		plain = plainGrant{g.fence, g.id, ends}
	}
	g.notPlain()
	return plain
}
