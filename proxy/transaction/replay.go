package transaction

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/cluster/retry"
	"lockproxy/commands"
)

// This file continues a transaction whose connection was lost, or leads to a node that does not run it.
// Nothing has run by then.

var (
	errMoves = errors.New("its slot moves")
	errLost  = errors.New("the connection is lost")
)

// dropConn ends connection l, which is of no use: because of reply, an error that sends the transaction
// elsewhere, or because of err. If the client waits for nothing, the next command opens another connection.
// to is where reply sends it; zero: to the master of its slot.
func (t *transaction) dropConn(l *txConn, to pipe.Redirection, reply []byte, err error) {
	reply = bytes.Clone(reply) // it may alias a buffer of the connection
	l.closeConn()
	t.conn = nil
	switch {
	case t.over: // the client has gone
	// EXEC would run nothing at any node.
	case t.rejected, t.step.kind == discardStep, t.step.kind == abortStep:
		t.decideOutcome(aborted)
	// Nobody can tell any more whether a key has changed, so it counts as changed.
	case t.watched:
		t.decideOutcome(voided)
	case t.unanswered > 0 || t.step.kind != noStep:
		t.tryAgain(to, reply, err)
	}
}

// tryAgain tries another connection, at once or after a growing pause, until the budget is used up. Redirects
// are followed at once, up to a number of them in a row; everything else pauses.
func (t *transaction) tryAgain(to pipe.Redirection, reply []byte, err error) {
	t.trying.began = cmp.Or(t.trying.began, t.h.Loop().Now())
	switch {
	case t.h.Pool().Left(t.homeSlot(), t.trying.began) <= 0, errors.Is(err, cluster.ErrMode):
		t.h.Pool().GaveUp()
		t.giveUp(reply, err)
	case to.Addr != "" && t.trying.tries.Hop():
		t.openConn(to.Addr, to.Asking)
	default:
		t.resting = true
		t.h.Pool().Rest(t.trying.tries.Pause(), t.rested)
	}
}

// rested makes the next attempt, unless the client has gone or was answered meanwhile.
func (t *transaction) rested() {
	t.resting = false
	if !t.over && t.outcome == undecided {
		t.openConn("", false)
	}
}

// trying is since when, and how often, nodes are tried for what the client waits for. It begins anew when one
// of them has done something for it.
type trying struct {
	began time.Time // zero: not yet
	tries retry.Tries
}

// giveUp answers what the client waits for with the error that is in the way. reply or err is that error.
// EXEC answers with EXECABORT, for nothing has run; queued commands answer with the error itself, and EXEC
// after them with EXECABORT.
func (t *transaction) giveUp(reply []byte, err error) {
	if errors.Is(err, cluster.ErrUnknownOutcome) { // of a request; but nothing runs before EXEC
		err = fmt.Errorf("%w: %w", cluster.ErrUnavailable, errLost)
	}
	if err != nil {
		if errors.Is(err, cluster.ErrUnavailable) && !errors.Is(err, cluster.ErrMode) {
			err = &cluster.Untaken{Why: err, Nodes: errors.Is(err, owned.ErrNoPlace)}
		}
		reply = commands.ErrorReply(err)
	}
	if retry.IsRedirect(reply) {
		reply = commands.ErrorReply(&cluster.Untaken{Why: errMoves, Nodes: true})
	}
	step, queue := t.step, t.unanswered > 0
	switch {
	case step.kind == watchStep:
		t.endTransaction()
		t.h.Answer(step.tag, reply)
	case step.kind == execStep && !queue && t.unsure == nil:
		if !bytes.HasPrefix(reply, abortedBecause) {
			reply = slices.Concat(abortedBecause, reply[1:])
		}
		t.finishStep(step.tag, reply)
	default:
		t.outcome = aborted
		t.settleQueued(reply)
		t.decideOutcome(aborted)
	}
}

// decideOutcome fixes what EXEC will answer. What the client sends until then is not sent on.
func (t *transaction) decideOutcome(o execOutcome) {
	t.outcome = o
	t.h.About().Transaction.Voided = o == voided
	t.settleQueued(replyQueued)
	t.log = nil
	t.concludeStep() // unless what was read meanwhile already has
}

// settleQueued answers all queued commands that have no answer yet. Each answer may have the client read on,
// and queue more, which are not in this log any more.
func (t *transaction) settleQueued(reply []byte) {
	log := t.log
	for i := range log {
		if e := &log[i]; !e.answered {
			t.answerQueued(e, reply)
		}
	}
}

// abortedBecause is what Redis puts before the error for which EXEC did not run.
var abortedBecause = []byte("-EXECABORT Transaction discarded because of: ")

// cutAbort takes that error out of the reply to EXEC. Other replies stay as they are.
func cutAbort(reply []byte) []byte {
	if rest, ok := bytes.CutPrefix(reply, abortedBecause); ok {
		return append([]byte("-"), rest...)
	}
	return reply
}
