package locks

import (
	"context"

	"lockproxy/redlock"
)

// This file asks the engine for those who wait for the answer.

// patient is a Caller that waits until ctx ends.
func (l *Locker) patient(ctx context.Context) *redlock.Patient {
	return &redlock.Patient{Ctx: ctx, Home: l.home}
}

// attempt makes one attempt, whatever becomes of its client meanwhile. Without ok and without an error a is
// in the queue if it may wait. It blocks.
func (l *Locker) attempt(ctx context.Context, a *redlock.Acquire) (g redlock.Grant, ok bool, err error) {
	by := l.patient(context.WithoutCancel(ctx))
	if g, ok, err = by.Acquire(l.engine.Acquire, a); !ok && by.Err == nil {
		l.Refused(a)
	}
	return g, ok, err
}

// release frees a hold. It blocks.
func (l *Locker) release(ctx context.Context, r *redlock.Release) (redlock.Released, error) {
	l.o.Index.Changed(r.Name) // a Patient is not told if a request may have run twice, which plain locks need
	return l.patient(context.WithoutCancel(ctx)).Release(l.engine.Release, r)
}

// renew makes the lease of a hold longer. It blocks.
func (l *Locker) renew(ctx context.Context, r *redlock.Renew) (redlock.Renewed, error) {
	return redlock.Ask(l.patient(context.WithoutCancel(ctx)),
		func(by *redlock.Patient, then func(redlock.Renewed, error) []byte) { l.engine.Renew(by, r, then) })
}

// state reads a lock. It blocks until ctx ends.
func (l *Locker) state(ctx context.Context, name string) (redlock.State, error) {
	return redlock.Ask(l.patient(ctx), func(by *redlock.Patient, then func(redlock.State, error) []byte) {
		l.engine.Inspect(by, name, "", then)
	})
}
