package single

import (
	"context"
	"errors"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// errLeaseOver ends a confirmation when there is nothing left to confirm.
var errLeaseOver = errors.New("the lease is over")

// Confirm implements locks.engine. A write that changes nothing asks the lock's master whether g is still
// there; then it waits until the replicas have that write. left is not above 0 if the hold is gone.
func (e *Engine) Confirm(ctx context.Context, a *redlock.Acquire,
	g redlock.Grant) (left time.Duration, acked int, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, g.TTL, errLeaseOver)
	defer cancel()
	c := scripts.RenewCall(e.names, scripts.Keeper,
		redlock.Renewal{Name: a.Name, Token: a.Token, Fence: g.Fence})
	began := time.Now()
	slot := e.names.Place(a.Name).Slot
	reply, acked, err := e.upstream.Synced(limited, slot, c.Req, a.Sync, e.o.SyncTimeout)
	switch {
	case errors.Is(err, errLeaseOver):
		return 0, 0, nil
	case err != nil:
		return 0, 0, err
	}
	lasts, err := scripts.ReadKept(reply, 1)
	if err != nil {
		return 0, 0, err
	}
	left = time.Duration(lasts[0]) * time.Millisecond
	return left - time.Since(began).Truncate(time.Millisecond), acked, nil
}
