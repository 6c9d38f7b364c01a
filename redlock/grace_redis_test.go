//go:build !quick

package redlock

import (
	"strings"
	"testing"
	"time"
)

// The master has another replication id all of a sudden, as after a fail-over: nothing new is
// granted for the grace, to nobody; renewals and releases go on, and so do those who hold the lock
// already. R26
func TestFailoverGrace(t *testing.T) {
	s := startRedis(t, "--enable-debug-command", "yes")
	const period = 700 * time.Millisecond
	both := s.proxies(t, 2, Options{FailoverGrace: period})
	p, other := both[0], both[1]
	refused := func(r result) {
		t.Helper()
		if r.ok || r.err == nil || !strings.HasPrefix(r.err.Error(), "TRYAGAIN ") || !strings.Contains(r.err.Error(), " ms ") {
			t.Fatalf("in the grace: %+v", r)
		}
	}

	// A master that was never promoted, and that was never another one, grants once it is older than any
	// lease may be.
	began := time.Now()
	young := func() bool { return strings.Contains(s.ask("INFO", "server").Text(), "uptime_in_seconds:0\r") }
	if r := other.lock(t.Context(), Acquire{Name: "young{job}", Token: "y", Lease: time.Minute}); young() {
		refused(r)
	}
	for young() {
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(time.Until(began.Add(period + 100*time.Millisecond)))
	if r := p.lock(t.Context(), Acquire{Token: "a", Lease: time.Minute}); !r.ok || r.err != nil {
		t.Fatalf("before anything has happened: %+v", r)
	}
	if r := other.lock(t.Context(), Acquire{Name: "elsewhere{job}", Token: "x", Lease: time.Minute}); !r.ok {
		t.Fatalf("before anything has happened: %+v", r)
	}
	queued := p.begin(t.Context(), Acquire{Token: "b", Wait: time.Minute})
	s.ask("DEBUG", "CHANGE-REPL-ID")
	changed := time.Now()

	if r := p.lock(t.Context(), Acquire{Token: "a", Lease: 2 * time.Minute}); !r.ok || r.TTL < time.Minute {
		t.Errorf("the one who holds it, again: %+v", r)
	}
	if r, err := p.client().renew(&Renew{Name: "job", Token: "a", Lease: 3 * time.Minute}); err != nil || r.Left == 0 {
		t.Errorf("renewal: %+v %v", r, err)
	}
	refused(other.lock(t.Context(), Acquire{Name: "new{job}", Token: "y"}))
	if got := p.unlock("a"); got != 1 {
		t.Errorf("release: %d", got)
	}
	refused(<-queued) // the release hands nothing on
	refused(p.lock(t.Context(), Acquire{Name: "waits{job}", Token: "c", Wait: time.Second}))
	refused(p.lock(t.Context(), Acquire{Name: "reads{job}", Token: "r", Mode: Read}))

	time.Sleep(time.Until(changed.Add(period + 300*time.Millisecond)))
	for _, q := range both {
		if r := q.lock(t.Context(), Acquire{Name: "late{job}", Token: q.ID(), Mode: Read}); !r.ok {
			t.Errorf("after the grace: %+v", r)
		}
	}
}

// A proxy that starts cannot know since when a promoted master has been one.
func TestFailoverGraceAtStart(t *testing.T) {
	g := grace{period: time.Minute}
	promoted := strings.Repeat("a", 40)
	never := strings.Repeat("0", 40)
	if left := g.met(7, "one", never, time.Hour); left != 0 {
		t.Errorf("a master that was never promoted: %v", left)
	}
	if left := g.met(8, "two", promoted, time.Hour); left < 59*time.Second {
		t.Errorf("a promoted one: %v", left)
	}
	if left := g.met(9, "one", promoted, time.Hour); left != 0 {
		t.Errorf("a slot that moved to a known master: %v", left)
	}
	if left := g.met(7, "three", never, time.Hour); left < 59*time.Second {
		t.Errorf("one that came back without its memory: %v", left)
	}
	if left := g.met(7, "one", never, time.Hour); left != 0 {
		t.Errorf("the slot moved back: %v", left)
	}
	if left := g.met(10, "four", never, 20*time.Second); left < 39*time.Second || left > 40*time.Second {
		t.Errorf("one that came back without its memory before the proxy started: %v", left)
	}
	if left := g.met(11, "five", promoted, 20*time.Second); left < 59*time.Second {
		t.Errorf("one that was promoted, nobody knows when: %v", left)
	}
}
