package main

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// passed is a lock that comes free some time after it is given up.
type passed struct {
	free  chan struct{}
	after time.Duration
}

func (l passed) lock(ctx context.Context) error {
	select {
	case <-l.free:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l passed) unlock(context.Context) error {
	time.AfterFunc(l.after, func() { l.free <- struct{}{} })
	return nil
}

func (passed) close() {}

// passedWay is a way to such a lock, of which there are so many: one, or it is no lock.
func passedWay(locks int) lockWay {
	l := passed{make(chan struct{}, 10), 3 * time.Millisecond}
	for range locks {
		l.free <- struct{}{}
	}
	return lockWay{name: "passed",
		locker: func(context.Context, string, int) (locker, error) { return l, nil }}
}

// Whoever waits gets the lock once for each time that the queue drains, and the time that counts is from its
// being given up to the next one having it, without that for which it was held.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := passedWay(1).drain(t.Context(), 4, 10, nil)
		if err != nil {
			t.Fatal(err)
		}
		if s.p50 != 3*time.Millisecond || s.p99 != 3*time.Millisecond || s.shares[len(s.shares)-1] != 3000 {
			t.Errorf("%+v", s)
		}
	})
}

func TestDrainOfNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := passedWay(2).drain(t.Context(), 4, 10, nil)
		if err == nil || !strings.Contains(err.Error(), "two hold the lock") {
			t.Errorf("two hold it and the error is %v", err)
		}
	})
}

// A waiter that is lost ends the measurement. It is left out where it is a yardstick's, and no lockproxy's.
func TestDrainLosesAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := passedWay(1)
		others := w.locker
		w.locker = func(ctx context.Context, key string, i int) (locker, error) {
			if i == 2 {
				return passed{free: make(chan struct{})}, nil
			}
			return others(ctx, key, i)
		}
		_, err := w.drain(t.Context(), 4, 10, nil)
		if err == nil || !w.hung(err) {
			t.Errorf("error %v", err)
		}
		w.queued = func(context.Context, string) (int, error) { return 0, nil }
		if w.hung(err) {
			t.Error("a lockproxy may lose a waiter")
		}
	})
}
