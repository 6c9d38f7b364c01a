package single

import (
	"context"

	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// Renew implements locks.engine. A renewed lock is not plain any more, whatever the reply: release.lua is to
// look at it.
func (e *Engine) Renew(by redlock.Caller, r *redlock.Renew, then func(redlock.Renewed, error) []byte) {
	c := scripts.RenewCall(e.names, scripts.Client, *r)
	by.SendHome(c.Slot, c.Req, true, redlock.ExchangeFunc(func(reply []byte) []byte {
		e.grants.Changed(r.Name)
		return then(scripts.ReadRenewed(reply))
	}), nil)
}

// Keep implements locks.engine. It blocks. After an error nobody knows which of them were renewed, and all
// are asked about again.
func (e *Engine) Keep(ctx context.Context, slot int, batch []redlock.Renew) ([]int64, error) {
	c := scripts.RenewCall(e.names, scripts.Keeper, batch...)
	reply, err := e.upstream.Do(ctx, slot, c.Req, true)
	if err != nil {
		return nil, err
	}
	return scripts.ReadKept(reply, len(batch))
}
