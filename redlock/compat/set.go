package compat

import (
	"context"

	"lockproxy/redlock"
)

// TakeAll implements locks.engine: they are taken one by one.
func (*Engine) TakeAll([]*redlock.Acquire) ([]redlock.Grant, int, error) {
	return nil, 0, redlock.ErrOneByOne
}

// Forget implements locks.engine.
func (e *Engine) Forget(a *redlock.Acquire) { e.waiters.Forget(a) }

// ReleaseNow implements locks.engine.
func (e *Engine) ReleaseNow(ctx context.Context, r *redlock.Release) (redlock.Released, error) {
	at, c := e.releaseCall(r.Name, r.Token, r.Fence, "", "")
	reply, err := e.upstream.Do(ctx, at, c.Req, false)
	if err != nil {
		return redlock.Released{}, err
	}
	return readReleased(reply)
}

// RenewNow implements locks.engine.
func (e *Engine) RenewNow(ctx context.Context, r *redlock.Renew) (redlock.Renewed, error) {
	reply, err := e.do(ctx, e.names.Place(r.Name).Slot, e.renewCall(r))
	if err != nil {
		return redlock.Renewed{}, err
	}
	all, err := readRenewed(reply, 1)
	if err != nil {
		return redlock.Renewed{}, err
	}
	return all[0], nil
}
