package single

import (
	"context"

	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// undoOnce makes one attempt to take back what a has made. A waiter that gets the lock by that hears of it at
// once.
func (e *Engine) undoOnce(ctx context.Context, a *redlock.Acquire) error {
	return e.freeLock(ctx, a.Name, func() {}, func(apart bool) scripts.Call {
		return scripts.CancelCall(e.names, e.freeing(a.Name, apart), a.Name, a.Token, a.ID)
	})
}
