package single

import (
	"context"
	"errors"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// errLeaseOver is why a confirmation ends when there is nothing left to be confirmed.
var errLeaseOver = errors.New("the lease is over")

// Confirm implements locks.engine. It asks the lock's master whether g is still there, with a write that
// changes nothing, and waits behind that for the replicas. left is not above 0 when the hold is gone.
func (e *Engine) Confirm(ctx context.Context, a *redlock.Acquire,
	g redlock.Grant) (left time.Duration, acked int, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, g.TTL, errLeaseOver)
	defer cancel()
	slot, c := scripts.Eval(e.names, &scripts.Confirm, a.Name, 2)
	c.Owner(a.Token)
	c.Text(scripts.Optional(g.Fence))
	began := time.Now()
	reply, acked, err := e.upstream.Synced(limited, slot, c.Req, a.Sync, e.o.SyncTimeout)
	switch {
	case errors.Is(err, errLeaseOver):
		return 0, 0, nil
	case err != nil:
		return 0, 0, err
	}
	if left, err = scripts.ReadConfirmed(reply); err != nil {
		return 0, 0, err
	}
	return left - time.Since(began).Truncate(time.Millisecond), acked, nil
}
