package pipe

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"time"

	"lockproxy/internal/loop"
)

// This file is about the places for owned pipes: a loop has a fixed number of them.
//
//	admit --> a place is free, or an idle pipe is closed --> occupy: it connects
//	     \--> none: it waits in the queue                <-- remove, keep: a place gets free
//
// share.go says how many of them one client may have.

const (
	// ownIdle is how long an idle owned pipe is kept.
	ownIdle = 30 * time.Second
	// maxOwnIdle is how many of them are kept for each node and mode.
	maxOwnIdle = 32
)

// ownPipes are the pipes of a loop that are not shared.
type ownPipes struct {
	loop   *loop.Loop
	most   int           // places
	budget time.Duration // how long a pipe waits for one
	stats  *ownCounters

	all    map[*Pipe]struct{}  // those that have a place, connected or connecting
	idle   map[nodeKey][]*Pipe // those of all without an owner; the latest used last
	queue  []*Pipe             // wait for a place
	shares shares              // places by party
	told   OwnStats            // the part that stats has
	closed bool
}

func newOwnPipes(l *loop.Loop, o *Options, stats *ownCounters) ownPipes {
	return ownPipes{
		loop: l, most: o.MaxOwn, budget: o.Budget, stats: stats,
		all: make(map[*Pipe]struct{}), idle: make(map[nodeKey][]*Pipe),
		shares: shares{has: make(map[Party]int)},
	}
}

// take gives owner an idle connection; nil if there is none.
func (o *ownPipes) take(key nodeKey, owner Owner) *Pipe {
	idle := o.idle[key]
	if len(idle) == 0 || !o.shares.within(partyOf(owner), o.most) {
		return nil
	}
	pipe := idle[len(idle)-1]
	o.setIdle(key, idle[:len(idle)-1])
	pipe.owner, pipe.party = owner, partyOf(owner)
	o.shares.take(pipe)
	return pipe
}

// keep keeps a pipe whose use has ended for the next owner, or closes it if its place is needed. It reports
// false if no more pipes are kept.
func (o *ownPipes) keep(p *Pipe) bool {
	key := nodeKey{p.addr, p.mode}
	if o.closed || len(o.idle[key]) >= maxOwnIdle {
		return false
	}
	p.owner, p.patient, p.silence, p.idleSince = nobody{}, false, 0, o.loop.Now()
	o.shares.give(p)
	if len(o.queue) > 0 && len(o.all) >= o.most {
		p.hangUp(errReleased)
		return true
	}
	o.setIdle(key, append(o.idle[key], p))
	o.admitNext()
	o.count()
	return true
}

// admit connects pipe as soon as there is a place for it.
func (o *ownPipes) admit(pipe *Pipe) {
	switch {
	case o.closed:
		o.loop.Post(func() { pipe.failed(net.ErrClosed) })
	case o.shares.within(pipe.party, o.most) && o.placeIsFree():
		o.occupy(pipe)
	default:
		o.queue = append(o.queue, pipe)
		o.loop.After(o.budget, func() {
			if o.leaveQueue(pipe) {
				pipe.failed(o.noPlace(pipe))
			}
		})
	}
}

// occupy gives pipe a place and connects it.
func (o *ownPipes) occupy(pipe *Pipe) {
	o.all[pipe] = struct{}{}
	o.shares.take(pipe)
	pipe.dial()
}

// placeIsFree says that one more pipe may connect, if need be in the place of an idle one.
func (o *ownPipes) placeIsFree() bool {
	return len(o.all) < o.most || o.endOneIdle() && len(o.all) < o.most
}

// endOneIdle closes the pipe that has been idle for the longest time, if there is one.
func (o *ownPipes) endOneIdle() bool {
	var oldest *Pipe
	for _, idle := range o.idle {
		if len(idle) > 0 && (oldest == nil || idle[0].idleSince.Before(oldest.idleSince)) {
			oldest = idle[0]
		}
	}
	if oldest == nil {
		return false
	}
	oldest.hangUp(errReleased)
	return true
}

// endIdle closes the connections to addr that nobody has.
func (o *ownPipes) endIdle(addr string) {
	for key, idle := range o.idle {
		if key.addr == addr {
			for _, pipe := range slices.Clone(idle) {
				pipe.hangUp(errReleased)
			}
		}
	}
}

