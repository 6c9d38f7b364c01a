package locks

import (
	"context"
	"math/rand/v2"
	"time"

	"lockproxy/redlock"
)

// Wait goes on waiting for the lock that a stands in the queue for, first come, first
// served, until a.Wait is over. ok is false when the wait was in vain. It blocks. When
// ctx ends it returns its cause. Whatever a has made is taken back then, and after
// errors, in the background; after a wait in vain it is before Wait returns, so that
// the same token may ask again at once.
func (l *Locker) Wait(ctx context.Context, a *redlock.Acquire) (g redlock.Grant, ok bool, err error) {
	l.stats.waiting.Add(1)
	defer l.stats.waiting.Add(-1)
	l.stats.waits.Add(1)
	if g, ok, err = l.engine.Wait(ctx, a); !ok && err == nil {
		l.stats.timedOut.Add(1)
	}
	return g, ok, err
}

// mostSteps is how often one attempt goes on with what a script has begun: with a queue of the dead, once for
// each 250.
const mostSteps = 4000

// Try makes exactly tries more attempts, each about every after the one before it: half as
// long up to one and a half times as long. It does not queue. ok is false when all were in
// vain. It blocks. What was made half-way is taken back in the background.
func (l *Locker) Try(
	ctx context.Context, a *redlock.Acquire, tries int, every time.Duration,
) (g redlock.Grant, ok bool, err error) {
	for range tries {
		select {
		case <-time.After(every/2 + rand.N(every+1)):
		case <-ctx.Done():
			return g, false, context.Cause(ctx)
		}
		// The attempt before this one has made nothing, and what is asked for meanwhile is older.
		a.ID = l.names.NewID(a)
		err = redlock.ErrAgain
		for n := 0; err == redlock.ErrAgain && n < mostSteps; n++ {
			g, ok, err = l.engine.Attempt(context.WithoutCancel(ctx), a)
		}
		if err != nil && !redlock.Refused(err) {
			l.Undo(a)
		}
		if err != nil || ok {
			return g, ok, err
		}
	}
	return g, false, nil
}

// Follows says that others of this proxy wait for the lock that a wants, and that a need not ask before them:
// call Wait at once.
func (l *Locker) Follows(a *redlock.Acquire) bool { return l.engine.Follows(a) }
