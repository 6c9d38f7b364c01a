package pipe

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

// This file is connections that one client has for itself, for what a shared pipe cannot
// carry: transactions, commands that block, tracking. They are pipes too:
//
//	Pool.Own --> Pipe.Request ... Receiver --> Release (somebody else may have it), or End
//
// A pipe of somebody's own passes every reply on as it came, MOVED too, and never sends
// a request twice: its owner knows what it has asked for and decides.

// Owner has a pipe of its own. Its methods run on the loop.
type Owner interface {
	// Push is given a push message of the node as it came, in one or more chunks; last marks
	// the end of it. chunk is valid during the call.
	Push(chunk []byte, last bool)
	// Lost says that the connection is no more, or could not be had, and why; the requests on their way have
	// failed before. It is not called after Release and End.
	Lost(err error)
}

const (
	// ownIdle is how long a connection that nobody has is kept.
	ownIdle = 30 * time.Second
	// maxOwnIdle is how many of them are kept for each node and mode.
	maxOwnIdle = 32
)

// Errors of connections of one's own.
var (
	errReleased = errors.New("not needed any more")
	// ErrNoPlace is why there was no connection of one's own to be had.
	ErrNoPlace = errors.New("all connections that are not shared are in use (upstream-own-connections)")
)

// Own returns a connection to the node at addr that nobody but owner uses until it is
// lost, or owner ends its use with Release or End. Requests may be given to it at once: they wait until it
// is made, or until one of Options.MaxOwn places is free that the owner's Party may take, for
// Options.Budget at most. For a client that
// has a Private, m.Own, it is the connection of that set, which Release gives back to it.
func (p *Pool) Own(addr string, m Mode, owner Owner) *Pipe {
	defer p.countOwn()
	if m.Own != nil {
		return m.Own.lend(addr, owner)
	}
	return p.lend(addr, m, owner)
}

// lend finds or makes a connection of mode m.
func (p *Pool) lend(addr string, m Mode, owner Owner) *Pipe {
	key := nodeKey{addr, m}
	if idle := p.idle[key]; len(idle) > 0 && p.shares.within(partyOf(owner), p.o.MaxOwn) {
		pipe := idle[len(idle)-1]
		p.setIdle(key, idle[:len(idle)-1])
		pipe.owner, pipe.party = owner, partyOf(owner)
		p.shares.take(pipe)
		return pipe
	}
	pipe := p.newOwn(addr, m, owner)
	p.admit(pipe)
	return pipe
}

// newOwn is a pipe that is not connected yet.
func (p *Pool) newOwn(addr string, m Mode, owner Owner) *Pipe {
	pipe := &Pipe{
		pool: p, addr: addr, mode: m, stats: p.stats.node(addr), owner: owner, party: partyOf(owner),
	}
	pipe.append(call{to: (*clientID)(pipe), slot: thisNode, raw: true}, askClientID)
	return pipe
}

// admit has pipe connect as soon as there is a place for it.
func (p *Pool) admit(pipe *Pipe) {
	switch {
	case p.closed:
		p.loop.Post(func() { pipe.failed(net.ErrClosed) })
	case p.shares.within(pipe.party, p.o.MaxOwn) && p.placeIsFree():
		p.occupy(pipe)
	default:
		p.queue = append(p.queue, pipe)
		p.loop.After(p.o.Budget, func() {
			if p.leaveQueue(pipe) {
				pipe.failed(p.noPlace(pipe))
			}
		})
	}
}

// MasterOf is the address of the master of slot n (AnySlot: of any), "" if there is none.
func (p *Pool) MasterOf(n int) string {
	i := -1
	switch {
	case n >= 0:
		i = int(p.index[n])
	case len(p.masters) > 0:
		p.turn++
		i = p.turn % len(p.masters)
	}
	if i < 0 {
		return ""
	}
	return p.topology.Masters[i].Addr
}

// Request sends req, one whole command, over a pipe of to's own. req is copied, or kept if it is larger than
// loop.Shared: then nobody may write to it any more. to gets the reply under tag, whatever
// it is. A request of a connection that is lost fails at once.
func (p *Pipe) Request(req []byte, to Receiver, tag uint32) {
	if p.dead != nil {
		to.Fail(tag, fmt.Errorf("%w: %w", cluster.ErrUnavailable, p.dead))
		return
	}
	p.append(call{to: to, tag: tag, slot: thisNode, raw: true, before: p.mode.before()}, req)
}

// Private says that the pipe is one of a Private, whose owner is given its pushes.
func (p *Pipe) Private() bool { return p.private != nil }

// Addr is the address of the pipe's node.
func (p *Pipe) Addr() string { return p.addr }

// ClientID is the id that the node gave the connection of a pipe of somebody's own; 0 as
// long as it is not known, which it is before the first reply.
func (p *Pipe) ClientID() int64 { return p.clientID }

// SetPatient says that the node may owe a reply for as long as it likes, because it was sent a command that
// blocks.
func (p *Pipe) SetPatient(patient bool) {
	p.patient = patient
	p.progress = p.pool.loop.Now()
}