// admitNext connects the pipes of the queue for which there is a place now, the first one first.
func (o *ownPipes) admitNext() {
	for i := 0; i < len(o.queue) && !o.closed; {
		switch pipe := o.queue[i]; {
		case !o.shares.within(pipe.party, o.most):
			i++
		case len(o.all) < o.most:
			o.queue = append(o.queue[:i:i], o.queue[i+1:]...)
			o.occupy(pipe)
		case o.endOneIdle(): // that may have admitted one
			i = 0
		default:
			return
		}
	}
}

// leaveQueue takes pipe out of the queue; it reports whether pipe was in it.
func (o *ownPipes) leaveQueue(pipe *Pipe) bool {
	i := slices.Index(o.queue, pipe)
	if i >= 0 {
		o.queue = append(o.queue[:i:i], o.queue[i+1:]...)
	}
	return i >= 0
}

// noPlace is why a pipe has waited for a place in vain.
func (o *ownPipes) noPlace(pipe *Pipe) error {
	if o.shares.within(pipe.party, o.most) {
		return ErrNoPlace
	}
	return fmt.Errorf("%w: this address and user have %d of them, "+
		"as many as one client may while few are free",
		ErrNoPlace, o.shares.has[pipe.party])
}

// remove gives the place of a pipe, if it has one, to the next.
func (o *ownPipes) remove(pipe *Pipe) {
	if _, ok := o.all[pipe]; !ok {
		return
	}
	delete(o.all, pipe)
	key := nodeKey{pipe.addr, pipe.mode}
	if i := slices.Index(o.idle[key], pipe); i >= 0 {
		o.setIdle(key, append(o.idle[key][:i:i], o.idle[key][i+1:]...))
	}
	o.shares.give(pipe)
	o.admitNext()
}

func (o *ownPipes) setIdle(key nodeKey, idle []*Pipe) {
	if len(idle) == 0 {
		delete(o.idle, key)
		return
	}
	o.idle[key] = idle
}

// patrol closes idle pipes that are not needed, and pipes whose nodes have owed a reply for timeout.
func (o *ownPipes) patrol(now time.Time, timeout time.Duration) {
	for pipe := range o.all {
		pipe.renewLogin()
		silent := now.Sub(pipe.progress)
		_, idle := pipe.owner.(nobody)
		_, listens := pipe.owner.(*trackingConn)
		listens = listens || pipe.private != nil && pipe.private.owner == nil
		switch {
		case pipe.conn == nil:
		case !pipe.retired.IsZero() && now.Sub(pipe.retired) > retireAfter:
			pipe.hangUp(errRetired)
		case idle && now.Sub(pipe.idleSince) > ownIdle:
			pipe.hangUp(errReleased)
		case pipe.stream.starves(), pipe.private.isPaused():
		case pipe.calls.len() > 0 && !pipe.patient && silent > cmp.Or(pipe.silence, timeout):
			pipe.hangUp(errSilent)
		case listens && pipe.calls.len() == 0 && silent > timeout/2:
			pipe.append(&call{slot: thisNode, raw: true, ours: true}, askPing) // is it still there?
		}
	}
}

// close ends all of them.
func (o *ownPipes) close() {
	o.closed = true
	for _, pipe := range o.queue {
		pipe.failed(net.ErrClosed)
	}
	o.queue = nil
	for pipe := range o.all {
		if pipe.dialing {
			pipe.cancel()
			pipe.failed(net.ErrClosed)
		}
		pipe.hangUp(net.ErrClosed)
	}
}

// count tells the stats how many there are now.
func (o *ownPipes) count() {
	now := OwnStats{Used: int64(len(o.all)), Waiting: int64(len(o.queue))}
	for _, idle := range o.idle {
		now.Idle += int64(len(idle))
	}
	now.Used -= now.Idle
	o.stats.used.Add(now.Used - o.told.Used)
	o.stats.idle.Add(now.Idle - o.told.Idle)
	o.stats.waiting.Add(now.Waiting - o.told.Waiting)
	o.told = now
}
