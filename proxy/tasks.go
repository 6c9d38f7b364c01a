package proxy

import (
	"context"
	"errors"

	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy/blocking"
	"lockproxy/proxy/client"
	"lockproxy/redlock"
)

// errTimeIsUp ends the context of a task that waits for a lock as if its time were over; the other reason is
// blocking.ErrUnblocked. It is for CLIENT UNBLOCK without ERROR.
var errTimeIsUp = errors.New("proxy: the wait was ended as if its time were over")

// errClientGone ends the context of a task whose client has left.
var errClientGone = errors.New("proxy: the client has closed its connection")

// tasks are what goroutines do for one client, mainly LOCK with WAIT. It belongs to the loop; the goroutines
// of the tasks have only ctx and what they were given.
type tasks struct {
	h       taskHost
	answers *answers
	writes  *client.Writes
	// One for all: whatever ends one of them ends them all.
	ctx       context.Context // of all tasks; nil before the first
	cancel    context.CancelCauseFunc
	lockWaits int // how many of them wait for locks
}

// taskHost is a session as its tasks see it, beside what all features see.
type taskHost interface {
	host
	HalfClosed() bool
	Draining() bool
	EndIfDone()
}

// Start is Task for a task whose answer is made on the loop, by the function that it returns. That function
// runs even if the client has gone. post brings it to the loop.
func (t *tasks) Start(task func(ctx context.Context) (end func() []byte), post func(func()) bool) {
	t.startTask(func(ctx context.Context, answer func(end func() []byte)) { answer(task(ctx)) }, post, nil)
}

// lost is told if the answer does not reach the client, and also if the loop has ended before it could be
// given one.
func (t *tasks) startTask(task commands.Task, post func(func()) bool, lost redlock.Delivery) {
	t.h.AnswerLater(client.ByProxy)
	shared := t.h.shared()
	if t.ctx == nil {
		t.ctx, t.cancel = context.WithCancelCause(shared.Context)
	}
	tag, ctx := t.h.CurrentTag(), t.ctx
	a := t.answers.at(tag)
	a.lost, a.by = lost, client.ByProxy
	forLock, began := a.counter != nil && a.counter.Blocks, t.h.Loop().Now()
	// The context of a client that leaves is over before the task begins: it runs nevertheless, since its end
	// may have something to undo.
	if t.h.Gone() || t.h.HalfClosed() && forLock {
		t.cancel(errClientGone)
	} else if t.h.Draining() {
		t.cancel(commands.ErrDraining)
	}
	// A wait for a lock writes at the upstream, at nodes that nobody here knows.
	if forLock {
		t.writes.AddSomewhere()
		t.lockWaits++
		t.h.About().Blocked = true
	}
	t.h.SetHold(client.HoldTask)
	shared.Tasks.Go(func() { // ends when the task does, which ctx bounds
		task(ctx, func(end func() []byte) {
			posted := post(func() {
				// A task may answer early and once more at its end: only the first time counts.
				if t.answers.isAnswered(tag) {
					return
				}
				reply := end()
				if forLock {
					reply = t.waitedForLock(ctx, reply)
					waited := t.h.Loop().Now().Sub(began)
					if w, ok := lost.(commands.LockWaiter); ok {
						waited = w.Waited()
					}
					t.answers.at(tag).leaveOutWait(waited)
				}
				t.answerTask(tag, reply)
			})
			if !posted && lost != nil {
				lost.Lost()
			}
		})
	})
}

// answerTask gives the answer, and has the client read on.
func (t *tasks) answerTask(tag uint32, reply []byte) {
	if len(reply) == 0 {
		reply = client.NoAnswer
	}
	t.h.shared().Own.Note(reply)
	t.h.Answer(tag, reply)
	t.h.ClearHold(client.HoldTask)
	t.h.EndIfDone()
}

// endTasks makes all tasks end soon. why is the cause of the context, which the task turns into its answer.
// It does not wait for them.
func (t *tasks) endTasks(why error) {
	if t.cancel != nil {
		t.cancel(why)
	}
}

// unblockWait ends the wait for a lock as CLIENT UNBLOCK does. It says whether there was a wait that nothing
// else had ended. The tasks that run now end; a new context is made for the next ones, which nobody has asked
// to end.
func (t *tasks) unblockWait(withError bool) bool {
	if t.cancel == nil {
		return false
	}
	why := errTimeIsUp
	if withError {
		why = blocking.ErrUnblocked
	}
	t.cancel(why)
	t.ctx, t.cancel = nil, nil // later tasks get new ones
	return true
}

// waitedForLock notes that a task that waited for a lock has ended. If CLIENT UNBLOCK ended it, it makes the
// reply that of CLIENT UNBLOCK. A lock that was granted at the same moment stays granted: then CLIENT UNBLOCK
// came too late.
func (t *tasks) waitedForLock(ctx context.Context, reply []byte) []byte {
	t.lockWaits--
	t.h.About().Blocked = t.lockWaits > 0
	if len(reply) > 0 && reply[0] != '-' {
		return reply
	}
	switch context.Cause(ctx) {
	case blocking.ErrUnblocked:
		return commands.ErrorReply(blocking.ErrUnblocked)
	case errTimeIsUp:
		return resp.AppendNull(nil, t.h.About().Proto)
	}
	return reply
}
