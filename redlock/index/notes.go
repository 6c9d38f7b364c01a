package index

import (
	"crypto/rand"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/redlock"
)

// The bounds of the notes. A hold beyond them is not noted, but counted: LOCKCTL LIST may lack it.
const (
	shards = 64
	// mostNotes is how many holds a shard has at most, and mostBytes how long their names and tokens are
	// together: a million holds, and 64 MiB.
	mostNotes = 1 << 14
	mostBytes = 1 << 20
	// mostHolders is how many holds of one lock are noted.
	mostHolders = 1 << 10
)

// Hold is a hold that this proxy has granted, or renewed.
type Hold struct {
	Name, Token string
	Client      *redlock.Client // the last one that took or renewed it; nil: it is not known
	Waited      time.Duration   // how long it waited for the grant
	Until       time.Time       // when the lease ends
	AtLeast     time.Time       // if it is freed before, it rests until then; zero: it does not
	Shared      bool            // others may hold the lock, too
}

// notes are the holds of a proxy. A name belongs to a shard by its hash.
type notes struct {
	seed   maphash.Seed
	born   time.Time
	nobody string // the token of holds that were freed and rest; no client has it
	swept  int    // shards, so far
	shards [shards]shard
	// unnoted is how many holds there was no room for; each is counted again when it is renewed.
	unnoted atomic.Uint64
}

// shard has some of the notes. Times count from notes.born.
type shard struct {
	mu    sync.Mutex
	fresh map[string]note // noted a moment ago: they are looked at again when it is known which of them last
	old   map[string]note
	count int // holds
	bytes int // of names and tokens
	waits map[*wait]bool
	due   []string // names in old that are to be written
	gone  []freed  // names that were written and that nobody held then; the first is the oldest
}

// freed is the name of a lock that became free.
type freed struct {
	name string
	at   time.Duration
}

// note is what is known of one lock. It is kept small: a map has notes of up to 128 bytes in place.
type note struct {
	first   held
	more    []held
	at      time.Duration // when the lock was first noted
	written time.Duration // until when the sets have it; 0: they have not
	queued  bool          // it stands in shard.due
}

// held is one hold of a lock.
type held struct {
	token  string
	client *redlock.Client
	waited time.Duration
	since  time.Duration // of client
	until  time.Duration
	least  time.Duration // if it is freed before, it rests until then
}

func (n *notes) start() {
	n.seed, n.born, n.nobody = maphash.MakeSeed(), time.Now(), rand.Text()
	for i := range n.shards {
		s := &n.shards[i]
		s.fresh, s.old, s.waits = make(map[string]note), make(map[string]note), make(map[*wait]bool)
	}
}

func (n *notes) now() time.Duration { return time.Since(n.born) }

func (n *notes) of(name string) *shard {
	return &n.shards[maphash.String(n.seed, name)%shards]
}

