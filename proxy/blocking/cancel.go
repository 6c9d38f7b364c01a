package blocking

import (
	"errors"
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// This file ends a block before its node answers: for CLIENT UNBLOCK, for a client or a proxy that leaves,
// and for a node that is silent for too long.

// ErrUnblocked is the answer after CLIENT UNBLOCK id ERROR.
var ErrUnblocked = errors.New("UNBLOCKED client unblocked via CLIENT UNBLOCK")

var unblockedReply = commands.ErrorReply(ErrUnblocked)

// unblockWait implements blockingCommand.
func (b *block) unblockWait(withError bool, ended func(bool)) {
	b.tryUnblock(withError, ended, unblockTries)
}

// tryUnblock ends the command at its node. If the node says that it blocks nobody, the command may just have
// been redirected, or may not have arrived yet. tries is how many times the node may still be asked.
func (b *block) tryUnblock(withError bool, ended func(bool), tries int) {
	if b.over {
		ended(false)
		return
	}
	if b.sent {
		b.own.askUnblock(b.h.Pool(), withError, func(done bool) {
			if done || tries <= 1 {
				ended(done)
				return
			}
			b.h.Loop().After(unblockPause, func() { b.tryUnblock(withError, ended, tries-1) })
		})
		return
	}
	// The form of the command is not known, and so neither is what it answers when its timeout is over.
	if !b.timeout.Known() && !withError {
		ended(false)
		return
	}
	b.stopAttempt()
	if withError {
		b.answerCall(unblockedReply)
	} else {
		b.answerCall(resp.AppendNullArray(nil, b.h.About().Proto))
	}
	ended(true)
}

// drainWait implements blockingCommand. Its client is there, and gets what the node takes from a list for it:
// at the end of a connection a node may drop that.
func (b *block) drainWait() {
	b.drained = true
	if !b.sent {
		b.cutShort()
		return
	}
	b.unblockWait(true, func(bool) {})
	b.h.Loop().After(endWithin, func() {
		switch {
		case b.over:
		case b.sent:
			b.own.End() // Fail answers it
		default:
			b.cutShort()
		}
	})
}

// halfClosed implements blockingCommand. It has the node treat the command as that of a client which has
// ended its side, and does so just now: what is there, it gets, and after that nothing is taken from a list
// and lost. The node answers at once, or ends the connection.
func (b *block) halfClosed() {
	if b.sent {
		pipe.EndRequests(b.own.Pipe)
	}
	b.h.Loop().After(endWithin, func() {
		if !b.over {
			b.cutShort()
		}
	})
}

// cutShort ends the command without a reply of the node, or behind a part of one: then the connection of the
// client ends, too. A client that has gone gets no answer.
func (b *block) cutShort() {
	b.stopAttempt()
	b.setSent(false)
	if b.drained {
		b.failCall(commands.ErrDraining)
		return
	}
	b.h.CloseAfterWrite()
}

// abandonWait implements blockingCommand: the node ends the command with its connection.
func (b *block) abandonWait() { b.stopAttempt() }

// stopAttempt gives up the attempt. Nothing that the node still says of it is heard.
func (b *block) stopAttempt() {
	b.attempt++
	b.letGo(false)
}

// checkTimeout implements blockingCommand: a node must answer when the timeout is over. The connection then
// counts as lost if it stays silent for as long as any other may.
func (b *block) checkTimeout(now time.Time) {
	if b.sent && !b.overdue && b.timeout.Limit > 0 && now.Sub(b.asked) > b.timeout.Limit {
		b.overdue = true
		b.own.SetPatient(false)
	}
}
