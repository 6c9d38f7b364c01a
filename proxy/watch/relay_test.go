package watch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/lockevent"
	"lockproxy/internal/subscription"
)

// upstream is one channel, and what hubs tell of it.
type upstream struct {
	mu       sync.Mutex
	notify   map[int]func(subscription.Change) // of those who listen
	lost     bool                              // no subscription lives now
	messages int
	told     []lockevent.Event
	fail     error
	stuck    chan struct{} // PUBLISH waits until it is closed; nil: it does not
}

func (u *upstream) hub() *Relay {
	u.notify = make(map[int]func(subscription.Change))
	return New(Options{Proxy: "p1", Log: slog.New(slog.DiscardHandler),
		Publish: func(ctx context.Context, message []byte) error {
			u.mu.Lock()
			stuck := u.stuck
			u.mu.Unlock()
			if stuck != nil {
				<-stuck
			}
			u.mu.Lock()
			defer u.mu.Unlock()
			if u.fail != nil {
				return u.fail
			}
			u.messages++
			u.tell(subscription.Change{Payload: message})
			return nil
		},
		Subscribe: func(notify func(subscription.Change)) (cancel func()) {
			u.mu.Lock()
			defer u.mu.Unlock()
			one := len(u.notify) + 1
			u.notify[one] = notify
			if u.fail != nil {
				notify(subscription.Change{Kind: subscription.Refused, Err: u.fail})
			} else if !u.lost {
				notify(subscription.Change{Kind: subscription.Live})
			}
			return func() {
				u.mu.Lock()
				defer u.mu.Unlock()
				delete(u.notify, one)
			}
		},
		Tell: func(all []lockevent.Event) { u.told = append(u.told, all...) },
	})
}

// tell tells all who listen.
func (u *upstream) tell(e subscription.Change) {
	for _, notify := range u.notify {
		notify(e)
	}
}

// becomes sets how the upstream answers from now on.
func (u *upstream) becomes(fail error, stuck chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fail, u.stuck = fail, stuck
}

// inBubble runs test with a Relay that runs, in fake time.
func inBubble(t *testing.T, test func(t *testing.T, u *upstream, h *Relay)) {
	synctest.Test(t, func(t *testing.T) {
		u := new(upstream)
		h := u.hub()
		ctx, cancel := context.WithCancel(t.Context())
		var over sync.WaitGroup
		over.Go(func() { h.Run(ctx) })
		test(t, u, h)
		cancel()
		over.Wait()
	})
}

// later lets some time pass, and all that happens in it.
func later() {
	time.Sleep(time.Second)
	synctest.Wait()
}

func event(n int) lockevent.Event {
	return lockevent.Event{Kind: lockevent.Granted, Lock: "job", Fence: int64(n), Time: time.Now(),
		Proxy: "p1"}
}

// Many events go in few messages, in their order; nobody subscribes while nobody watches.
func TestEventsInBatches(t *testing.T) {
	inBubble(t, func(t *testing.T, u *upstream, h *Relay) {
		h.Note(event(0))
		later()
		if len(u.told) > 0 || u.messages != 1 {
			t.Errorf("%d messages, told %v before anybody watches", u.messages, u.told)
		}
		for range 2 {
			if err := h.Join(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for n := range 1000 {
			h.Note(event(n))
		}
		later()
		if len(u.told) != 1000 || u.told[999].Fence != 999 || u.messages > 5 {
			t.Errorf("%d events told in %d messages", len(u.told), u.messages)
		}
		h.Leave()
		h.Note(event(1000))
		later()
		h.Leave()
		h.Note(event(1001))
		later()
		if len(u.told) != 1001 || len(u.notify) > 0 {
			t.Errorf("%d events told; still subscribed: %v", len(u.told), len(u.notify) > 0)
		}
	})
}

// Nobody waits for the upstream; what cannot be published is counted, and told before the next event.
func TestEventsThatAreMissed(t *testing.T) {
	inBubble(t, func(t *testing.T, u *upstream, h *Relay) {
		if err := h.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		u.becomes(errors.New("no"), nil)
		h.Note(event(0))
		later()
		stuck := make(chan struct{})
		u.becomes(nil, stuck)
		const many = 3 * lockevent.MostQueued
		for n := range many {
			h.Note(event(n))
		}
		synctest.Wait()
		close(stuck)
		later()
		h.Note(event(many))
		later()
		missed, granted := uint64(0), uint64(0)
		for _, e := range u.told {
			if e.Kind == lockevent.Missed {
				missed += e.Count
			} else {
				granted++
			}
		}
		published, lost := h.Counts()
		if u.told[0].Kind != lockevent.Missed || missed+granted != many+2 || missed < lockevent.MostQueued ||
			lost != missed || published != granted {
			t.Errorf("missed %d, told %d, lost %d, published %d; first %v", missed, granted, lost, published,
				u.told[0])
		}
	})
}

// A subscription that is lost for a while is told; one that cannot be made leaves nothing behind.
func TestEventsThatAreNotHeard(t *testing.T) {
	inBubble(t, func(t *testing.T, u *upstream, h *Relay) {
		u.fail = errors.New("no")
		if err := h.Join(t.Context()); err != u.fail {
			t.Error(err)
		}
		u.fail = nil
		if err := h.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		u.tell(subscription.Change{Kind: subscription.Lost})
		u.tell(subscription.Change{Kind: subscription.Live})
		u.tell(subscription.Change{Payload: []byte("nonsense")})
		if len(u.told) != 1 || u.told[0].Kind != lockevent.Missed || u.told[0].Reason != lockevent.NotHeard {
			t.Errorf("told %v", u.told)
		}
		h.Leave()
	})
}

// Who joins while the subscription of others is lost waits until it lives again, or is told that it does not:
// what happens before that nobody would hear.
func TestJoinWhileLost(t *testing.T) {
	inBubble(t, func(t *testing.T, u *upstream, h *Relay) {
		if err := h.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		u.lost = true
		u.tell(subscription.Change{Kind: subscription.Lost})
		if err := h.Join(t.Context()); !errors.Is(err, errUnconfirmed) {
			t.Error(err)
		}
		go func() {
			time.Sleep(time.Second)
			u.mu.Lock()
			defer u.mu.Unlock()
			u.tell(subscription.Change{Kind: subscription.Live})
		}()
		if err := h.Join(t.Context()); err != nil {
			t.Error(err)
		}
		h.Note(event(0))
		later()
		if len(u.told) != 2 {
			t.Errorf("told %v", u.told)
		}
		h.Leave()
		h.Leave()
		if len(u.notify) > 0 {
			t.Error("still subscribed")
		}
	})
}

// Who waits for somebody else's subscription waits no longer than he wants to.
func TestJoinBesideAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{Subscribe: func(func(subscription.Change)) func() { return func() {} }}) // no answer
		var first sync.WaitGroup
		first.Go(func() {
			if err := h.Join(t.Context()); !errors.Is(err, errUnconfirmed) {
				t.Error(err)
			}
		})
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.Join(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		first.Wait()
	})
}

// However many want to watch at once, each of them hears within the patience for one that nobody confirms it.
func TestJoinsAtASilentUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(upstream).hub()
		h.o.Subscribe = func(func(subscription.Change)) func() { return func() {} }
		const many = 20
		errs := make(chan error, many)
		for range many {
			go func() { errs <- h.Join(context.Background()) }()
		}
		time.Sleep(2 * patience)
		if n := len(errs); n != many {
			t.Errorf("%d of %d have heard after %v", n, many, 2*patience)
		}
		time.Sleep(many * patience)
	})
}
