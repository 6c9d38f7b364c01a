package owned

import (
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/loop"
)

// This file is about the places for connections: a loop has a fixed number of them.
//
//	admitConn --> a place is free, or an idle connection is closed --> occupy: it connects
//	         \--> none: it waits in the queue                  <-- removeConn, keepIdle: a place gets free
//
// share.go says how many of them one client may have.

const (
	// idleMost is how long an idle connection is kept.
	idleMost = 30 * time.Second
	// maxIdle is how many of them are kept for each node and mode.
	maxIdle = 32
)

// Key is where a connection leads to, and in which mode it begins.
type Key struct {
	Addr string
	Mode cluster.Mode
}

// Options are what the places of a loop depend on.
type Options struct {
	Loop    *loop.Loop
	Most    int           // places
	Budget  time.Duration // how long a connection waits for one
	MaxPush int           // bytes of a push message that are kept
	// NewLink makes the link of a connection, which is not connected yet.
	NewLink func(c *Conn, key Key) Link
	Masters func() []*cluster.Node
}

// Places are the connections of a loop that are not shared.
type Places struct {
	Options
	counters *Totals
	all      map[*Conn]struct{} // those that have a place, connected or connecting
	idle     map[Key][]*Conn    // those of all without an owner; the latest used last
	queue    []*Conn            // wait for a place
	sets     map[*Set]struct{}  // those that have not ended, or have connections
	shares   shares             // places by party
	told     Stats              // the part that counters has
	closed   bool
}

// NewPlaces returns the places of a loop. counters may be shared among loops.
func NewPlaces(o Options, counters *Totals) *Places {
	return &Places{
		Options: o, counters: counters,
		all: make(map[*Conn]struct{}), idle: make(map[Key][]*Conn), sets: make(map[*Set]struct{}),
		shares: shares{has: make(map[Party]int)},
	}
}

// Lend returns a connection that only owner uses, until it is lost, or owner ends its use with Release or
// End. Requests may be given to it at once. They wait until it is connected; before that it may wait, for
// the Budget at most, for one of the places that the owner's Party may take.
func (o *Places) Lend(key Key, owner Owner) *Conn { return o.lend(key, owner, nil) }

// lend finds or makes a connection. set, if not nil, is the Set that it is beside.
func (o *Places) lend(key Key, owner Owner, set *Set) *Conn {
	if c := o.takeIdle(key, owner); c != nil {
		return c
	}
	c := o.makeConn(key, owner, set)
	o.admitConn(c)
	return c
}

// makeConn makes a connection that has no place yet.
func (o *Places) makeConn(key Key, owner any, set *Set) *Conn {
	c := &Conn{places: o, key: key, party: partyOf(owner), set: set}
	c.owner, _ = owner.(Owner)
	c.link = o.NewLink(c, key)
	if !c.Special() { // a client's user may not be allowed that: the dial asks first
		c.link.Ask(askClientID, c.numbered)
	}
	return c
}

// takeIdle gives owner an idle connection, which has its place already; nil if there is none. It is the one
// used last, so that the others get old, and are closed.
func (o *Places) takeIdle(key Key, owner Owner) *Conn {
	idle := o.idle[key]
	if len(idle) == 0 || !o.shares.within(partyOf(owner), o.Most) {
		return nil
	}
	c := idle[len(idle)-1]
	o.setIdle(key, idle[:len(idle)-1])
	c.owner, c.party = owner, partyOf(owner)
	o.shares.takePlace(c)
	o.countConns()
	if c.unnumbered != nil {
		c.link.Ask(askClientID, c.numbered)
	}
	return c
}

// HasRoom says that owner may have one more connection at once.
func (o *Places) HasRoom(owner Counted) bool {
	return len(o.all)+len(o.queue) < o.Most && o.shares.within(owner.Party(), o.Most)
}

// keepIdle keeps a connection whose use has ended for the next owner, or closes it if its place is needed. It
// reports false if no more are kept. It is counted for nobody while it is idle.
func (o *Places) keepIdle(c *Conn) bool {
	if o.closed || len(o.idle[c.key]) >= maxIdle {
		return false
	}
	c.owner, c.patient, c.silence, c.idleSince = nil, false, 0, o.Loop.Now()
	o.shares.givePlace(c)
	if len(o.queue) > 0 && len(o.all) >= o.Most {
		c.link.HangUp(ErrReleased)
		return true
	}
	o.setIdle(c.key, append(o.idle[c.key], c))
	o.admitNext()
	o.countConns()
	return true
}

// admitConn connects c as soon as there is a place for it. Requests may be given to it before: they wait in
// its link. The Budget ends the wait, with an error that Lost gets.
func (o *Places) admitConn(c *Conn) {
	defer o.countConns()
	switch {
	case o.closed:
		// not at once: the caller does not have c yet
		o.Loop.Post(func() { c.Failed(net.ErrClosed) })
	case o.shares.within(c.party, o.Most) &&
		(len(o.all) < o.Most || o.endOneIdle() && len(o.all) < o.Most): // in the place of an idle one
		o.occupy(c)
	default:
		o.queue = append(o.queue, c)
		o.Loop.After(o.Budget, func() {
			if o.leaveQueue(c) {
				c.Failed(o.noPlace(c.party))
			}
		})
	}
}