// Release ends the use of a pipe of one's own whose connection is as it was in the beginning. If a
// reply is still to come it is closed.
func (p *Pipe) Release() {
	if p.private != nil {
		p.private.giveBack()
		return
	}
	key := nodeKey{p.addr, p.mode}
	unfit := p.conn == nil || p.mode.special() || p.calls.len() > 0 || !p.retired.IsZero() || p.pool.closed
	if unfit || len(p.pool.idle[key]) >= maxOwnIdle {
		p.End()
		return
	}
	p.owner, p.patient, p.silence, p.idleSince = nobody{}, false, 0, p.pool.loop.Now()
	p.pool.shares.give(p)
	if queue := p.pool.queue; len(queue) > 0 && len(p.pool.own) >= p.pool.o.MaxOwn {
		p.hangUp(errReleased) // the place is wanted
		return
	}
	p.pool.setIdle(key, append(p.pool.idle[key], p))
	p.pool.admitNext()
	p.pool.countOwn()
}

// End ends the use of a pipe of one's own and closes it. Requests on their way fail, with
// ErrUnknownOutcome if they were written.
func (p *Pipe) End() {
	if p.private != nil {
		p.private.borrower = nil
	} else {
		p.owner = nobody{}
	}
	p.close(errReleased)
}

// close ends a pipe of somebody's own, whether or not it is connected yet.
func (p *Pipe) close(why error) {
	switch {
	case p.dead != nil:
	case p.conn != nil:
		p.hangUp(why)
	default:
		if p.dialing {
			p.cancel()
		}
		p.pool.leaveQueue(p)
		p.failed(why)
	}
}

// nobody owns what is idle or was given up.
type nobody struct{}

func (nobody) Push([]byte, bool) {}
func (nobody) Lost(error)        {}

// occupy has pipe connect.
func (p *Pool) occupy(pipe *Pipe) {
	p.own[pipe] = struct{}{}
	p.shares.take(pipe)
	pipe.dial()
}

// failed ends a pipe of somebody's own.
func (p *Pipe) failed(err error) {
	if p.dead != nil {
		return
	}
	p.dead = err
	if p.private != nil {
		p.private.leave()
	}
	pool := p.pool
	if _, ok := pool.own[p]; ok {
		delete(pool.own, p)
		pool.removeIdle(p)
		pool.shares.give(p)
		pool.admitNext()
	}
	p.abandon(err)
	pool.countOwn()
	p.owner.Lost(err)
}

// placeIsFree says that one more may connect, if need be instead of one that nobody has.
func (p *Pool) placeIsFree() bool {
	return len(p.own) < p.o.MaxOwn || p.endOneIdle() && len(p.own) < p.o.MaxOwn
}

// endOneIdle closes the connection that nobody has had for the longest time, if there is one.
func (p *Pool) endOneIdle() bool {
	var oldest *Pipe
	for _, idle := range p.idle {
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

// leaveQueue says whether pipe was waiting for a place.
func (p *Pool) leaveQueue(pipe *Pipe) bool {
	for i, waiting := range p.queue {
		if waiting == pipe {
			p.queue = append(p.queue[:i:i], p.queue[i+1:]...)
			return true
		}
	}
	return false
}

func (p *Pool) setIdle(key nodeKey, idle []*Pipe) {
	if len(idle) == 0 {
		delete(p.idle, key)
		return
	}
	p.idle[key] = idle
}

func (p *Pool) removeIdle(pipe *Pipe) {
	key := nodeKey{pipe.addr, pipe.mode}
	for i, other := range p.idle[key] {
		if other == pipe {
			p.setIdle(key, append(p.idle[key][:i:i], p.idle[key][i+1:]...))
			return
		}
	}
}

// patrolOwn closes what nobody needs or has answered for too long.
func (p *Pool) patrolOwn(now time.Time) {
	for pipe := range p.own {
		silent := now.Sub(pipe.progress)
		_, idle := pipe.owner.(nobody)
		_, listens := pipe.owner.(*trackingConn)
		listens = listens || pipe.private != nil && pipe.private.borrower == nil
		switch {
		case pipe.conn == nil:
		case !pipe.retired.IsZero() && now.Sub(pipe.retired) > retireAfter:
			pipe.hangUp(errRetired)
		case idle && now.Sub(pipe.idleSince) > ownIdle:
			pipe.hangUp(errReleased)
		case pipe.calls.len() > 0 && !pipe.patient && silent > cmp.Or(pipe.silence, p.o.Timeout):
			pipe.hangUp(errSilent)
		case listens && pipe.calls.len() == 0 && silent > p.o.Timeout/2:
			pipe.append(call{slot: thisNode, raw: true}, askPing) // is it still there?
		}
	}
}

// closeOwn ends all of them.
func (p *Pool) closeOwn() {
	for _, pipe := range p.queue {
		pipe.failed(net.ErrClosed)
	}
	p.queue = nil
	for pipe := range p.own {
		if pipe.dialing {
			pipe.cancel()
			pipe.failed(net.ErrClosed)
		}
		pipe.hangUp(net.ErrClosed)
	}
}

// askClientID is the first request of a pipe of somebody's own.
var askClientID = resp.AppendCommandStrings(nil, "CLIENT", "ID")

// clientID is a Pipe that takes the answer to CLIENT ID. A node that knows no ids, Redis
// before 5.0, leaves it 0.
type clientID Pipe

func (p *clientID) Receive(_ uint32, chunk []byte, _ bool) {
	if n, err := strconv.ParseInt(string(trimNumber(chunk)), 10, 64); err == nil {
		p.clientID = n
	}
}

func (p *clientID) Fail(uint32, error)  {}
func (p *clientID) Discard(uint32) bool { return true }
func (p *clientID) Detour(uint32)       {}

// trimNumber is the digits of an integer reply.
func trimNumber(reply []byte) []byte {
	if len(reply) < 3 || reply[0] != ':' {
		return nil
	}
	return reply[1 : len(reply)-2]
}
