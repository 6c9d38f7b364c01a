package single

import (
	"context"
	"fmt"
	"sync"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// undoTimeout bounds one attempt to take something back.
const undoTimeout = 5 * time.Second

// errNoAnswer is what a client hears whose wait was in vain, while nobody knows what
// it left behind.
var errNoAnswer = fmt.Errorf("redlock: Redis did not answer within %v", undoTimeout)

// undoings are the requests that are being taken back. The zero value is ready. Safe for concurrent use.
type undoings struct {
	mu  sync.Mutex
	all map[[2]string]int // by name and token
}

func (u *undoings) note(a *redlock.Acquire, n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = make(map[[2]string]int)
	}
	of := [2]string{a.Name, a.Token}
	if u.all[of] += n; u.all[of] == 0 {
		delete(u.all, of)
	}
}

func (u *undoings) any(name, token string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.all[[2]string{name, token}] > 0
}

// errUndoing is for a client that asks about a hold that may be taken back at any moment.
var errUndoing = redlock.ReplyError("TRYAGAIN what a failed request of this token may have left is being " +
	"taken back: ask again, or UNLOCK it")

// Undo implements locks.engine.
func (e *Engine) Undo(a *redlock.Acquire) {
	e.waiters.Forget(a)
	e.undoing.note(a, 1)
	e.work.Go(func() { // ends when it is taken back, or over, or e is closed
		defer e.undoing.note(a, -1)
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
	return e.free(ctx, a.Name, func() {}, func(apart bool) (slot int, req []byte) {
		return e.cancelRequest(a, apart)
	})
}

// cancelRequest is the command that takes back what a has made.
func (e *Engine) cancelRequest(a *redlock.Acquire, apart bool) (slot int, req []byte) {
	slot, c := scripts.CancelCall(e.names, e.freeing(a.Name, apart), a.Name, a.Token, a.ID)
	return slot, c.Req
}
