// Package proxies starts several Lockers over one Redis, and asks them as verbs do. For tests alone.
package proxies

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/locks"
)

// Proxy is a Locker with the upstream that it goes through. It has no clients of its own: tests ask for them,
// as many as they need.
type Proxy struct {
	*locks.Locker
	Up *rig.Upstream
	T  testing.TB
}

// Start starts n proxies over s. At the end of the test nothing of them may be left. The first of o, if there
// is one, has the options of all.
func Start(t *testing.T, s *rig.Server, n int, o ...locks.Options) []*Proxy {
	var all []*Proxy
	for range n {
		up, left := &rig.Upstream{S: s}, &Leftovers{}
		options := append(o, locks.Options{})[0]
		options.Log = left.Logger()
		p := &Proxy{locks.New(up, options), up, t}
		all = append(all, p)
		t.Cleanup(func() {
			p.Close(context.Background())
			p.Up.Close()
			if what := left.String(); what != "" {
				t.Errorf("left behind: %s", what)
			}
		})
	}
	return all
}

// Client is a client of p.
func (p *Proxy) Client() *rig.Asker { return &rig.Asker{L: p.Locker, Up: p.Up} }

// Result is how an acquisition ended. At is when it ended, and Took how long it took.
type Result struct {
	redlock.Grant
	OK   bool
	Err  error
	At   time.Time
	Took time.Duration
}

// Lock acquires as the verb LOCK does: a first request, and Wait when that queued. Without a mode and a name
// it asks to write the lock job.
func (p *Proxy) Lock(ctx context.Context, a redlock.Acquire) (res Result) {
	began := time.Now()
	defer func() { res.At, res.Took = time.Now(), time.Since(began) }()
	if a.Mode == "" {
		a.Mode = redlock.Write
	}
	if a.Name == "" {
		a.Name = "job"
	}
	q := p.NewAcquire(a)
	res.Grant, res.OK, res.Err = p.Client().Acquire(q)
	if res.Err != nil && !redlock.Refused(res.Err) {
		p.Undo(q)
	}
	if res.OK || res.Err != nil || q.Wait == 0 {
		return res
	}
	if res.Grant, res.OK, res.Err = p.Wait(ctx, q); res.OK {
		p.Locker.Granted(q, &res.Grant, res.Grant.At, nil)
	}
	return res
}

// Begin is Lock in the background. It returns when the request stands in the queue, or is through.
func (p *Proxy) Begin(ctx context.Context, a redlock.Acquire) chan Result {
	p.T.Helper()
	done := make(chan Result, 1)
	before := p.Stats()[locks.Waiters]
	go func() { done <- p.Lock(ctx, a) }()
	for i := 0; p.Stats()[locks.Waiters] == before && len(done) == 0; i++ {
		time.Sleep(time.Millisecond)
		if i > int(rig.Patience/time.Millisecond) {
			p.T.Fatal("it neither waits nor ends")
		}
	}
	return done
}

// Unlock releases; it returns 1, 0 or -1 for Null. The lock is job.
func (p *Proxy) Unlock(token string) int {
	p.T.Helper()
	n, err := p.Client().Release(&redlock.Release{Name: "job", Token: token})
	if err != nil {
		p.T.Fatal(err)
	}
	return n
}

// State reads the lock job.
func (p *Proxy) State() redlock.State {
	p.T.Helper()
	s, err := p.Client().State("job")
	if err != nil {
		p.T.Fatal(err)
	}
	return s
}

// Granted waits for a grant.
func Granted(t *testing.T, done chan Result) Result {
	t.Helper()
	select {
	case r := <-done:
		if r.Err != nil || !r.OK {
			t.Fatalf("not granted: %v", r.Err)
		}
		return r
	case <-time.After(30 * time.Second): // as long as a lease: nobody is to wait for the end of that
		t.Fatal("not granted in 30 s")
	}
	return Result{}
}

// Waiting says that none of them has come yet. It gives them a moment for that, which is fake time in
// synctest.
func Waiting(t *testing.T, all ...chan Result) {
	t.Helper()
	time.Sleep(20 * time.Millisecond)
	for i, done := range all {
		if len(done) > 0 {
			t.Fatalf("number %d does not wait any more: %+v", i, <-done)
		}
	}
}

// Leftovers is a log that keeps what a Locker says of waiters that were there when it was closed.
type Leftovers struct {
	mu   sync.Mutex
	text strings.Builder
}

// Logger writes to l, whatever the level: that line is a debug one.
func (l *Leftovers) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Write takes a line of the log.
func (l *Leftovers) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if bytes.Contains(line, []byte("closed while clients may still wait")) {
		l.text.Write(line)
	}
	return len(line), nil
}

// String is all that was left, "" for nothing.
func (l *Leftovers) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// SeeReaders checks that INFO, CHECK and LIST see n readers r0, r1 ... of the lock job, r7 with that META.
func SeeReaders(t testing.TB, l *locks.Locker, by redlock.Caller, n int, meta string) {
	t.Helper()
	for _, token := range []string{"", "r7"} {
		l.Inspect(by, "job", token, func(s redlock.State, err error) []byte {
			if want := map[string]int{"": n, "r7": 1}[token]; err != nil || len(s.Holders) != want {
				t.Errorf("%q sees %d readers, want %d: %v", token, len(s.Holders), want, err)
			}
			if h := s.Held("r7"); h == nil || h.Meta != meta {
				t.Errorf("%q does not see r7", token)
			}
			return nil
		})
	}
	all, _, err := l.List(t.Context(), locks.Listing{Match: "job", Count: 2})
	if err != nil || len(all) != 1 || len(all[0].State.Holders) != n {
		t.Errorf("LIST sees %d locks: %v", len(all), err)
	}
}