// occupy gives c a place and connects it.
func (o *Places) occupy(c *Conn) {
	o.all[c] = struct{}{}
	o.shares.takePlace(c)
	c.link.Dial()
}

// endOneIdle closes the connection that has been idle for the longest time, if there is one.
func (o *Places) endOneIdle() bool {
	var oldest *Conn
	for _, idle := range o.idle {
		if len(idle) > 0 && (oldest == nil || idle[0].idleSince.Before(oldest.idleSince)) {
			oldest = idle[0]
		}
	}
	if oldest == nil {
		return false
	}
	oldest.link.HangUp(ErrReleased)
	return true
}

// EndIdle closes the connections to addr that nobody has.
func (o *Places) EndIdle(addr string) {
	for key, idle := range o.idle {
		if key.Addr == addr {
			for _, c := range slices.Clone(idle) {
				c.link.HangUp(ErrReleased)
			}
		}
	}
}

// admitNext connects those of the queue for which there is a place now, the first one first.
func (o *Places) admitNext() {
	for i := 0; i < len(o.queue) && !o.closed; {
		switch c := o.queue[i]; {
		case !o.shares.within(c.party, o.Most):
			i++
		case len(o.all) < o.Most:
			o.queue = append(o.queue[:i:i], o.queue[i+1:]...)
			o.occupy(c)
		case o.endOneIdle(): // that may have admitted one
			i = 0
		default:
			return
		}
	}
}

// leaveQueue takes c out of the queue; it reports whether c was in it.
func (o *Places) leaveQueue(c *Conn) bool {
	i := slices.Index(o.queue, c)
	if i >= 0 {
		o.queue = append(o.queue[:i:i], o.queue[i+1:]...)
	}
	return i >= 0
}

// noPlace is why a connection for that party has waited for a place in vain.
func (o *Places) noPlace(party Party) error {
	if o.shares.within(party, o.Most) {
		return ErrNoPlace
	}
	return fmt.Errorf("%w: this address and user have %d of them, "+
		"as many as one client may while few are free", ErrNoPlace, o.shares.has[party])
}

// removeConn gives the place of a connection, if it has one, to the next. A connection that only waits in the
// queue has none.
func (o *Places) removeConn(c *Conn) {
	if _, ok := o.all[c]; !ok {
		return
	}
	delete(o.all, c)
	if i := slices.Index(o.idle[c.key], c); i >= 0 {
		o.setIdle(c.key, append(o.idle[c.key][:i:i], o.idle[c.key][i+1:]...))
	}
	o.shares.givePlace(c)
	o.admitNext()
}

// setIdle replaces the idle connections of key. Keys without any are dropped, for addresses come and go.
func (o *Places) setIdle(key Key, idle []*Conn) {
	if len(idle) == 0 {
		delete(o.idle, key)
		return
	}
	o.idle[key] = idle
}

// Patrol closes idle connections that are not needed, and has nodes asked whether they are there that should
// send pushes. silent says how long a node has sent nothing, timeout how long it may owe a reply.
func (o *Places) Patrol(timeout time.Duration, silent func(Link) time.Duration) {
	for c := range o.all {
		idle, listens := c.Idle(o.Loop.Now())
		switch {
		case !c.link.Up():
		case idle > idleMost:
			c.link.HangUp(ErrReleased)
		case listens && c.link.Owed() == 0 && silent(c.link) > timeout/2:
			c.link.Ask(askPing, nil) // is it still there?
		}
	}
}

// Close ends all of them.
func (o *Places) Close() {
	o.closed = true
	for _, c := range o.queue {
		c.Failed(net.ErrClosed)
	}
	o.queue = nil
	for c := range o.all {
		c.Close(net.ErrClosed)
	}
}

// Stats are the connections that are not shared, now.
type Stats struct {
	Used    int64 // in use by a client
	Idle    int64 // they are kept for the next one
	Waiting int64 // they wait for a place
}

// Totals are the Stats of all loops together. Safe for concurrent use.
type Totals struct{ used, idle, waiting atomic.Int64 }

// Now is what they are now.
func (c *Totals) Now() Stats {
	return Stats{Used: c.used.Load(), Idle: c.idle.Load(), Waiting: c.waiting.Load()}
}

// Now is what the loop has now, and how many sets.
func (o *Places) Now() (now Stats, sets int) {
	used := o.shares.all
	now = Stats{Used: int64(used), Idle: int64(len(o.all) - used), Waiting: int64(len(o.queue))}
	return now, len(o.sets)
}

// countConns tells the counters how many there are now.
func (o *Places) countConns() {
	now, _ := o.Now()
	o.counters.used.Add(now.Used - o.told.Used)
	o.counters.idle.Add(now.Idle - o.told.Idle)
	o.counters.waiting.Add(now.Waiting - o.told.Waiting)
	o.told = now
}
