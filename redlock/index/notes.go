package index

import (
	"crypto/rand"
	"hash/maphash"
	"sync/atomic"
	"time"

	"lockproxy/redlock"
)

// This file is what becomes of holds: granted, renewed, taken over, freed, over. They are kept in the tables
// of shard.go.

// The bounds of the notes. A hold beyond them is not noted, but counted: LOCKCTL LIST may lack it.
const (
	shards = 256
	// mostNotes is how many holds a shard has at most, and mostBytes how long their names and tokens are
	// together: a million holds, and 64 MiB.
	mostNotes = 1 << 12
	mostBytes = 1 << 18
	// mostHolders is how many holds of one lock are noted.
	mostHolders = 1 << 10
	// mostSpare is how many notes of free locks a shard keeps, to use them again.
	mostSpare = 64
	// keptFor is how long a hold is noted behind its lease that is kept alive: who keeps it says how it ends.
	keptFor = time.Minute
)

// notes are the records of a proxy: one for each lock that it has granted, or asks for. A name belongs to a
// shard by its hash.
type notes struct {
	// The hashes are other ones in each proxy, so no client can choose names of one hash.
	seed   maphash.Seed
	born   time.Time
	nobody string // the token of holds that were freed and rest; no client has it
	shards [shards]noteShard
	ended  func(name string, e Ended) // hears of holds that end by themselves; nil: nobody does
	// unnoted is how many holds there was no room for; each is counted again when it is renewed. unmeasured
	// is how many grants there was no room for.
	unnoted, unmeasured atomic.Uint64
}

// freed is the name of a lock that became free.
type freed struct {
	name string
	at   time.Duration
	pack *pack // that has the name
}

// past is a hold that another one has taken the place of. Whoever freed it may tell so a moment later.
type past struct {
	Ended
	token string
	at    time.Duration
}

// held is one hold of a lock, or a plain lock that was asked for. Times count from notes.born, but for
// waited.
type held struct {
	token  string
	client *redlock.Client   // the last one that took or renewed it; nil: it is not known
	owner  redlock.HoldOwner // the connection that took it; nil: it is not known
	// How long its client waited for the grant.
	waited time.Duration
	noted  time.Duration // of client
	since  time.Duration // when it was granted
	until  time.Duration // when its lease ends
	least  time.Duration // if it is freed before, it rests until then
	fence  int64
	plain
	mode    byte // of redlock.Mode; 0: it was not granted here
	granted bool
	kept    bool // it is kept alive, so nobody knows when it ends
}

// plain is what a hold has of the plain lock that it was granted, or asked for, as.
type plain struct {
	id    [redlock.IDBytes]byte // of the request
	ends  time.Duration         // when its lease ends; 0: it is not plain, or somebody frees it
	asked bool                  // the answer to that request is not there yet
}

// Ended is a hold that has ended.
type Ended struct {
	Mode  redlock.Mode
	Fence int64
	Took  time.Duration // since the grant; until the end of its lease, if that is over
	Over  bool          // its lease is over
}

// startNotes makes the notes empty. It is called before they are used.
func (n *notes) startNotes() {
	n.seed, n.born, n.nobody = maphash.MakeSeed(), time.Now(), rand.Text()
	for i := range n.shards {
		s := &n.shards[i]
		s.notes, s.waits = make(map[uint64]*note), make(map[*wait]bool)
		s.fresh.newer, s.fresh.older = &s.fresh, &s.fresh
		s.due.newer, s.due.older = &s.due, &s.due
	}
}

// now is how long after born it is, by the monotonic clock: a step of the wall clock moves no lease.
func (n *notes) now() time.Duration { return time.Since(n.born) }

func (n *notes) hash(name string) uint64 { return maphash.String(n.seed, name) }

// lockShard finds the shard of a lock, and locks it, and the hash of the lock. The caller unlocks it.
func (n *notes) lockShard(name string) (s *noteShard, hash uint64) {
	hash = n.hash(name)
	s = &n.shards[hash%shards]
	s.mu.Lock()
	return s, hash
}

// eachShard calls f with each shard that has notes of a set. It is locked meanwhile.
func (n *notes) eachShard(set int, f func(s *noteShard)) {
	for i := set; i < shards; i += keys {
		s := &n.shards[i]
		s.mu.Lock()
		f(s)
		s.mu.Unlock()
	}
}

// noteGrant notes a grant, or that somebody holds the lock who was not granted it here. It says whether there
// was room for it. One that is not shared is the only one. The ends of others are told with the lock of the
// shard held, as all ends are: whoever hears of them must not ask the Index.
func (n *notes) noteGrant(name string, h *held, shared bool) bool {
	s, hash := n.lockShard(name)
	defer s.mu.Unlock()
	k := s.findNote(name, hash)
	if k == nil {
		added := s.addNote(name, hash, h, h.noted)
		if !added {
			n.countUnnoted(h)
		}
		return added
	}
	known := k.holdOf(h.token)
	if known != nil {
		n.updateHold(k, known, h)
	}
	// A new writer has ended all others. Beside one that shares the lock those go on whose leases do.
	if known == nil || len(k.holds) > 1 {
		s.dropHolds(k, func(other *held) bool {
			gone := other != known && (!shared || other.isOver(h.noted) || !other.granted)
			if gone {
				n.tellEnded(name, other, h.noted)
			}
			if gone && other.measured() && !other.isOver(h.noted) {
				k.past = &past{other.endingAt(h.noted), other.token, h.noted}
			}
			return gone
		})
	}
	if known == nil {
		n.joinHold(s, k, h)
	}
	// the sets would drop the name while the lock is held
	if k.pack != nil && k.written < k.until() {
		s.queueNote(k)
	}
	return true
}

