// Package blocking is commands in which a client waits at a node: BLPOP, XREAD BLOCK and their like, WAIT and
// WAITAOF. (Waiting for locks is package redlock's.)
//
//	Waiter.Block           --> block:       its turn --> connect --> ask --> reply, as it comes
//	                                                       ^           |
//	                                                       +-- pause <-+  redirect, fail-over, no node
//
//	Waiter.WaitForReplicas --> replicaWait: its turn --> each master that it has written to --> the least
//
// Each takes connections that nobody else uses meanwhile, and begins when all earlier commands of its client
// are answered (Waiter.ItsTurn): until then what blocks could keep the answers of others. The client reads no
// further command (client.HoldBlock).
//
// It ends with the reply of the node. Earlier ends are CLIENT UNBLOCK, a client that leaves, a proxy that
// drains: then the node is told, since an element that it takes off a list for a client that has gone is
// lost. What had no effect is asked again with what is left of its time; what may have had one never is,
// unless it only reads.
package blocking

import (
	"sync/atomic"
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/proxy/client"
	"lockproxy/proxy/tracking"
)

// Waiter is the command that a client waits in, if it does, and what such a command needs to know of it. The
// client reads no further command meanwhile.
type Waiter struct {
	h       Host
	counts  *Counts
	own     *tracking.Connections
	tracker *tracking.Tracker
	writes  *client.Writes
	call    *call // nil: there is none
}

// Counts are how many clients of all loops wait in a command.
type Counts struct {
	AtNode atomic.Int64 // whose command is with a node
	Queued atomic.Int64 // whose command is not there yet
}

// NewWaiter is for a client whose connections, tracking and writes these are.
func NewWaiter(h Host, counts *Counts, own *tracking.Connections, tracker *tracking.Tracker,
	writes *client.Writes) Waiter {
	return Waiter{h: h, counts: counts, own: own, tracker: tracker, writes: writes}
}

// Waits says that the client waits in a command.
func (k *Waiter) Waits() bool { return k.call != nil }

// Host is a session as a command that blocks sees it, beside what all features see.
type Host interface {
	client.Host
	pipe.Receiver // answers the command with a node's reply as it comes
	// HalfClosed says that the client sends no more, Draining that the proxy does not listen any more.
	HalfClosed() bool
	Draining() bool
	// SetBlocked notes whether CLIENT UNBLOCK finds the client.
	SetBlocked(on bool)
	// EndIfDone closes the connection if nothing is left to do, CloseAfterWrite when the answers so far are
	// written.
	EndIfDone()
	CloseAfterWrite()
}

// call is one command that blocks: a block or a replicaWait, which embeds it.
type call struct {
	of    *Waiter
	h     Host
	tag   uint32 // the command
	bytes int    // of it
	what  command
	begun bool // all earlier commands are answered
	over  bool // nothing of it is wanted any more
	sent  bool // its request is with a node
}

// command is a command that blocks. Its methods run on the loop, and but for begin only
// between begin and its end.
type command interface {
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
func (k *Waiter) start(c *call, what command) {
	k.h.AnswerLater(client.ByNode)
	c.of, c.h, c.tag, c.what = k, k.h, k.h.CurrentTag(), what
	if k.h.Gone() {
		k.h.Answer(c.tag, nil)
		return
	}
	k.call = c
	k.h.SetHold(client.HoldBlock)
	k.ItsTurn()
}

// ItsTurn begins the command as soon as all earlier ones are answered.
func (k *Waiter) ItsTurn() {
	c := k.call
	if oldest, any := k.h.Answers().Oldest(); c.begun || !any || oldest != c.tag || k.h.Gone() {
		return
	}
	c.begun = true
	k.h.SetBlocked(true)
	k.counts.Queued.Add(1)
	if k.h.Draining() {
		c.answer(commands.ErrorReply(commands.ErrDraining))
		return
	}
	c.what.begin()
}

// setSent notes whether the request is with a node.
func (c *call) setSent(sent bool) {
	if c.sent == sent {
		return
	}
	c.sent = sent
	n := int64(1)
	if !sent {
		n = -1
	}
	c.of.counts.AtNode.Add(n)
	c.of.counts.Queued.Add(-n)
}

// end ends the wait; the answer, and then resume, come after it.
func (c *call) end() {
	if c.over {
		return
	}
	c.over = true
	c.of.call = nil
	if c.begun {
		c.setSent(false)
		c.of.counts.Queued.Add(-1)
		c.h.SetBlocked(false)
	}
}

// resume reads on behind the answer.
func (c *call) resume() {
	c.h.ClearHold(client.HoldBlock)
	c.h.EndIfDone()
}

// answer ends the wait with a whole reply.
func (c *call) answer(reply []byte) {
	c.end()
	c.h.Answer(c.tag, reply)
	c.resume()
}

// fail ends the wait with the error of a request.
func (c *call) fail(err error) {
	c.end()
	c.h.Fail(c.tag, err)
	c.resume()
}

// Abandon gives up the command, for its client has gone.
func (k *Waiter) Abandon() {
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

// HalfClosed has the command know that its client sends no more. What was asked for before is answered.
func (k *Waiter) HalfClosed() {
	if k.call != nil && k.call.begun {
		k.call.what.halfClosed()
	}
}

// Drain ends the command soon.
func (k *Waiter) Drain() {
	if k.call != nil && k.call.begun {
		k.call.what.drain()
	}
}

// Memory is how many bytes the command has.
func (k *Waiter) Memory() int {
	if k.call == nil {
		return 0
	}
	return k.call.bytes
}

// Look has the command see to its time-out; it is called once a second.
func (k *Waiter) Look(now time.Time) {
	if k.call != nil {
		k.call.what.look(now)
	}
}

// Unblock ends the wait as CLIENT UNBLOCK does, if the command has begun. ended is told, at once or later,
// whether it did.
func (k *Waiter) Unblock(withError bool, ended func(bool)) (begun bool) {
	if k.call == nil || !k.call.begun {
		return false
	}
	k.call.what.unblock(withError, ended)
	return true
}
