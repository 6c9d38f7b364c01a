package quorum

import (
	"context"

	"lockproxy/redlock"
)

// TakeAll implements locks.engine: a majority has to agree on each lock by itself.
func (q *Engine) TakeAll([]*redlock.Acquire) ([]redlock.Grant, int, error) {
	return nil, 0, redlock.ErrOneByOne
}

// Forget implements locks.engine.
func (q *Engine) Forget(a *redlock.Acquire) { q.waiters.Forget(a) }

// ReleaseNow implements locks.engine.
func (q *Engine) ReleaseNow(ctx context.Context, r *redlock.Release) (redlock.Released, error) {
	p, done := q.releasing(r)
	if err := p.await(ctx); err != nil {
		return redlock.Released{}, err
	}
	return *done, nil
}

// RenewNow implements locks.engine.
func (q *Engine) RenewNow(ctx context.Context, r *redlock.Renew) (redlock.Renewed, error) {
	p, done := q.renewing(r)
	if err := p.await(ctx); err != nil {
		return redlock.Renewed{}, err
	}
	return *done, nil
}
