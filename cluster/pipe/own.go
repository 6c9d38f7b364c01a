package pipe

import (
	"bytes"
	"fmt"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/cluster/pipe/queue"
	"lockproxy/cluster/retry"
)

// This file makes a Pipe the link of a connection that one client has to itself.
//
//	Pool.Own --> Pipe.Request ... Receiver --> Release (another owner may have it), or End
//
// Such a pipe passes on every reply as it came, MOVED too, and never sends a request twice: its owner
// knows what it has asked for, and decides.

// ownedPipes are the pipes that clients have to themselves.
type ownedPipes struct {
	*env
	own *owned.Places
}

// Own returns a connection to the node at addr that only owner uses: see owned.Places.Lend. For a client that
// has a Set, m.Own, it is the connection of that set, which Release gives back to the set.
func (o *ownedPipes) Own(addr string, m Mode, owner owned.Owner) *Pipe {
	if m.Own != nil {
		return pipeOf(m.Own.Lend(addr, owner))
	}
	return pipeOf(o.own.Lend(owned.Key{Addr: addr, Mode: m.dialled()}, owner))
}

// Private returns a set of connections that is empty so far, in mode m. as, if not nil, is another user than
// the proxy, whose client it is for.
func (o *ownedPipes) Private(m Mode, owner owned.SetOwner, as *cluster.Login) *owned.Set {
	return o.own.NewSet(cluster.Mode{Proto: m.Proto, DB: m.DB, As: as}, owner)
}

// HasRoom says that owner may have one more connection to itself at once.
func (o *ownedPipes) HasRoom(owner owned.Counted) bool { return o.own.HasRoom(owner) }

// Request sends req, one whole command, over an owned pipe. req is copied, or kept if it is larger than
// loop.Shared: then nobody may write to it any more. to gets the reply under tag, whatever it is. If the
// connection is lost already, the request fails at once.
func (p *Pipe) Request(req []byte, to Receiver, tag uint32) {
	if dead := p.Dead(); dead != nil {
		to.Fail(tag, fmt.Errorf("%w: %w", cluster.ErrUnavailable, dead))
		return
	}
	p.appendRequest(&call{to: to, tag: tag, slot: thisNode, raw: true, before: p.mode.before()}, req)
}

// Addr is the address of the pipe's node.
func (p *Pipe) Addr() string { return p.addr }

// EndRequests ends this side of the connection of an owned pipe, which is there, behind the requests so far.
// The node answers what it can at once. Then it closes the connection, which ends a command that blocks.
func EndRequests(p *Pipe) {
	if p.SetEnded(); p.conn != nil {
		p.conn.EndOutput()
	}
}

// Redirection is where to send a request that a node did not run.
type Redirection struct {
	Addr   string // the node; "": the master of its slot, after a while
	Asking bool   // the node only imports the slot: ASKING goes before the request
}

// Retryable says that an error reply on an owned pipe does not concern the client: the node did not run the
// request, which may be sent to to. It counts the reply, and hints that the topology may be out of date.
func (p *Pipe) Retryable(reply []byte) (to Redirection, ok bool) {
	r, rest := retry.ErrorOf(reply)
	switch {
	case r == nil, r.Verdict == retry.LoadScript:
		return Redirection{}, false
	case r.Verdict == retry.Redirect:
		if _, to.Addr, ok = retry.ParseRedirect(rest, p.addr); !ok {
			return Redirection{}, false
		}
		to.Addr = p.home.member(to.Addr) // "": until the topology shows it
		to.Asking = to.Addr != "" && r.Counts == retry.Ask
	}
	p.stats.Redirects[r.Counts].Add(1)
	p.Refresh()
	return to, true
}

// interruption is the error by which a node that becomes a replica ends the commands that block there. Then
// it closes their connections.
var interruption = []byte("-UNBLOCKED force unblock")

