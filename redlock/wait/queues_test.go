package wait

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/subscription"
	"lockproxy/redlock"
)

// always is an Engine that grants whatever is asked for, and counts the attempts.
type always struct{ attempts atomic.Int32 }

func (e *always) Attempt(_ context.Context, a *redlock.Acquire) (redlock.Grant, bool, error) {
	e.attempts.Add(1)
	return redlock.Grant{Token: a.Token, TTL: a.Lease}, true, nil
}

func (*always) Listen(_ int, _ string, hears func(subscription.Change)) (cancel func()) {
	hears(subscription.Change{Kind: subscription.Live})
	return func() {}
}

// A request is known from Expect until it is forgotten, or its wait is over, and can be given the lock before
// it waits. What is given to one that has left is nobody's. R25
func TestWaiterIsKnownUntilItLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &always{}
		o := NewRedis(e, redlock.NewNames("lock:"), slog.New(slog.DiscardHandler))
		defer o.Close()
		ask := func(id string, wait time.Duration) *redlock.Acquire {
			return &redlock.Acquire{Name: "job", Token: "t " + id, Mode: redlock.Write, Wait: wait, ID: id}
		}
		known := func(ids, asks int) {
			t.Helper()
			if len(o.byID) != ids || len(o.byAsk) != asks {
				t.Errorf("%d ids and %d requests are known, want %d and %d", len(o.byID),
					len(o.byAsk), ids, asks)
			}
		}
		given, forgotten := ask("given", time.Minute), ask("forgotten", time.Minute)
		woken := ask("woken", time.Minute)
		until := o.Expect(given, time.Now())
		if time.Until(until) != time.Minute || o.Expect(given, time.Now()) != until {
			t.Errorf("it waits until %v", until)
		}
		o.Queued(given, 1, time.Second, nil)
		o.Expect(forgotten, time.Now())
		known(2, 2)
		o.Forget(forgotten)
		o.Forget(ask("never asked", 0))
		known(1, 1)
		o.HandOver("forgotten", redlock.Grant{Fence: 6})
		o.HandOver("given", redlock.Grant{Fence: 7})
		if g, ok, err := o.Wait(t.Context(), given); !ok || err != nil || g.Fence != 7 ||
			g.Token != "t given" {
			t.Errorf("given: %+v %v %v", g, ok, err)
		}
		if e.attempts.Load() != 0 {
			t.Errorf("%d attempts for what was given", e.attempts.Load())
		}
		o.Expect(woken, time.Now())
		o.Queued(woken, 1, time.Second, nil)
		began := time.Now()
		if g, ok, err := o.Wait(t.Context(), woken); !ok || err != nil || g.Token != "t woken" ||
			e.attempts.Load() != 1 {
			t.Errorf("woken: %+v %v %v after %d attempts", g, ok, err, e.attempts.Load())
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it asked after %v", took)
		}
		known(0, 0)
	})
}

// refusing is an Engine that never grants the lock, and says by what message it can be heard.
type refusing struct {
	always
	order *Redis
	hears func(subscription.Change)
}

func (e *refusing) Attempt(_ context.Context, a *redlock.Acquire) (redlock.Grant, bool, error) {
	e.attempts.Add(1)
	e.order.Queued(a, 1, time.Hour, nil)
	return redlock.Grant{}, false, nil
}

func (e *refusing) Listen(_ int, _ string, hears func(subscription.Change)) (cancel func()) {
	e.hears = hears
	return e.always.Listen(0, "", hears)
}

// A reply of the script may be read after the message about an offer that was made behind it. It does not put
// off the look at what became of that offer. R25
func TestOlderReplyForgetsNoOffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &refusing{}
		o := NewRedis(e, redlock.NewNames("lock:"), slog.New(slog.DiscardHandler))
		defer o.Close()
		e.order = o
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a := &redlock.Acquire{Name: "job", Token: "t", Mode: redlock.Write, Wait: time.Hour, ID: "mine"}
		o.Expect(a, time.Now())
		o.Queued(a, 1, time.Hour, nil)
		go o.Wait(ctx, a) // ends with ctx
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		before := e.attempts.Load()
		e.hears(subscription.Change{Payload: []byte("another")})
		o.Queued(a, 1, time.Hour, nil)
		time.Sleep(offer + 10*time.Millisecond)
		synctest.Wait()
		if n := e.attempts.Load() - before; n != 1 {
			t.Errorf("%d looks when the offer to another was over, want 1", n)
		}
	})
}

// A proxy asks each second for a lock that its clients wait for, and every 100 ms as long as it does not hear
// of it. What was planned while it did not hear ends with that. R25
func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &refusing{}
		o := NewRedis(e, redlock.NewNames("lock:"), slog.New(slog.DiscardHandler))
		defer o.Close()
		e.order = o
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a := &redlock.Acquire{Name: "job", Token: "t", Mode: redlock.Write, Wait: time.Hour, ID: "mine"}
		o.Expect(a, time.Now())
		o.Queued(a, 1, time.Hour, nil)
		go o.Wait(ctx, a) // ends with ctx
		asked := int32(0)
		attempts := func(during time.Duration) int32 {
			time.Sleep(during)
			synctest.Wait()
			before := asked
			asked = e.attempts.Load()
			return asked - before
		}
		if n := attempts(900 * time.Millisecond); n != 1 {
			t.Errorf("%d attempts at first, want 1: when it began to hear", n)
		}
		if n := attempts(10 * time.Second); n < 9 || n > 10 {
			t.Errorf("%d attempts in ten seconds", n)
		}
		e.hears(subscription.Change{Kind: subscription.Lost})
		if n := attempts(time.Second); n < 9 || n > 11 {
			t.Errorf("%d attempts in a second without messages", n)
		}
		e.hears(subscription.Change{Kind: subscription.Live})
		if n := attempts(10 * time.Second); n < 9 || n > 11 {
			t.Errorf("%d attempts in ten seconds with messages again", n)
		}
	})
}
