package blocking

import (
	"errors"
	"time"

	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// This file is how a block ends before its node answers it: CLIENT UNBLOCK, a client or a proxy
// that leaves, a node that is silent for too long.

// ErrUnblocked is what CLIENT UNBLOCK ID ERROR answers the command with.
var ErrUnblocked = errors.New("UNBLOCKED client unblocked via CLIENT UNBLOCK")

var unblockedReply = commands.ErrorReply(ErrUnblocked)

// unblock implements blocked.
func (b *block) unblock(withError bool, ended func(bool)) {
	b.tryUnblock(withError, ended, unblockTries)
}

// tryUnblock ends the command where it is. A node that says that it blocks nobody may have sent the command
// elsewhere just now, or it may not have come to it yet.
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

// halfClosed implements blocked. What was there when the command came is still for the client. Later it
// has most likely gone, and its connection to the node ends at once.
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

// hurry has the command, which will ask for what is there and not wait, given up when no node takes it soon.
func (b *block) hurry() {
	b.h.Loop().After(endWithin, func() {
		if !b.over && !b.sent {
			b.cutShort()
		}
	})
}

// drain implements blocked.
func (b *block) drain() {
	b.drained = true
	b.leave(true)
}

// leave ends the command, such that nothing is taken from a list and lost.
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
		own.End() // Fail says it
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

// abandon implements blocked: with its connection the command ends at the node.
func (b *block) abandon() { b.stop() }

// stop gives up the attempt.
func (b *block) stop() {
	b.attempt++
	if b.timer != nil {
		b.timer.Stop()
	}
	b.letGo(false)
}

// look implements blocked: a node must answer when the time is over.
func (b *block) look(now time.Time) {
	if b.sent && !b.overdue && b.timeout.Limit > 0 && now.Sub(b.asked) > b.timeout.Limit {
		b.overdue = true
		b.own.SetPatient(false)
	}
}