// countUnnoted counts a hold that there is no room for.
func (n *notes) countUnnoted(h *held) {
	n.unnoted.Add(1)
	if h.mode != 0 {
		n.unmeasured.Add(1)
	}
}

// joinHold adds a hold to those of a lock. Without room for it a lock that has no other is forgotten.
func (n *notes) joinHold(s *noteShard, k *note, h *held) {
	if len(k.holds) > mostHolders || !s.hasRoom(len(h.token)) {
		if len(k.holds) > 0 { // the lock is noted, if not this hold
			k.holds[0].until = max(k.holds[0].until, h.until)
		}
		n.countUnnoted(h)
		s.forgetFree(k, h.noted)
		return
	}
	if k.holds = append(k.holds, *h); len(k.holds) > 1 {
		k.space[0] = held{} // the list stands elsewhere, and the copy would keep a connection
	}
	s.count++
	s.bytes += len(h.token)
}

// updateHold takes over what h says of a hold that was known, or asked for. known is overwritten in place,
// since it may stand anywhere in the note.
func (n *notes) updateHold(k *note, known, h *held) {
	if h.mode == 0 { // renewed
		known.until, known.kept, known.granted = max(known.until, h.until), known.kept || h.kept, true
		if h.client != nil {
			known.client, known.noted = h.client, h.noted
		}
		return
	}
	if known.asked && known.id == h.id {
		h.ends = min(h.ends, known.ends) // or it may be free by now
	}
	switch {
	case !known.granted:
	case known.mode == 0 || known.fence == h.fence: // it goes on
		h.until, h.least, h.kept = max(known.until, h.until), max(known.least, h.least), known.kept || h.kept
		if known.mode != 0 {
			h.since, h.mode = known.since, known.mode
		}
		if h.waited == 0 {
			h.waited = known.waited
		}
	default:
		n.tellEnded(k.name, known, h.noted)
	}
	if known.owner != nil && known.owner != h.owner { // which remembers its token still
		known.owner.Over(k.name, known.token)
	}
	*known = *h
}

// granting is the fence of a hold, 0 if it may be another one soon.
func (h *held) granting() int64 {
	if h.asked {
		return 0
	}
	return h.fence
}

// isOver says that the lease of a hold is over.
func (h *held) isOver(now time.Duration) bool {
	if h.kept {
		now -= keptFor
	}
	return h.until <= now
}

// measured says that it is known how long it is held.
func (h *held) measured() bool { return h.granted && h.mode != 0 }

// tellEnded tells of the end of a hold.
func (n *notes) tellEnded(name string, h *held, now time.Duration) {
	if n.ended != nil && h.measured() {
		n.ended(name, h.endingAt(now))
	}
}

// endingAt is how a measured hold ends now.
func (h *held) endingAt(now time.Duration) Ended {
	e := Ended{redlock.Mode([]byte{h.mode}), h.fence, now - h.since, h.isOver(now)}
	if e.Over {
		e.Took = h.until - h.since
	}
	return e
}

// expireHolds ends the holds of a lock whose leases are over. gone: there is no other one, and no note any
// more.
func (n *notes) expireHolds(s *noteShard, k *note, now time.Duration) (gone bool) {
	s.dropHolds(k, func(h *held) bool {
		over := h.isOver(now)
		if over {
			n.tellEnded(k.name, h, now)
		}
		return over
	})
	return s.forgetFree(k, now)
}

// restHold has a hold go on as one of nobody, if it is to rest, and says so. Several of nobody may stand in a
// note, for readers and permits rest each by itself.
func (n *notes) restHold(s *noteShard, k *note, h *held, now time.Duration) bool {
	if h.least == 0 || h.least <= now {
		return false
	}
	if h.owner != nil {
		h.owner.Over(k.name, h.token)
	}
	s.bytes += len(n.nobody) - len(h.token)
	*h = held{token: n.nobody, until: h.least, granted: true}
	return true
}

// freeHold removes the hold of token, once it has rested if it rests, and says how it has ended; ok: that was
// not told before. A fence that is not 0 is that of the grant, if it was granted here; of what does not rest
// it is what granting was. by, which may be nil, knows of it already.
func (n *notes) freeHold(
	name, token string, fence int64, by redlock.HoldOwner, rests bool,
) (e Ended, ok bool) {
	s, hash := n.lockShard(name)
	defer s.mu.Unlock()
	k := s.findNote(name, hash)
	h, now := k.holdOf(token), n.now()
	if h == nil && k != nil && k.past != nil && k.past.token == token {
		if now-k.past.at < patience {
			e = k.past.Ended
		}
		k.past = nil
	}
	if h == nil || fence != 0 && h.fence != fence && h.mode != 0 || !rests && h.granting() != fence {
		return e, false
	}
	if ok = h.measured(); ok {
		e = h.endingAt(now)
	}
	if h.owner == by {
		h.owner = nil
	}
	if rests && n.restHold(s, k, h, now) {
		return e, ok
	}
	s.removeHold(k, h)
	s.forgetFree(k, now)
	return e, ok
}

// anyNote says that there is a note, or the name of a free lock that is to be removed.
func (n *notes) anyNote() (some bool) {
	for i := range keys {
		n.eachShard(i, func(s *noteShard) { some = some || len(s.notes)+len(s.gone) > 0 })
	}
	return some
}