// add notes h, and says whether there was room for it.
func (n *notes) add(h Hold) bool {
	s, now := n.of(h.Name), n.now()
	one := held{token: h.Token, client: h.Client, waited: h.Waited, since: now, until: h.Until.Sub(n.born)}
	if !h.AtLeast.IsZero() {
		one.least = h.AtLeast.Sub(n.born)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.fresh[h.Name]; ok {
		n.hold(s, &known, one, h.Shared)
		s.fresh[h.Name] = known
		return true
	}
	if known, ok := s.old[h.Name]; ok {
		n.hold(s, &known, one, h.Shared)
		if known.written < known.until() {
			s.queue(h.Name, &known)
		}
		s.old[h.Name] = known
		return true
	}
	if s.count >= mostNotes || s.bytes+len(h.Name)+len(h.Token) > mostBytes {
		n.unnoted.Add(1)
		return false
	}
	s.count++
	s.bytes += len(h.Name) + len(h.Token)
	s.fresh[h.Name] = note{first: one, at: now}
	return true
}

// queue has the name of a lock in old written.
func (s *shard) queue(name string, known *note) {
	if !known.queued {
		known.queued = true
		s.due = append(s.due, name)
	}
}

// hold adds a hold to what is known of a lock. One that is not shared is the only one.
func (n *notes) hold(s *shard, known *note, h held, shared bool) {
	switch {
	case known.first.token == h.token:
		known.first.renew(h)
		if !shared && known.more != nil {
			s.drop(known, func(other *held) bool { return other.token != h.token })
		}
		return
	case !shared:
		s.drop(known, func(*held) bool { return true })
	default:
		for i := range known.more {
			if known.more[i].token == h.token {
				known.more[i].renew(h)
				return
			}
		}
		s.drop(known, func(other *held) bool { return other.until <= h.since })
	}
	if len(known.more) >= mostHolders || s.count >= mostNotes || s.bytes+len(h.token) > mostBytes {
		known.first.until = max(known.first.until, h.until) // the lock is noted, if not this hold
		n.unnoted.Add(1)
		return
	}
	s.count++
	s.bytes += len(h.token)
	if known.first.token == "" {
		known.first = h
	} else {
		known.more = append(known.more, h)
	}
}

// renew takes over what h says of the same hold.
func (o *held) renew(h held) {
	o.until, o.least = max(o.until, h.until), max(o.least, h.least)
	if h.client != nil {
		o.client, o.since = h.client, h.since
		if h.waited > 0 {
			o.waited = h.waited
		}
	}
}

// drop removes the holds that which selects. A lock without holds has an empty first one.
func (s *shard) drop(known *note, which func(*held) bool) {
	removed := func(h held) bool {
		if !which(&h) {
			return false
		}
		s.count--
		s.bytes -= len(h.token)
		return true
	}
	known.more = slices.DeleteFunc(known.more, removed)
	if known.first.token != "" && removed(known.first) {
		known.first = held{}
		if len(known.more) > 0 {
			known.first = known.more[0]
			known.more = slices.Delete(known.more, 0, 1)
		}
	}
	if len(known.more) == 0 {
		known.more = nil
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

// rest has the hold of token go on as one of nobody, if it is to rest, and says so.
func (n *notes) rest(s *shard, known *note, token string) bool {
	h := &known.first
	for i := 0; h.token != token; i++ {
		if i == len(known.more) {
			return false
		}
		h = &known.more[i]
	}
	if h.least == 0 || h.least <= n.now() {
		return false
	}
	s.bytes += len(n.nobody) - len(token)
	*h = held{token: n.nobody, until: h.least}
	return true
}

// remove forgets the hold of token, once it has rested.
func (n *notes) remove(name, token string) {
	s := n.of(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, all := range [...]map[string]note{s.fresh, s.old} {
		known, ok := all[name]
		if !ok {
			continue
		}
		if n.rest(s, &known, token) {
			all[name] = known
			return
		}
		if known.more == nil && known.first.token == token { // nearly always
			n.forget(s, all, name, &known)
			return
		}
		if s.drop(&known, func(h *held) bool { return h.token == token }); known.first.token == "" {
			n.forget(s, all, name, &known)
			return
		}
		all[name] = known
	}
}

// any says that there is a note, or something to be written.
func (n *notes) any() bool {
	for i := range n.shards {
		s := &n.shards[i]
		s.mu.Lock()
		some := len(s.fresh) > 0 || len(s.old) > 0 || len(s.gone) > 0
		s.mu.Unlock()
		if some {
			return true
		}
	}
	return false
}

// forget removes the note of a lock that is free now.
func (n *notes) forget(s *shard, from map[string]note, name string, known *note) {
	if known.first.token != "" {
		s.count--
		s.bytes -= len(known.first.token)
	}
	s.bytes -= len(name)
	delete(from, name)
	if known.written > 0 && len(s.gone) < mostNotes {
		s.gone = append(s.gone, freed{name, n.now()})
	}
}
