package index

import (
	"slices"
	"sync"
	"time"
)

// This file is where notes are kept: hash tables, each with a lock of its own, and a list of its fresh notes.

// noteShard has some of the notes, in a hash table. Times count from notes.born.
type noteShard struct {
	mu    sync.Mutex
	table []*note // by hash; its length is a power of two
	locks int     // in it
	// The first and the last of those that were noted a moment ago. They are looked at again when it is known
	// which of them last.
	first, last *note
	spare       *note // to be used again
	spares      int
	count       int // holds
	bytes       int // of names and tokens
	waits       map[*wait]bool
	due         []*note // those that are to be written, and some that were forgotten meanwhile
	gone        []freed // names that were written and that nobody held then; the first is the oldest
}

// note is the record of one lock.
type note struct {
	hash         uint64
	next         *note // in its place of the table, or of shard.spare
	name         string
	first        held // a lock without holds has an empty one
	more         []held
	past         *past         // the last hold that another one took the place of; nil: there is none
	newer, older *note         // while it is fresh
	at           time.Duration // when the lock was first noted
	written      time.Duration // until when the sets have it; 0: they have not
	fresh        bool          // it stands between shard.first and shard.last
	queued       bool          // it stands in shard.due, though it may be forgotten
}

// find finds the note of a lock, nil if there is none. Here and below mu is held.
func (s *noteShard) find(name string, hash uint64) *note {
	k := *s.place(hash)
	for k != nil && (k.hash != hash || k.name != name) {
		k = k.next
	}
	return k
}

// place is where the notes of that hash begin.
func (s *noteShard) place(hash uint64) **note { return &s.table[hash/shards&uint64(len(s.table)-1)] }

// all calls f for each note. f may forget it.
func (s *noteShard) all(f func(*note)) {
	for _, k := range s.table {
		for k != nil {
			next := k.next
			f(k)
			k = next
		}
	}
}

// room says that there is room for a hold of so many bytes.
func (s *noteShard) room(bytes int) bool { return s.count < mostNotes && s.bytes+bytes <= mostBytes }

// add adds a note of one hold.
func (s *noteShard) add(name string, hash uint64, h *held, now time.Duration) {
	if s.locks == len(s.table) {
		s.grow()
	}
	k := s.spare
	if k != nil {
		s.spare = k.next
		s.spares--
	} else {
		k = new(note)
	}
	place := s.place(hash)
	*k = note{hash: hash, next: *place, name: name, first: *h, at: now, fresh: true, older: s.last}
	*place = k
	if s.last == nil {
		s.first = k
	} else {
		s.last.newer = k
	}
	s.last = k
	s.locks++
	s.count++
	s.bytes += len(name) + len(h.token)
}

// grow makes the table twice as large.
func (s *noteShard) grow() {
	old := s.table
	s.table = make([]*note, 2*len(old))
	for _, k := range old {
		for k != nil {
			place, next := s.place(k.hash), k.next
			k.next, *place = *place, k
			k = next
		}
	}
}

// age says that a note is fresh no more.
func (s *noteShard) age(k *note) {
	if !k.fresh {
		return
	}
	if k.fresh = false; k.older == nil {
		s.first = k.newer
	} else {
		k.older.newer = k.newer
	}
	if k.newer == nil {
		s.last = k.older
	} else {
		k.newer.older = k.older
	}
	k.newer, k.older = nil, nil
}

// queue has the name of a lock written.
func (s *noteShard) queue(k *note) {
	if !k.queued {
		k.queued = true
		s.due = append(s.due, k)
	}
}

// each calls f for each hold.
func (k *note) each(f func(*held)) {
	if k == nil {
		return
	}
	f(&k.first)
	for i := range k.more {
		f(&k.more[i])
	}
}

// of finds the hold of token, nil if there is none.
func (k *note) of(token string) *held {
	if k == nil {
		return nil
	}
	if k.first.token == token {
		return &k.first
	}
	for i := range k.more {
		if k.more[i].token == token {
			return &k.more[i]
		}
	}
	return nil
}

// drop removes the holds that which selects. A lock without holds has an empty first one.
func (s *noteShard) drop(k *note, which func(*held) bool) {
	for i := len(k.more) - 1; i >= 0; i-- {
		if h := &k.more[i]; which(h) {
			s.remove(k, h)
		}
	}
	if h := &k.first; h.token != "" && which(h) {
		s.remove(k, h)
	}
}

// remove removes a hold, whose connection hears of it.
func (s *noteShard) remove(k *note, h *held) {
	if h.owner != nil {
		h.owner.Over(k.name, h.token)
	}
	s.count--
	s.bytes -= len(h.token)
	if h != &k.first {
		i := 0
		for h != &k.more[i] { // several of nobody may rest
			i++
		}
		k.more = slices.Delete(k.more, i, i+1)
	} else if k.first = (held{}); len(k.more) > 0 {
		k.first = k.more[0]
		k.more = slices.Delete(k.more, 0, 1)
	}
	if len(k.more) == 0 {
		k.more = nil
	}
}

// until is when the last hold of a lock ends.
func (k *note) until() time.Duration {
	last := k.first.until
	for i := range k.more {
		last = max(last, k.more[i].until)
	}
	return last
}

// forget removes the note of a lock that is free now.
func (s *noteShard) forget(k *note, now time.Duration) {
	place := s.place(k.hash)
	for *place != k {
		place = &(*place).next
	}
	*place = k.next
	s.age(k)
	s.locks--
	s.bytes -= len(k.name)
	if k.written > 0 && len(s.gone) < mostNotes {
		s.gone = append(s.gone, freed{k.name, now})
	}
	if *k = (note{queued: k.queued}); !k.queued && s.spares < mostSpare {
		k.next, s.spare = s.spare, k
		s.spares++
	}
}
