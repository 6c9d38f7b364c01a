package transaction

import (
	"bytes"
	"errors"
	"fmt"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
)

// This file handles the replies that come over the connection of a transaction.

// Receive implements pipe.Receiver. All but the answer to the step are short, and come in one chunk.
func (l *txConn) Receive(tag uint32, chunk []byte, last bool) {
	switch {
	case l.over:
		l.takeLate(tag, chunk)
	case tag == tagMode:
		if chunk[0] == '-' {
			l.takeRefusal(chunk)
		}
	case tag == tagMulti:
		l.multiAnswered(chunk)
	case tag == tagCaching:
		l.unheard = chunk[0] == '-'
	case tag == tagStep:
		l.stepDone(chunk, last)
	default:
		l.takeQueued(int(tag), chunk)
	}
}

// Most implements pipe.Longer. Nothing but the answer to EXEC is long.
func (l *txConn) Most(tag uint32) int {
	if tag == tagStep {
		return pipe.AnyLength
	}
	return pipe.MostLine
}

// multiAnswered takes the reply to MULTI. One of another kind must not become a part of an answer. From a
// good one on, the connection counts as Proven.
func (l *txConn) multiAnswered(reply []byte) {
	if reply[0] != '+' && reply[0] != '-' {
		reply = notQueued
	}
	switch {
	case reply[0] == '+':
		l.multi = multiOpen
		l.pipe.SetProven()
		l.pumpRequests()
	case l.sent > 0 || l.stepped: // what was sent behind MULTI was not queued
		l.closeConn()
		l.t.conn = nil
		l.t.unsure = commands.ErrorReply(fmt.Errorf("%w: %s", errNotBegun, bytes.TrimSpace(reply[1:])))
		l.t.giveUp(l.t.unsure, nil)
	default:
		l.takeRefusal(reply)
	}
}

var errNotBegun = errors.New("the commands behind MULTI may or may not have run, for it failed")

// takeRefusal handles a node that does not begin a transaction. An error that sends it elsewhere is followed;
// any other ends it.
func (l *txConn) takeRefusal(reply []byte) {
	if to, ok := l.pipe.Retryable(reply); ok {
		l.t.dropConn(l, to, reply, nil)
		return
	}
	l.closeConn()
	l.t.conn = nil
	l.t.giveUp(reply, nil)
}

// takeQueued takes the reply to a command of the log: QUEUED, or an error. i is its place in the log.
func (l *txConn) takeQueued(i int, reply []byte) {
	t := l.t
	e := &t.log[i]
	if reply[0] == '-' {
		if to, ok := l.pipe.Retryable(reply); ok { // EXEC will run nothing there
			t.dropConn(l, to, reply, nil)
			return
		}
		e.Rejected = true
		t.rejected = t.rejected || !e.probe
		t.h.About().Transaction.Dirty = t.h.About().Transaction.Dirty || t.rejected
	}
	switch {
	case reply[0] != '+' && reply[0] != '-':
		l.takeRefusal(notQueued)
	case !e.answered:
		// The node works for it, so the next trouble has the whole budget.
		t.trying = trying{}
		if !e.Rejected {
			t.h.About().Transaction.Queued++
		}
		t.answerQueued(e, reply)
	}
}

// stepDone takes the reply to the step. The answer to EXEC goes on to the client piece by piece, unless the
// proxy has to add to it (transaction.unread). Once a piece has passed nothing is tried again.
func (l *txConn) stepDone(reply []byte, last bool) {
	t, h, step := l.t, l.t.h, l.t.step
	if !l.partly && reply[0] == '-' {
		if to, ok := l.pipe.Retryable(cutAbort(reply)); ok {
			t.dropConn(l, to, reply, nil)
			return
		}
	}
	l.partly = true
	switch {
	case !last:
	case step.kind == watchStep:
		t.trying = trying{}
		t.step, l.stepped, l.partly = txStep{}, false, false
		if reply[0] != '-' {
			t.noteWatch(step.raw)
		} else if !t.watched {
			t.endTransaction()
		}
	default:
		if reply[0] == '-' && !bytes.HasPrefix(reply, execAborted[:len("-EXECABORT")]) {
			l.closeConn() // nobody knows what state the node is in
		}
		if step.kind == abortStep {
			reply = execAborted
		}
		if step.kind == execStep && t.writes { // for WAIT
			t.of.writes.Add(l.pipe)
		}
		t.endTransaction()
	}
	h.Receive(step.tag, reply, last)
	if last && l.unheard && step.kind == execStep {
		t.of.tracker.Unheard()
	}
}

// Fail implements pipe.Receiver. If the step was sent, its failure alone decides what becomes of the
// transaction: only it tells whether EXEC may have run. EXEC that only reads may be sent again, if the client
// has none of its answer yet.
func (l *txConn) Fail(tag uint32, err error) {
	t := l.t
	switch {
	case l.over, l.stepped && tag != tagStep:
	case tag == tagStep && t.step.kind == execStep && errors.Is(err, cluster.ErrUnknownOutcome) &&
		(t.writes || !t.h.Discard(t.step.tag)):
		l.closeConn()
		t.of.writes.Add(l.pipe)
		t.settleQueued(replyQueued)
		t.endTransaction()
		t.h.Fail(t.step.tag, err)
	default:
		t.dropConn(l, pipe.Redirection{}, nil, err)
	}
}

// Lost implements owned.Owner. It is told even when no request was under way.
func (l *txConn) Lost(err error) {
	if !l.over {
		l.t.dropConn(l, pipe.Redirection{}, nil, err)
	}
}