// Interrupted says that an error reply ended a blocking command that had no effect, because its node is no
// longer a master.
func Interrupted(reply []byte) bool { return bytes.HasPrefix(reply, interruption) }

// carrier is a Pipe as the link of a connection.
type carrier struct{ *Pipe }

// carryConn makes the pipe of a connection.
func (o *ownedPipes) carryConn(c *owned.Conn, key owned.Key) owned.Link {
	m := Mode{Proto: key.Mode.Proto, DB: key.Mode.DB, Replica: key.Mode.Replica, Own: c.Set()}
	pipe := newPipe(o.env, key.Addr, m)
	pipe.Conn = c
	return carrier{pipe}
}

// pipeOf is the pipe that carries a connection. Every link is a carrier: carryConn makes them all.
func pipeOf(c *owned.Conn) *Pipe { return c.Link().(carrier).Pipe }

// Dial implements owned.Link.
func (c carrier) Dial() {
	c.ownPipes[c.Pipe] = struct{}{}
	c.dialNode()
}

// HangUp implements owned.Link.
func (c carrier) HangUp(why error) {
	if c.dialing {
		c.cancel()
	}
	c.hangUp(why)
}

// Abandon implements owned.Link.
func (c carrier) Abandon(err error) {
	delete(c.ownPipes, c.Pipe)
	c.home.abandonRequests(c.Pipe, err)
}

// Up implements owned.Link.
func (c carrier) Up() bool { return c.conn != nil }

// Fit implements owned.Link.
func (c carrier) Fit() bool {
	return c.conn != nil && c.calls.Len() == 0 && c.retired.IsZero() && !c.leaving
}

// Owed implements owned.Link.
func (c carrier) Owed() int { return c.calls.Len() }

// Owes implements owned.Link.
func (c carrier) Owes(owner bool) bool {
	for i := range c.calls.Len() {
		if one := c.calls.At(i); !one.ours && (one.raw || !owner) {
			return true
		}
	}
	return false
}

// Ask implements owned.Link.
func (c carrier) Ask(req []byte, then func(reply []byte, err error)) { c.askNode(req, then) }

// Front implements owned.Link.
func (c carrier) Front(reqs [][]byte, then func(reply []byte, err error)) {
	// None of it is written: the connection is not there yet.
	calls, log := c.calls, c.log
	c.calls, c.log = queue.Ring[call]{}, queue.Backlog{}
	for _, req := range reqs {
		c.askNode(req, then)
	}
	for calls.Len() > 0 {
		one := calls.Pop()
		c.log.Append(log.Oldest(one.size))
		log.Pop(one.size, 0)
		c.calls.Push(&one)
	}
}

// Turn implements owned.Link.
func (c carrier) Turn(m cluster.Mode) { c.mode.Proto, c.mode.DB = m.Proto, m.DB }

// Listen implements owned.Link.
func (c carrier) Listen(on bool) {
	if !on {
		c.conn.Pause(0)
		return
	}
	c.SilenceBegins()
	c.conn.Resume()
}

// SilenceBegins implements owned.Link.
func (c carrier) SilenceBegins() { c.progress = c.loop.Now() }

// patrolOwn gives up owned pipes whose nodes have owed a reply for too long, or have left the topology.
func (o *ownedPipes) patrolOwn(now time.Time) {
	for pipe := range o.ownPipes {
		pipe.renewLogin()
		switch {
		case pipe.conn == nil:
		case !pipe.retired.IsZero() && now.Sub(pipe.retired) > retireAfter:
			pipe.hangUp(owned.ErrRetired)
		case pipe.stream.starves(), pipe.Paused():
		case pipe.calls.Len() > 0 && !pipe.Patient() && now.Sub(pipe.progress) > pipe.Patience(o.o.Timeout):
			pipe.hangUp(errSilent)
		}
	}
	o.own.Patrol(o.o.Timeout, func(l owned.Link) time.Duration { return now.Sub(l.(carrier).progress) })
}
