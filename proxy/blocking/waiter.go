// Package blocking is commands in which a client waits at a node: BLPOP, XREAD BLOCK and their like, WAIT and
// WAITAOF. (Waiting for locks belongs to package redlock.)
//
//	Waiter.Block           --> block:       its turn --> connectNode --> sendCommand --> passReply
//	                                                        ^                |
//	                                                        +---- pause <----+  redirect, fail-over, no node
//
//	Waiter.WaitForReplicas --> replicaWait: its turn --> each master that it has written to --> the least
//
// Each uses connections that nobody else uses meanwhile. It begins when all earlier commands of its client
// are answered (Waiter.ItsTurn): otherwise a command that blocks could hold up their answers. Meanwhile the
// client reads no further command (client.HoldBlock).
//
// It ends with the reply of the node. It ends earlier by CLIENT UNBLOCK, when the client leaves, and when the
// proxy drains. Then the node sees its connection end as the client's has: an element that it took off a list
// for a client that has gone would be lost. A request that had no effect is sent again with what is left of
// its timeout. One that may have had an effect never is, unless it only reads.
package blocking

import (
	"sync/atomic"
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/proxy/client"
	"lockproxy/proxy/tracking"
)

// Waiter is the command in which a client waits, if it does, and what such a command needs of the client.
// Meanwhile the client reads no further command. It belongs to the loop of the client.
type Waiter struct {
	h       Host
	counts  *Counts
	own     *tracking.Connections
	tracker *tracking.Tracker
	writes  *client.Writes
	call    *blockedCall // nil: there is none
}

// Counts are how many clients of all loops wait in a command. Any goroutine may read them.
type Counts struct {
	AtNode atomic.Int64 // their command is at a node
	Queued atomic.Int64 // their command is not there yet
}

// NewWaiter returns the Waiter of a client with these connections, tracker and writes.
func NewWaiter(h Host, counts *Counts, own *tracking.Connections, tracker *tracking.Tracker,
	writes *client.Writes) Waiter {
	return Waiter{h: h, counts: counts, own: own, tracker: tracker, writes: writes}
}

// Waits says that the client waits in a command.
func (k *Waiter) Waits() bool { return k.call != nil }

// Host is a session as a command that blocks sees it, beside what all features see.
type Host interface {
	client.Host
	pipe.Receiver // takes a node's reply as the answer, as it arrives
	// HalfClosed says that the client will send no more, Draining that the proxy no longer listens.
	HalfClosed() bool
	Draining() bool
	// EndIfDone closes the connection if nothing is left to do. CloseAfterWrite closes it once the answers so
	// far are written.
	EndIfDone()
	CloseAfterWrite()
}

// blockedCall is one command that blocks: a block or a replicaWait, which embeds it. Its end comes once: by
// endWait, before which it is the Waiter's call. Replies that come after that are not for it.
type blockedCall struct {
	of    *Waiter
	h     Host
	tag   uint32 // number of the command
	bytes int    // size of the command
	what  blockingCommand
	// Before begun it has nothing at the upstream, and CLIENT UNBLOCK does not end it.
	begun bool // all earlier commands are answered
	over  bool // nobody wants its reply any more
	sent  bool // its request is with a node
}

// blockingCommand is a command that blocks. Its methods run on the loop and, but for beginWait, only
// between beginWait and its end.
type blockingCommand interface {
	// beginWait starts it. All earlier commands of the client are answered.
	beginWait()
	// unblockWait ends it as CLIENT UNBLOCK does. ended is told, at once or later, whether it did.
	unblockWait(withError bool, ended func(bool))
	// halfClosed: the client will send no more. It gets what is there, or is closed instead of waiting.
	halfClosed()
	// drainWait ends it soon, since the proxy shuts down.
	drainWait()
	// abandonWait gives up what it has at the upstream, since the client has gone.
	abandonWait()
	// checkTimeout is called once a second.
	checkTimeout(now time.Time)
}

// startWait makes the client wait in what, which is the current command.
func (k *Waiter) startWait(c *blockedCall, what blockingCommand) {
	k.h.AnswerLater(client.ByNode)
	c.of, c.h, c.tag, c.what = k, k.h, k.h.CurrentTag(), what
	if k.h.Gone() {
		// Nobody is there to wait. The number still needs its answer, so that what is counted for the command
		// is let go.
		k.h.Answer(c.tag, nil)
		return
	}
	k.call = c
	k.h.SetHold(client.HoldBlock)
	k.ItsTurn()
}

// ItsTurn begins the command once all earlier ones are answered. It is called when the command starts, and
// whenever an answer has left. It does nothing unless that was the last one before it.
func (k *Waiter) ItsTurn() {
	c := k.call
	if oldest, any := k.h.Answers().Oldest(); c.begun || !any || oldest != c.tag || k.h.Gone() {
		return
	}
	c.begun = true
	k.h.About().Blocked = true
	k.counts.Queued.Add(1)
	if k.h.Draining() {
		c.answerCall(commands.ErrorReply(commands.ErrDraining))
		return
	}
	c.what.beginWait()
}

// setSent notes whether the request is with a node. A command on its way to a node, or between two attempts,
// counts as Queued.
func (c *blockedCall) setSent(sent bool) {
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

// endWait ends the wait; the answer, and then resume, come after it. It may be called more than once, and has
// an effect the first time.
func (c *blockedCall) endWait() {
	if c.over {
		return
	}
	c.over = true
	c.of.call = nil
	if c.begun {
		c.setSent(false)
		c.of.counts.Queued.Add(-1)
		c.h.About().Blocked = false
	}
}

// resumeReading reads on after the answer. A client that has half-closed, or whose proxy drains, may have
// nothing else to do: then its connection ends.
func (c *blockedCall) resumeReading() {
	c.h.ClearHold(client.HoldBlock)
	c.h.EndIfDone()
}

// answerCall ends the wait with a whole reply.
func (c *blockedCall) answerCall(reply []byte) {
	c.endWait()
	c.h.Answer(c.tag, reply)
	c.resumeReading()
}

// failCall ends the wait with the error of a request. The session turns it into the reply.
func (c *blockedCall) failCall(err error) {
	c.endWait()
	c.h.Fail(c.tag, err)
	c.resumeReading()
}

// Abandon gives up the command, since its client has gone. The node sees the connection end. Whatever still
// comes of the command is dropped.
func (k *Waiter) Abandon() {
	c := k.call
	if c == nil {
		return
	}
	c.endWait()
	if c.begun {
		c.what.abandonWait()
	}
	k.h.Answer(c.tag, nil)
}

// HalfClosed tells the command that the client will send no more.
func (k *Waiter) HalfClosed() {
	if k.call != nil && k.call.begun {
		k.call.what.halfClosed()
	}
}

// Drain ends the command soon. One that has not begun is answered when its turn comes.
func (k *Waiter) Drain() {
	if k.call != nil && k.call.begun {
		k.call.what.drainWait()
	}
}

// Memory is how many bytes the command has. These are those of the command as the client sent it.
func (k *Waiter) Memory() int {
	if k.call == nil {
		return 0
	}
	return k.call.bytes
}

// Look makes the command check its timeout. It is called once a second.
func (k *Waiter) Look(now time.Time) {
	if k.call != nil {
		k.call.what.checkTimeout(now)
	}
}

// Unblock ends the wait as CLIENT UNBLOCK does, if the command has begun. ended is told, at once or later,
// whether it did.
func (k *Waiter) Unblock(withError bool, ended func(bool)) (begun bool) {
	if k.call == nil || !k.call.begun {
		return false
	}
	k.call.what.unblockWait(withError, ended)
	return true
}
