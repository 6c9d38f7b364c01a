package pubsub

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"lockproxy/cluster/discovery"
	"lockproxy/cluster/internal/servers"
	"lockproxy/internal/slot"
	"lockproxy/internal/subscription"
)

// hearing collects the events of one subscription.
type hearing struct {
	events chan string
	cancel func()
}

// listen subscribes channel and collects what comes.
func listen(t *testing.T, u *hub, channel string) *hearing {
	t.Helper()
	return listenAt(t, u, slot.Of([]byte(channel)), channel)
}

// listenAt is listen for a channel of slot n, or a classic one.
func listenAt(t *testing.T, u *hub, n int, channel string) *hearing {
	t.Helper()
	h := begin(u, n, channel)
	h.expect(t, "live")
	return h
}

// begin is listenAt that does not wait until the subscription stands.
func begin(u *hub, n int, channel string) *hearing {
	h := &hearing{events: make(chan string, 1000)}
	h.cancel = u.Subscribe(n, channel, func(e subscription.Change) {
		what := [...]string{"message ", "live", "lost", "refused: "}[e.Kind] + string(e.Payload)
		if e.Err != nil {
			what += e.Err.Error()
		}
		h.events <- what
	})
	return h
}

// expect waits for the events in turn.
func (h *hearing) expect(t *testing.T, events ...string) {
	t.Helper()
	hung := time.After(servers.Patience)
	for _, want := range events {
		select {
		case got := <-h.events:
			if got != want {
				t.Fatalf("event %q, want %q", got, want)
			}
		case <-hung:
			t.Fatalf("no event within %v, want %q", servers.Patience, want)
		}
	}
}

// silent checks that no event came.
func (h *hearing) silent(t *testing.T) {
	t.Helper()
	select {
	case got := <-h.events:
		t.Errorf("event %q", got)
	case <-time.After(50 * time.Millisecond):
	}
}

// Before Redis 7, and without a Redis, there are no shard channels.
func TestSubscribeMiniredis(t *testing.T) {
	m := miniredis.RunT(t)
	u := subscribing(t, discovery.Options{Addrs: []string{m.Addr()}})
	h := listen(t, u, "news")
	time.Sleep(1700 * time.Millisecond) // it was pinged once
	if n := m.Publish("news", "1"); n != 1 {
		t.Errorf("%d subscriptions", n)
	}
	h.expect(t, "message 1")
	h.cancel()
	servers.Eventually(t, "unsubscribed", func() bool { return m.Publish("news", "2") == 0 })
	time.Sleep(1700 * time.Millisecond) // pinged without a subscription
	listen(t, u, "more")
}
