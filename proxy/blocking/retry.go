package blocking

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/cluster/retry"
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// This file handles a block that its node did not take, or whose node was lost.

// Fail implements pipe.Receiver: the connection was lost, or there was none to be had.
func (b *block) Fail(tag uint32, err error) {
	if b.over || tag>>tagBits != b.attempt || tag == b.tagOf(aheadTag) || b.own == nil {
		return
	}
	b.own = nil
	b.noteTrouble()
	b.setSent(false)
	written := tag == b.tagOf(commandTag) && errors.Is(err, cluster.ErrUnknownOutcome)
	switch {
	case written && (b.h.HalfClosed() || b.drained && errors.Is(err, io.EOF)): // the node has ended it
		b.cutShort()
		return
	case written && (b.passed || !b.readOnly || b.timeout.Fresh),
		errors.Is(err, owned.ErrNoPlace),
		errors.Is(err, cluster.ErrMode):
		b.failCall(err)
		return
	case written:
		b.looked = b.looked || b.now().Sub(b.asked) > atOnce
	}
	b.retryLater(nil, err)
}

// noteTrouble notes that an attempt failed. If a node had kept the command for a while, earlier trouble is
// over. The time since trouble is what the retry budget is compared with.
func (b *block) noteTrouble() {
	if b.trouble.IsZero() || b.sent && b.now().Sub(b.asked) > settled {
		b.trouble, b.try = b.now(), retry.Tries{}
	}
}

// retryLater sends the command again after a pause. reply or err is the reason. A command that no node has
// had yet is tried for as long as any other, even if its timeout is over: nobody knows yet what it would have
// got.
func (b *block) retryLater(reply []byte, err error) {
	b.node, b.asking = "", false
	pause := b.try.Pause()
	// left is what remains of the retry budget, which depends on whether a master of the slot is known to be
	// down.
	left := b.h.Pool().Left(b.slot, b.trouble)
	if b.looked && b.timeout.Limit > 0 {
		left = min(left, b.timeout.Limit-b.now().Sub(b.start))
	}
	if left <= 0 || b.drained || b.h.HalfClosed() {
		b.giveUp(reply, err)
		return
	}
	b.attempt++ // nothing of the last attempt counts any more
	this := b.attempt
	b.h.Pool().Rest(min(pause, left), func() {
		if !b.over && b.own == nil && b.attempt == this {
			b.connectNode()
		}
	})
}

// giveUp answers a command that no node took in time. A timeout that is over by then is answered as the node
// would have: with Null. Otherwise it counts as given up in the metrics.
func (b *block) giveUp(reply []byte, err error) {
	timedOut := b.looked && b.timeout.Limit > 0 && b.now().Sub(b.start) >= b.timeout.Limit
	if !timedOut && !b.drained {
		b.h.Pool().GaveUp()
	}
	switch {
	case b.drained:
		b.answerCall(commands.ErrorReply(commands.ErrDraining))
	case timedOut:
		b.answerCall(resp.AppendNullArray(nil, b.h.About().Proto))
	case reply == nil:
		if errors.Is(err, cluster.ErrUnavailable) {
			err = &cluster.Untaken{Why: err}
		} else {
			err = fmt.Errorf("no node took it in time: %w", err)
		}
		b.failCall(err)
	case bytes.HasPrefix(reply, []byte("-MOVED")) || bytes.HasPrefix(reply, []byte("-ASK")):
		b.answerCall(retry.Unserved)
	default:
		b.answerCall(reply)
	}
}

// missedReply begins with the word by which Redis ends a wait before its time.
var missedReply = []byte(
	"-UNBLOCKED the node that was asked for what comes next has changed: some of it may have been missed\r\n",
)
