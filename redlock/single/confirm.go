package single

import (
	"context"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// Confirm implements locks.engine.
func (e *Engine) Confirm(ctx context.Context, a *redlock.Acquire, g redlock.Grant, timeout time.Duration) (
	left time.Duration, acked int, err error) {
	c := scripts.RenewCall(e.names, scripts.Keeper,
		redlock.Renew{Name: a.Name, Token: a.Token, Fence: g.Fence})
	return redlock.Confirmed(ctx, e.upstream, c.Slot, c.Req, a.Sync, timeout, g.TTL,
		func(reply []byte) ([]int64, error) { return scripts.ReadKept(reply, 1) })
}
