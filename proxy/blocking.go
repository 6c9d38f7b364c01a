package proxy

import (
	"time"

	"lockproxy/cluster"
	"lockproxy/commands"
	"lockproxy/proxy/client"
	"lockproxy/proxy/tracking"
)

// blocking is the command that a client waits in, if it does, and what such a command needs to know of it. The
// client reads no further command meanwhile.
type blocking struct {
	h        blockingHost
	own      *tracking.Connections
	tracking *tracking.Tracker
	writes   *client.Writes
	call     *blockedCall // nil: there is none
}

// blockingHost is a session as a command that blocks sees it, beside what all features see.
type blockingHost interface {
	host
	cluster.Receiver // answers the command with a node's reply as it comes
	// HalfClosed says that the client sends no more.
	HalfClosed() bool
	Draining() bool
	// SetBlocked notes whether CLIENT UNBLOCK finds the client.
	SetBlocked(on bool)
	// EndIfDone closes the connection if nothing is left to do, closeAfterWrite when the answers so far are
	// written.
	EndIfDone()
	CloseAfterWrite()
}

// blockedCall is one command that blocks: a block or a replicaWait, which embeds it.
type blockedCall struct {
	of    *blocking
	h     blockingHost
	tag   uint32 // the command
	bytes int    // of it
	what  blocked
	begun bool // all earlier commands are answered
	over  bool // nothing of it is wanted any more
	sent  bool // its request is with a node
}

// blocked is a command that blocks. Its methods run on the loop, and but for begin only
// between begin and its end.
type blocked interface {
	// begin starts it. All earlier commands of its client are answered.
	begin()
	// unblock ends it as CLIENT UNBLOCK does. ended is told, at once or later, whether it did.
	unblock(withError bool, ended func(bool))
	// halfClosed: the client sends no more, and will be closed once it is answered.
	halfClosed()
	// drain ends it soon, for the proxy shuts down.
	drain()
	// abandon gives up what it has at the upstream: the client has gone.
	abandon()
	// look is called once a second.
	look(now time.Time)
}

// start has the client wait in what, which is the current command.
func (k *blocking) start(c *blockedCall, what blocked) {
	k.h.AnswerLater(client.ByNode)
	c.of, c.h, c.tag, c.what = k, k.h, k.h.CurrentTag(), what
	if k.h.Gone() {
		k.h.Answer(c.tag, nil)
		return
	}
	k.call = c
	k.h.SetHold(client.HoldBlock)
	k.itsTurn()
}

// itsTurn begins the command as soon as all earlier ones are answered.
func (k *blocking) itsTurn() {
	c := k.call
	if oldest, any := k.h.OldestTag(); c.begun || !any || oldest != c.tag || k.h.Gone() {
		return
	}
	c.begun = true
	k.h.SetBlocked(true)
	k.h.worker().server.queued.Add(1)
	if k.h.Draining() {
		c.answer(commands.ErrorReply(commands.ErrDraining))
		return
	}
	c.what.begin()
}

// setSent notes whether the request is with a node.
func (c *blockedCall) setSent(sent bool) {
	if c.sent == sent {
		return
	}
	c.sent = sent
	n := int64(1)
	if !sent {
		n = -1
	}
	server := c.h.worker().server
	server.blocked.Add(n)
	server.queued.Add(-n)
}

// end ends the wait; the answer, and then resume, come after it.
func (c *blockedCall) end() {
	if c.over {
		return
	}
	c.over = true
	c.of.call = nil
	if c.begun {
		c.setSent(false)
		c.h.worker().server.queued.Add(-1)
		c.h.SetBlocked(false)
	}
}

// resume reads on behind the answer.
func (c *blockedCall) resume() {
	c.h.ClearHold(client.HoldBlock)
	c.h.EndIfDone()
}

// answer ends the wait with a whole reply.
func (c *blockedCall) answer(reply []byte) {
	c.end()
	c.h.Answer(c.tag, reply)
	c.resume()
}

// fail ends the wait with the error of a request.
func (c *blockedCall) fail(err error) {
	c.end()
	c.h.Fail(c.tag, err)
	c.resume()
}

// abandon gives up the command, for its client has gone.
func (k *blocking) abandon() {
	c := k.call
	if c == nil {
		return
	}
	c.end()
	if c.begun {
		c.what.abandon()
	}
	k.h.Answer(c.tag, nil)
}

// halfClosed has the command know that its client sends no more. What was asked for before is answered.
func (k *blocking) halfClosed() {
	if k.call.begun {
		k.call.what.halfClosed()
	}
}

// drain ends the command soon.
func (k *blocking) drain() {
	if k.call != nil && k.call.begun {
		k.call.what.drain()
	}
}

// memory is how many bytes the command has.
func (k *blocking) memory() int {
	if k.call == nil {
		return 0
	}
	return k.call.bytes
}

// lookAtBlocked has each command that blocks see to its time-out.
func (w *worker) lookAtBlocked() {
	for _, s := range w.blocked {
		if s.blocking.call != nil {
			s.blocking.call.what.look(w.loop.Now())
		}
	}
}
