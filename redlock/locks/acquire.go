package locks

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"lockproxy/redlock"
)

// Wait waits on for the lock, until a.Wait is over. a must stand in the queue, which is first come, first
// served. ok is false if a.Wait ended first. When ctx ends, Wait returns its cause. Unless it is granted,
// whatever a left in Redis is gone before Wait returns, so that the same token may ask again at once; or the
// error is redlock.ErrMayHold, and it is taken back in the background. Wait blocks. It counts the wait until
// the client is told of a grant, even if it returns later.
func (l *Locker) Wait(ctx context.Context, a *redlock.Acquire) (g redlock.Grant, ok bool, err error) {
	l.stats.countOne(Waiters)
	l.stats.countOne(Waits)
	left := l.Waits(a)
	over := sync.OnceFunc(func() {
		l.stats[Waiters].Add(^uint64(0))
		left()
	})
	defer over()
	a.BeforeHanded(func(redlock.Grant) { over() })
	if g, ok, err = l.engine.Wait(ctx, a); !ok && err == nil {
		l.stats.countOne(TimedOut)
	}
	return g, ok, err
}

// Try makes exactly tries more attempts, without queueing. The pauses between them vary from half of every to
// one and a half times every. ok is false if none of them was granted. What an unfinished attempt left is
// taken back in the background. Try blocks.
func (l *Locker) Try(
	ctx context.Context, a *redlock.Acquire, tries int, every time.Duration,
) (g redlock.Grant, ok bool, err error) {
	for range tries {
		select {
		case <-time.After(every/2 + rand.N(every+1)):
		case <-ctx.Done():
			return g, false, context.Cause(ctx)
		}
		// The last attempt left nothing behind. A new id makes this one younger than requests sent meanwhile.
		a.ID = l.names.NewID(a)
		g, ok, err = l.attemptOnce(ctx, a)
		if err != nil && !redlock.Refused(err) {
			l.Undo(a)
		}
		if err != nil || ok {
			return g, ok, err
		}
	}
	return g, false, nil
}
