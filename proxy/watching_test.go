package proxy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/lockevent"
	"lockproxy/internal/subscription"
	"lockproxy/proxy/watch"
)

// heard is an upstream in which one channel can be subscribed.
type heard struct {
	*rig
	refuse error
	names  []string // of the channels that are subscribed
}

func (h *heard) Subscribe(_ int, channel string, notify func(subscription.Change)) (cancel func()) {
	if h.refuse != nil {
		notify(subscription.Change{Kind: subscription.Refused, Err: h.refuse})
		return func() {}
	}
	h.names = append(h.names, channel)
	notify(subscription.Change{Kind: subscription.Live})
	return func() { h.names = h.names[1:] }
}

// watching runs test with a server that tells of events, which nodes take.
func watching(t *testing.T, test func(h *heard, tell func(all ...lockevent.Event))) {
	o := Options{LockOptions: LockOptions{LockEvents: true}}
	inBubble(t, 1, o, func(int, string) string { return ":0\r\n" }, func(r *rig) {
		h := &heard{rig: r}
		r.server.topics = h
		test(h, func(all ...lockevent.Event) {
			r.server.shared.Watchers.Tell(all)
			synctest.Wait()
		})
	})
}

// lines reads what has come by now.
func (c *testClient) lines() string {
	synctest.Wait()
	c.SetReadDeadline(time.Now().Add(time.Millisecond)) //house:brief in fake time
	var all strings.Builder
	for buf := make([]byte, 1<<16); ; {
		n, err := c.r.Read(buf)
		all.Write(buf[:n])
		if err != nil {
			return all.String()
		}
	}
}

// Those who watch are told of the locks that match, until RESET; meanwhile they use no locks.
func TestWatchLocks(t *testing.T) {
	watching(t, func(h *heard, tell func(all ...lockevent.Event)) {
		a, b := h.connect(), h.connect()
		a.send("LOCKCTL WATCH MATCH job*")
		b.send("HELLO 3", "LOCKCTL WATCH")
		a.expect("+OK\r\n")
		if got := b.lines(); !strings.HasSuffix(got, "+OK\r\n") {
			t.Errorf("%q", got)
		}
		if len(h.names) != 1 || h.names[0] != "lock:events" {
			t.Errorf("subscribed %v", h.names)
		}
		tell(lockevent.Event{Kind: lockevent.Granted, Lock: "other", Time: time.Now()},
			lockevent.Event{Kind: lockevent.Lost, Lock: "job", Reason: "max", Fence: 7, Time: time.Now()},
			lockevent.Event{Kind: lockevent.Missed, Count: 3, Time: time.Now()})
		got := a.lines()
		if n := strings.Count(got, "*3\r\n$10\r\nlock-event\r\n"); n != 2 || strings.Contains(got, "other") ||
			!strings.Contains(got, "$4\r\nlost\r\n*22\r\n$4\r\nlock\r\n$3\r\njob\r\n") ||
			!strings.Contains(got, "$5\r\nfence\r\n:7\r\n") {
			t.Errorf("%d events: %q", n, got)
		}
		got = b.lines()
		if n := strings.Count(got, ">3\r\n$10\r\nlock-event\r\n"); n != 3 ||
			!strings.Contains(got, "$7\r\ngranted\r\n%11\r\n$4\r\nlock\r\n$5\r\nother\r\n") {
			t.Errorf("%d events: %q", n, got)
		}
		for _, refused := range []string{"LOCK job", "GET k", "LOCKCTL WATCH"} {
			a.send(refused)
			a.expect(string(watch.Only))
		}
		a.send("PING", "RESET", "PING")
		a.expect("+PONG\r\n+RESET\r\n+PONG\r\n")
		b.Close()
		synctest.Wait()
		tell(lockevent.Event{Kind: lockevent.Granted, Lock: "job", Time: time.Now()})
		if got := a.lines(); got != "" || len(h.names) > 0 {
			t.Errorf("after RESET: %q, subscribed %v", got, h.names)
		}
		h.refuse = errors.New("no such right")
		a.send("LOCKCTL WATCH", "PING")
		if got := a.lines(); !strings.HasPrefix(got, "-ERR no such right\r\n+PONG\r\n") {
			t.Errorf("%q", got)
		}
	})
}

// What is sent behind LOCKCTL WATCH, with no wait for its answer, comes behind it: another one is refused,
// and RESET ends it.
func TestWatchLocksPipelined(t *testing.T) {
	watching(t, func(h *heard, tell func(all ...lockevent.Event)) {
		a := h.connect()
		a.tell("+OK\r\n"+string(watch.Only), "LOCKCTL WATCH MATCH job*", "LOCKCTL WATCH MATCH o*")
		tell(lockevent.Event{Kind: lockevent.Granted, Lock: "job", Time: time.Now()})
		if got := a.lines(); !strings.Contains(got, "$3\r\njob\r\n") {
			t.Errorf("told %q", got)
		}
		a.tell("+RESET\r\n+OK\r\n+RESET\r\n", "RESET", "LOCKCTL WATCH", "RESET")
		tell(lockevent.Event{Kind: lockevent.Granted, Lock: "job", Time: time.Now()})
		if got := a.lines(); got != "" || len(h.names) > 0 {
			t.Errorf("after RESET: %q, subscribed %v", got, h.names)
		}
	})
}

// Who does not read is told how many events were left out. No memory is kept for them.
func TestWatchLocksSlowly(t *testing.T) {
	watching(t, func(h *heard, tell func(all ...lockevent.Event)) {
		a := h.connect()
		a.send("LOCKCTL WATCH")
		a.expect("+OK\r\n")
		const many = 40_000
		event := lockevent.Event{Kind: lockevent.Granted, Lock: strings.Repeat("x", 900), Time: time.Now()}
		for range many / 100 {
			batch := make([]lockevent.Event, 100)
			for i := range batch {
				batch[i] = event
			}
			tell(batch...)
		}
		got := a.lines()
		shown := strings.Count(got, "granted")
		if len(got) > 4*1<<20 || shown == 0 {
			t.Errorf("%d bytes, %d events", len(got), shown)
		}
		tell(event)
		_, gap, _ := strings.Cut(a.lines(), "$6\r\nmissed\r\n")
		_, count, _ := strings.Cut(gap, "$5\r\ncount\r\n:")
		if want := fmt.Sprint(many-shown) + "\r\n"; !strings.HasPrefix(count, want) ||
			!strings.Contains(gap, "slow") {
			t.Errorf("%d shown, %d missing; told %.20q", shown, many-shown, count)
		}
	})
}

// Without the setting nobody can watch, and is told why.
func TestWatchLocksIsOff(t *testing.T) {
	inBubble(t, 1, Options{}, func(int, string) string { return ":0\r\n" }, func(r *rig) {
		c := r.connect()
		c.send("LOCKCTL WATCH")
		if got := c.lines(); !strings.HasPrefix(got, "-ERR LOCKCTL WATCH needs the setting lock-events yes") {
			t.Errorf("%q", got)
		}
	})
}
