package pipe

import (
	"fmt"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

// This file is about owned pipes: connections that one client has to itself, for what a shared pipe cannot
// carry: transactions, commands that block, tracking.
//
//	Pool.Own --> Pipe.Request ... Receiver --> Release (another owner may have it), or End
//
// An owned pipe passes on every reply as it came, MOVED too, and never sends a request twice: its owner
// knows what it has asked for, and decides.

// Owner is the owner of a pipe. Its methods run on the loop.
type Owner interface {
	// Push is given a push message of the node as it came, in one or more chunks; last marks
	// the end of it. chunk is valid during the call.
	Push(chunk []byte, last bool)
	// Lost says that the connection has ended, or could not be made, and why. The requests on their way have
	// failed before. Lost is not called after Release and End.
	Lost(err error)
}

// owning is what a pipe is for its owner.
type owning struct {
	owner     Owner // nil: the pipe is shared
	party     Party // that the owner belongs to
	counted   bool  // for the party
	places    *ownPipes
	private   *privatePipe
	stream    *Stream // that is being sent; nothing else may be queued then
	dead      error   // why it is of no use any more
	ended     bool    // its owner has no more requests
	patient   bool
	silence   time.Duration // how long its node may owe a reply; 0: Options.Timeout
	proven    bool
	clientID  int64
	idleSince time.Time
}

// Whole is an Owner between whose requests nothing may come now, as in MULTI.
type Whole interface{ Whole() bool }

// Own returns a connection to the node at addr that only owner uses, until it is lost, or owner ends its use
// with Release or End. Requests may be given to it at once. They wait until it is connected; before that it
// may wait, for Options.Budget at most, for one of the Options.MaxOwn places that the owner's Party may
// take. For a client that has a Private, m.Own, it is the connection of that set, which Release gives back
// to the set.
func (p *Pool) Own(addr string, m Mode, owner Owner) *Pipe {
	defer p.own.count()
	if m.Own != nil {
		return m.Own.lend(addr, owner)
	}
	return p.lend(addr, m, owner)
}

// lend finds or makes a connection of mode m.
func (p *Pool) lend(addr string, m Mode, owner Owner) *Pipe {
	if pipe := p.own.take(nodeKey{addr, m}, owner); pipe != nil {
		return pipe
	}
	pipe := p.newOwn(addr, m, owner)
	p.own.admit(pipe)
	return pipe
}

// newOwn is an owned pipe that is not connected yet.
func (p *Pool) newOwn(addr string, m Mode, owner Owner) *Pipe {
	pipe := newPipe(p.env, p, addr, m)
	pipe.owning = owning{places: &p.own, owner: owner, party: partyOf(owner)}
	if m.dialled().As == nil { // a client's user may not be allowed that: Dial asks first
		pipe.ask(askClientID, pipe.numbered)
	}
	return pipe
}

// Request sends req, one whole command, over an owned pipe. req is copied, or kept if it is larger than
// loop.Shared: then nobody may write to it any more. to gets the reply under tag, whatever it is. If the
// connection is lost already, the request fails at once.
func (p *Pipe) Request(req []byte, to Receiver, tag uint32) {
	if p.dead != nil {
		to.Fail(tag, fmt.Errorf("%w: %w", cluster.ErrUnavailable, p.dead))
		return
	}
	p.append(&call{to: to, tag: tag, slot: thisNode, raw: true, before: p.mode.before()}, req)
}

// Private says that the pipe belongs to a Private, whose owner gets its pushes.
func (o *owning) Private() bool { return o.private != nil }

// Addr is the address of the pipe's node.
func (p *Pipe) Addr() string { return p.addr }

// ClientID is the node's id of the connection of an owned pipe; 0 if it is not known, as before the first
// reply.
func (o *owning) ClientID() int64 { return o.clientID }

// SetPatient says that the node may take as long as it likes for a reply, because it was sent a command that
// blocks.
func (p *Pipe) SetPatient(patient bool) {
	p.patient = patient
	p.progress = p.loop.Now()
}

// EndRequests ends this side of the connection of an owned pipe, which is there, behind the requests so far.
// The node answers what it can at once. Then it closes the connection, which ends a command that blocks.
func EndRequests(p *Pipe) {
	if p.ended = true; p.conn != nil {
		p.conn.EndOutput()
	}
}

// Release ends the use of an owned pipe whose connection is in its initial state. If a reply is still to
// come, or there can be no more requests, the pipe is closed.
func (p *Pipe) Release() {
	if p.ended {
		p.End()
		return
	}
	if p.private != nil {
		p.private.giveBack()
		return
	}
	unfit := p.conn == nil || p.mode.special() || p.calls.len() > 0 || !p.retired.IsZero() || p.leaving
	if unfit || !p.places.keep(p) {
		p.End()
	}
}

// End ends the use of an owned pipe and closes it. Requests on their way fail, with ErrUnknownOutcome if
// they were written.
func (p *Pipe) End() {
	if p.private != nil {
		p.private.owner = nil
	} else {
		p.owner = nobody{}
	}
	p.close(errReleased)
}

// close ends an owned pipe, whether or not it is connected yet.
func (p *Pipe) close(why error) {
	switch {
	case p.dead != nil:
	case p.conn != nil:
		p.hangUp(why)
	default:
		if p.dialing {
			p.cancel()
		}
		p.places.leaveQueue(p)
		p.failed(why)
	}
}

// nobody is the owner of pipes that are idle or were given up.
type nobody struct{}

func (nobody) Push([]byte, bool) {}
func (nobody) Lost(error)        {}

// failed ends an owned pipe because of an error.
func (p *Pipe) failed(err error) {
	if p.dead != nil {
		return
	}
	p.dead = err
	if p.private != nil {
		p.private.leave()
	}
	p.places.remove(p)
	p.home.abandon(p, err)
	p.places.count()
	p.owner.Lost(err)
}

// askClientID is the first request of an owned pipe, as the proxy's user.
var askClientID = resp.AppendCommandStrings(nil, "CLIENT", "ID")

// numbered takes the answer to CLIENT ID. A node that knows no ids, Redis before 5.0, leaves it 0.
func (o *owning) numbered(reply []byte, _ error) {
	if v, _, err := resp.Parse(reply); err == nil && v.Kind == ':' {
		o.clientID = v.Int
	}
}
