package wait

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/redlock"
)

// busy is an Engine whose attempts take 100 ms, and get what the waiter held at their beginning.
type busy struct {
	always
	order *Redis
	asks  atomic.Bool
	fence atomic.Int64 // of what the waiter holds by now; 0: nothing
}

func (e *busy) Attempt(_ context.Context, a *redlock.Acquire) (redlock.Grant, bool, error) {
	e.asks.Store(true)
	g := redlock.Grant{Token: a.Token, Fence: e.fence.Load()}
	time.Sleep(100 * time.Millisecond)
	e.asks.Store(false)
	if g.Fence != 0 {
		return g, true, nil
	}
	e.order.Queued(a, 1, time.Hour, nil)
	return redlock.Grant{}, false, nil
}

// The client of a waiter is told at once of a grant that comes with an UNLOCK, and once; Wait returns that
// grant even if the wait ends at the same time. It is Wait alone that returns one which comes before it is
// called. During an attempt it is asked for once more. R25
func TestHandedIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &busy{}
		o := NewRedis(e, redlock.NewNames("lock:"), slog.New(slog.DiscardHandler))
		defer o.Close()
		e.order = o
		told, returned := 0, make(chan redlock.Grant, 1)
		wait := func(id string) (handOver func(fence int64), end func()) {
			told = 0
			ctx, cancel := context.WithCancel(t.Context())
			a := &redlock.Acquire{Name: "job", Token: "t " + id, Mode: redlock.Write, Wait: time.Hour, ID: id}
			a.Handed = func(g redlock.Grant) {
				told++
				if g.Token != a.Token || g.Fence != 7 {
					t.Errorf("%s: told of %+v", id, g)
				}
			}
			o.Expect(a, time.Now())
			o.Queued(a, 1, time.Hour, nil)
			if id != "early" {
				go func() { // ends with the wait
					defer cancel()
					g, _, _ := o.Wait(ctx, a)
					returned <- g
				}()
				time.Sleep(500 * time.Millisecond) // the attempt that it makes at first is over
				synctest.Wait()
				return func(fence int64) { o.HandOver(id, redlock.Grant{Fence: fence}) }, cancel
			}
			o.HandOver(id, redlock.Grant{Fence: 7})
			g, _, _ := o.Wait(ctx, a)
			returned <- g
			return nil, cancel
		}
		check := func(what string, times int, fence int64) {
			t.Helper()
			if g := <-returned; g.Fence != fence || told != times {
				t.Errorf("%s: told %d times, and Wait returned %+v", what, told, g)
			}
		}
		handOver, end := wait("asleep")
		handOver(7)
		handOver(8)
		if told != 1 {
			t.Errorf("told %d times", told)
		}
		check("asleep", 1, 7)

		_, end = wait("leaving")
		o.mu.Lock() // it cannot leave yet
		end()
		o.byID["leaving"].handGrant(redlock.Grant{Token: "t leaving", Fence: 7})
		o.mu.Unlock()
		check("leaving", 1, 7)

		handOver, end = wait("left")
		end()
		synctest.Wait()
		handOver(7)
		check("left", 0, 0)

		asking := func() {
			for !e.asks.Load() {
				time.Sleep(10 * time.Millisecond)
			}
		}
		handOver, _ = wait("asking")
		asking()
		handOver(7)
		e.fence.Store(7)
		check("asking", 0, 7)
		e.fence.Store(0)

		// The grant is gone before the attempt behind it: the waiter waits on.
		handOver, _ = wait("asking in vain")
		asking()
		handOver(6)
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if len(returned) > 0 {
			t.Errorf("it was told of a grant that is gone: %+v", <-returned)
		}
		handOver(7)
		check("asking in vain", 1, 7)

		_, end = wait("early")
		defer end()
		check("early", 0, 7)
	})
}
