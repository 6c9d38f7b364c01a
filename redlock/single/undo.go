package single

import (
	"context"
	"fmt"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// undoTimeout bounds one attempt to take something back.
const undoTimeout = 5 * time.Second

// errNoAnswer is what a client hears whose wait was in vain, while nobody knows what
// it left behind.
var errNoAnswer = fmt.Errorf(
	"redlock: Redis did not answer within %v: what the request left there is taken back later", undoTimeout)

// Undo implements locks.engine.
func (e *Engine) Undo(a *redlock.Acquire) {
	e.waiters.Forget(a)
	e.work.Go(func() { // ends when it is taken back, or over, or e is closed
		began := time.Now()
		over := began.Add(a.Wait + a.Lease)
		for pause := 20 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
			err := e.UndoOnce(a)
			if err == nil && a.Unsure {
				e.late.watch(e, a, over)
			}
			if err == nil || time.Now().After(over) {
				return
			}
			e.undone.Failed(e.o.Log, began, err)
			select {
			case <-time.After(pause):
			case <-e.ctx.Done():
				return
			}
		}
	})
}

// UndoOnce implements locks.engine.
func (e *Engine) UndoOnce(a *redlock.Acquire) error {
	ctx, cancel := context.WithTimeoutCause(e.ctx, undoTimeout, errNoAnswer)
	defer cancel()
	return e.free(ctx, a.Name, func(apart bool) (slot int, req []byte) { return e.cancelRequest(a, apart) })
}

// cancelRequest is the command that takes back what a has made.
func (e *Engine) cancelRequest(a *redlock.Acquire, apart bool) (slot int, req []byte) {
	s := &scripts.Cancel
	if apart {
		s = cancelAlone
	}
	slot, c := scripts.Eval(e.names, s, a.Name, 5)
	c.Owner(a.Token)
	c.Text(a.ID)
	e.frees(&c, slot)
	return slot, c.Req
}
