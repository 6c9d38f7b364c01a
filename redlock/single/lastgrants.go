package single

import (
	"hash/maphash"
	"sync"
	"time"

	"lockproxy/redlock"
)

// lastGrants remembers some thousands of writers that last asked for locks through this proxy. It knows two
// things for their UNLOCKs:
//
//   - The fence that the hold should have. If the hold has that fence and is unchanged since the grant, Redis
//     need not check whether this UNLOCK is a copy of one that freed an earlier hold.
//   - That the lock was plain. Then free.lua deletes it if it still is what it was.
//
// A plain lock is noted as soon as it is asked for, because its UNLOCK may come before the grant, in the same
// pipeline. If it is not granted, free.lua finds nothing.
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

// lastGrant is what is remembered of one grant, or of one that was asked for.
type lastGrant struct {
	lock  uint64                // hash of its name
	to    uint64                // hash of name and token; 0: there is none
	id    [redlock.IDBytes]byte // of the request
	ends  time.Duration         // of the lease, since lastGrants.born; 0: the lock is not plain
	fence int64                 // 0: it is not granted yet
}

// plainGrant is a plain lock as it was granted, or asked for.
type plainGrant struct {
	id    [redlock.IDBytes]byte // of the request; zero: there is none
	ends  time.Time             // of the lease
	fence int64                 // 0: it is not granted yet
}

func newLastGrants() *lastGrants { return &lastGrants{seed: maphash.MakeSeed(), born: time.Now()} }

// of finds the place of a lock, which it locks.
func (l *lastGrants) of(name string) (place *fewGrants, lock uint64) {
	lock = maphash.String(l.seed, name)
	place = &l.places[lock%uint64(len(l.places))]
	place.mu.Lock()
	return place, lock
}

// hold is the hash of a lock, given as such, and a token.
func (l *lastGrants) hold(lock uint64, token string) uint64 {
	return 31*lock + maphash.String(l.seed, token)
}

// find finds the grant of a hold, nil if there is none.
func (f *fewGrants) find(hold uint64) *lastGrant {
	for i := range f.grants {
		if g := &f.grants[i]; g.to == hold {
			return g
		}
	}
	return nil
}

// room finds the place for a grant. For a new one that is forgotten whose lease ends first.
func (f *fewGrants) room(hold uint64) *lastGrant {
	if g := f.find(hold); g != nil {
		return g
	}
	g := &f.grants[0]
	for i := range f.grants {
		if other := &f.grants[i]; other.ends < g.ends {
			g = other
		}
	}
	return g
}

// ask notes that a asks for a plain lock.
func (l *lastGrants) ask(a *redlock.Acquire, sent time.Time) {
	place, lock := l.of(a.Name)
	defer place.mu.Unlock()
	hold := l.hold(lock, a.Token)
	g := place.room(hold)
	*g = lastGrant{lock: lock, to: hold}
	g.plain(a, sent.Add(a.Lease).Sub(l.born))
}

// plain notes that the lock is plain.
func (g *lastGrant) plain(a *redlock.Acquire, ends time.Duration) {
	if len(a.ID) == len(g.id) { // it is longer if the client has named the request
		copy(g.id[:], a.ID)
		g.ends = ends
	}
}

// note notes a grant to a; plain says that the lock is plain.
func (l *lastGrants) note(a *redlock.Acquire, granted redlock.Grant, plain bool) {
	place, lock := l.of(a.Name)
	defer place.mu.Unlock()
	hold := l.hold(lock, a.Token)
	g := place.room(hold)
	if asked := g.to == hold && string(g.id[:]) == a.ID; !asked || !plain { // otherwise it may be free by now
		*g = lastGrant{lock: lock, to: hold}
		if plain {
			g.plain(a, granted.At.Add(granted.TTL).Sub(l.born))
		}
	}
	g.fence = granted.Fence
}

// refused notes that a is not granted.
func (l *lastGrants) refused(a *redlock.Acquire) {
	place, lock := l.of(a.Name)
	defer place.mu.Unlock()
	if g := place.find(l.hold(lock, a.Token)); g != nil && g.fence == 0 {
		*g = lastGrant{}
	}
}

// changed notes that a lock is not plain any more.
func (l *lastGrants) changed(name string) {
	place, lock := l.of(name)
	defer place.mu.Unlock()
	for i := range place.grants {
		if g := &place.grants[i]; g.lock == lock {
			g.ends = 0
		}
	}
}

// fence is the fence that a token should have; 0: it is not known.
func (l *lastGrants) fence(name, token string) int64 {
	place, lock := l.of(name)
	defer place.mu.Unlock()
	if g := place.find(l.hold(lock, token)); g != nil {
		return g.fence
	}
	return 0
}

// take returns the plain lock that r is to free, to one caller only. Its lease goes on. There is none for a
// request that its client has named, which release.lua has to recognise.
func (l *lastGrants) take(r *redlock.Release) (plain plainGrant) {
	place, lock := l.of(r.Name)
	defer place.mu.Unlock()
	g := place.find(l.hold(lock, r.Token))
	if g == nil || g.ends == 0 || r.Fence != 0 && r.Fence != g.fence {
		return plain
	}
	if ends := l.born.Add(g.ends); r.Named == "" && time.Now().Before(ends) {
		plain = plainGrant{g.id, ends, g.fence}
	}
	g.ends = 0
	return plain
}

// granted is the fence of a plain lock that was taken, 0 if it is not known to have been granted.
func (l *lastGrants) granted(r *redlock.Release, plain plainGrant) int64 {
	place, lock := l.of(r.Name)
	defer place.mu.Unlock()
	if g := place.find(l.hold(lock, r.Token)); g != nil && g.id == plain.id {
		return g.fence
	}
	return 0
}
