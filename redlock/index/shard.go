package index

import (
	"slices"
	"sync"
	"time"
)

// This file is where notes are kept: maps, each with a lock of its own, and the rings of its notes.

// noteShard has some of the notes. Times count from notes.born. Its lock is held only for a moment:
// nothing in it blocks.
type noteShard struct {
	mu    sync.Mutex
	notes map[uint64]*note // by hash
	// Two rings, the oldest note behind fresh or due itself, which is none of them: those that were noted a
	// moment ago, which are looked at again when it is known which of them last; and those to be written.
	fresh, due note
	spare      []*note // of free locks: a lock that comes and goes needs no new memory
	// What mostNotes and mostBytes bound.
	count int // holds
	bytes int // of names and tokens
	// The LOCKs that wait here.
	waits map[*wait]bool
	gone  []freed // names that were written and that nobody held then; the first is the oldest
}

// note is the record of one lock.
type note struct {
	hash uint64
	name string
	// In no order; none if the lock is free. Pointers into it are good until it changes.
	holds        []held
	space        [1]held       // of holds: most locks have one, which needs no memory of its own
	past         *past         // the last hold that another one took the place of; nil: there is none
	newer, older *note         // in noteShard.fresh or due; nil if it is in neither
	at           time.Duration // when the lock was first noted
	pack         *pack         // that has its name; nil: none has
	written      time.Duration // until when the pack has it
}

// findNote finds the note of a lock, nil if there is none. Here and below mu is held.
func (s *noteShard) findNote(name string, hash uint64) *note {
	if k := s.notes[hash]; k != nil && k.name == name {
		return k
	}
	return nil
}

// hasRoom says that there is room for a hold of so many bytes.
func (s *noteShard) hasRoom(bytes int) bool { return s.count < mostNotes && s.bytes+bytes <= mostBytes }

// addNote adds a note of one hold, if there is room. There must be none of that name. If one of another name
// has the same 64 bits of hash, which hardly ever happens, there is no room either.
func (s *noteShard) addNote(name string, hash uint64, h *held, now time.Duration) (added bool) {
	if !s.hasRoom(len(name)+len(h.token)) || s.notes[hash] != nil {
		return false
	}
	var k *note
	if last := len(s.spare) - 1; last >= 0 {
		k, s.spare = s.spare[last], s.spare[:last]
	} else {
		k = new(note)
	}
	*k = note{hash: hash, name: name, at: now}
	k.joinRing(&s.fresh)
	k.holds = append(k.space[:0], *h)
	s.notes[hash] = k
	s.count++
	s.bytes += len(name) + len(h.token)
	return true
}

// joinRing puts a note, which stands in none, at the end of a ring.
func (k *note) joinRing(ring *note) {
	k.older, k.newer = ring.older, ring
	k.older.newer, ring.older = k, k
}

// leaveRing takes a note out of the ring in which it may stand.
func (k *note) leaveRing() {
	if k.newer != nil {
		k.older.newer, k.newer.older = k.newer, k.older
		k.newer, k.older = nil, nil
	}
}

// queueNote has the name of a lock written. One that is fresh will be, if it lasts.
func (s *noteShard) queueNote(k *note) {
	if k.newer == nil {
		k.joinRing(&s.due)
	}
}

// allHolds are the holds of a lock. Without a note there are none.
func (k *note) allHolds() []held {
	if k == nil {
		return nil
	}
	return k.holds
}

// holdOf finds the hold of token, nil if there is none. The result is good until the note changes.
func (k *note) holdOf(token string) *held {
	all := k.allHolds()
	for i := range all {
		if all[i].token == token {
			return &all[i]
		}
	}
	return nil
}

// dropHolds removes the holds that which selects. It goes from the last to the first, since those behind a
// removed one move up.
func (s *noteShard) dropHolds(k *note, which func(*held) bool) {
	for i := len(k.holds) - 1; i >= 0; i-- {
		if h := &k.holds[i]; which(h) {
			s.removeHold(k, h)
		}
	}
}

// removeHold removes a hold, whose connection hears of it. The caller sees to the note, which may be without
// holds then.
func (s *noteShard) removeHold(k *note, h *held) {
	if h.owner != nil {
		h.owner.Over(k.name, h.token)
	}
	s.count--
	s.bytes -= len(h.token)
	i := 0
	for h != &k.holds[i] { // several of nobody may rest
		i++
	}
	k.holds = slices.Delete(k.holds, i, i+1)
}

// until is when the last hold of a lock ends.
func (k *note) until() (last time.Duration) {
	for i := range k.holds {
		last = max(last, k.holds[i].until)
	}
	return last
}

// forgetFree removes the note of a lock that has no holds any more.
func (s *noteShard) forgetFree(k *note, now time.Duration) (gone bool) {
	if len(k.holds) == 1 && cap(k.holds) > 1 { // the list may have been long
		k.space[0] = k.holds[0]
		k.holds = k.space[:]
	}
	if len(k.holds) > 0 {
		return false
	}
	delete(s.notes, k.hash)
	k.leaveRing()
	s.bytes -= len(k.name)
	if k.pack != nil && len(s.gone) < mostNotes {
		s.gone = append(s.gone, freed{k.name, now, k.pack})
	}
	if *k = (note{}); len(s.spare) < mostSpare {
		s.spare = append(s.spare, k)
	}
	return true
}
