package index

import (
	"time"

	"lockproxy/redlock"
)

// KnownHolder is who has a hold, as proxies tell each other in JSON. Times are in ms.
type KnownHolder struct {
	redlock.Client `json:"client"`
	Digest         string `json:"token"`
	Noted          int64  `json:"noted"`  // how long ago the client took or renewed it
	Waited         int64  `json:"waited"` // for the grant
	Proxy          string `json:"-"`      // id of the proxy that says so
}

// KnownWaiter is who waits, as KnownHolder.
type KnownWaiter struct {
	redlock.Client `json:"client"`
	Mode           redlock.Mode `json:"mode"`
	Waited         int64        `json:"waited"` // so far
	Proxy          string       `json:"-"`
}

// wait is a wait that goes on. since counts from notes.born.
type wait struct {
	name   string
	client *redlock.Client
	mode   redlock.Mode
	since  time.Duration
}

// Waits notes that a waits, until left is called. left may be called on any goroutine.
func (x *Index) Waits(a *redlock.Acquire) (left func()) {
	s, _ := x.notes.lockShard(a.Name)
	w := &wait{a.Name, a.Client, a.Mode, x.notes.now()}
	s.waits[w] = true
	s.mu.Unlock()
	x.o.Used()
	return func() {
		s.mu.Lock()
		delete(s.waits, w)
		s.mu.Unlock()
	}
}

// canonical is the one name of a lock that has two, as a and {a}.
func canonical(name string) string { return string(redlock.Unbraced([]byte(name))) }

// Who returns what this proxy remembers of a lock. It has two names if it is a or {a}.
func (x *Index) Who(name string) (holders []KnownHolder, waiters []KnownWaiter) {
	holders, waiters = x.notes.appendKnown(name, nil, nil)
	if one := canonical(name); one != name {
		return x.notes.appendKnown(one, holders, waiters)
	} else if two := "{" + name + "}"; canonical(two) == name {
		return x.notes.appendKnown(two, holders, waiters)
	}
	return holders, waiters
}

// appendKnown appends what is known of the lock under that name. A hold whose client is not known, such as
// one that rests, is left out.
func (n *notes) appendKnown(name string, holders []KnownHolder, waiters []KnownWaiter) ([]KnownHolder,
	[]KnownWaiter) {
	s, hash := n.lockShard(name)
	defer s.mu.Unlock()
	now := n.now()
	for _, h := range s.findNote(name, hash).allHolds() {
		if h.client != nil {
			holders = append(holders, KnownHolder{Client: *h.client, Digest: redlock.Digest(h.token),
				Noted: (now - h.noted).Milliseconds(), Waited: h.waited.Milliseconds()})
		}
	}
	for w := range s.waits {
		if w.name == name && w.client != nil {
			waiters = append(waiters, KnownWaiter{Client: *w.client, Mode: w.mode,
				Waited: (now - w.since).Milliseconds()})
		}
	}
	return holders, waiters
}

// Tokens returns the tokens that a connection was granted a lock with, the last one last, and of those that
// whose leases go on.
func (x *Index) Tokens(name string, by redlock.HoldOwner) (all, alive []string) {
	s, hash := x.notes.lockShard(name)
	defer s.mu.Unlock()
	now := x.notes.now()
	for _, h := range s.findNote(name, hash).allHolds() {
		if h.granted && h.owner == by {
			if all = append(all, h.token); h.until > now {
				alive = append(alive, h.token)
			}
		}
	}
	return all, alive
}
