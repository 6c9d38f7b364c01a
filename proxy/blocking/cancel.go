package blocking

import (
	"errors"
	"time"

	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// This file ends a block before its node answers: for CLIENT UNBLOCK, for a client or a proxy that leaves,
// and for a node that is silent for too long.

// ErrUnblocked is the answer after CLIENT UNBLOCK id ERROR.
var ErrUnblocked = errors.New("UNBLOCKED client unblocked via CLIENT UNBLOCK")

var unblockedReply = commands.ErrorReply(ErrUnblocked)

// unblock implements command.
func (b *block) unblock(withError bool, ended func(bool)) {
	b.tryUnblock(withError, ended, unblockTries)
}

// tryUnblock ends the command at its node. If the node says that it blocks nobody, the command may just have
// been redirected, or may not have arrived yet.
func (b *block) tryUnblock(withError bool, ended func(bool), tries int) {
	if b.over {
		ended(false)
		return
	}
	if b.sent {
		b.own.unblock(b.h.Pool(), withError, func(done bool) {
			if done || tries <= 1 {
				ended(done)
				return
			}
			b.h.Loop().After(unblockPause, func() { b.tryUnblock(withError, ended, tries-1) })
		})
		return
	}
	if !b.timeout.Known() && !withError {
		ended(false)
		return
	}
	b.stop()
	if withError {
		b.answer(unblockedReply)
	} else {
		b.answer(resp.AppendNullArray(nil, b.h.About().Proto))
	}
	ended(true)
}

// halfClosed implements command. What was there when the command came is still for the client. After that the
// client has most likely gone, and the connection to the node is ended at once.
func (b *block) halfClosed() {
	if !b.sent && b.timeout.Known() && b.now().Sub(b.start) <= atOnce {
		b.hurry()
		return
	}
	if !b.sent || b.now().Sub(b.asked) <= atOnce {
		b.leave(false)
		return
	}
	b.ending = true
	b.setSent(false)
	b.cutShort()
}

// hurry gives the command up if no node takes it soon. It now asks for what is there and will not wait.
func (b *block) hurry() {
	b.h.Loop().After(endWithin, func() {
		if !b.over && !b.sent {
			b.cutShort()
		}
	})
}

// drain implements command.
func (b *block) drain() {
	b.drained = true
	b.leave(true)
}

// leave ends the command in such a way that nothing is taken from a list and lost.
func (b *block) leave(withError bool) {
	if b.ending {
		return
	}
	b.ending = true
	if !b.sent {
		b.cutShort()
		return
	}
	own := b.own
	if own.ClientID() == 0 {
		own.End() // Fail answers it
		return
	}
	own.unblock(b.h.Pool(), withError, func(bool) {})
	b.h.Loop().After(endWithin, func() {
		if !b.over {
			own.End()
		}
	})
}

// cutShort ends the command before it was sent.
func (b *block) cutShort() {
	b.stop()
	if b.drained {
		b.answer(commands.ErrorReply(commands.ErrDraining))
		return
	}
	b.h.CloseAfterWrite()
}

// abandon implements command: the node ends the command with its connection.
func (b *block) abandon() { b.stop() }

// stop gives up the attempt.
func (b *block) stop() {
	b.attempt++
	b.letGo(false)
}

// look implements command: a node must answer when the timeout is over.
func (b *block) look(now time.Time) {
	if b.sent && !b.overdue && b.timeout.Limit > 0 && now.Sub(b.asked) > b.timeout.Limit {
		b.overdue = true
		b.own.SetPatient(false)
	}
}
