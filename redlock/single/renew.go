package single

import (
	"context"

	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// Renew implements locks.engine.
func (e *Engine) Renew(by redlock.Caller, r *redlock.Renew, then func(redlock.Renewed, error) []byte) {
	slot, req := e.renewRequest(r)
	by.SendHome(slot, req, true, redlock.ExchangeFunc(func(reply []byte) []byte {
		e.grants.Changed(r.Name)
		return then(scripts.ReadRenewed(reply))
	}), nil)
}

func (e *Engine) renewRequest(r *redlock.Renew) (slot int, req []byte) {
	c := scripts.RenewCall(e.names, scripts.Client, redlock.Renewal(*r))
	return e.names.Place(r.Name).Slot, c.Req
}

// Keep implements locks.engine.
func (e *Engine) Keep(ctx context.Context, slot int, batch []redlock.Renewal) ([]int64, error) {
	c := scripts.RenewCall(e.names, scripts.Keeper, batch...)
	reply, err := e.upstream.Do(ctx, slot, c.Req, true)
	if err != nil {
		return nil, err
	}
	if parted(reply) && len(batch) > 1 {
		var left []int64
		for i := range batch {
			one, err := e.Keep(ctx, slot, batch[i:i+1])
			if err != nil {
				return nil, err
			}
			left = append(left, one...)
		}
		return left, nil
	}
	return scripts.ReadKept(reply, len(batch))
}
