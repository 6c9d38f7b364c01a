package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// have sets how many replicas have everything.
func (p *proxy) have(n int) {
	p.up.set(func(u *upstream) { u.replicas = func(int) int { return n } })
}

// lockSynced is lock with Confirm behind it, as LOCK ... SYNC does.
func (p *proxy) lockSynced(ctx context.Context, a Acquire) (q *Acquire, g Grant, took time.Duration, err error) {
	p.t.Helper()
	a.Name, a.Mode = "job", cmp.Or(a.Mode, Write)
	q = p.NewAcquire(a)
	g, ok, err := p.client().acquire(q)
	if !ok || err != nil {
		p.t.Fatalf("no grant to be confirmed: %v", err)
	}
	began := time.Now()
	g, err = p.Confirm(ctx, q, g)
	return q, g, time.Since(began), err
}

// A grant counts when the replicas have it, and reports what remains then. Asking changes
// nothing, whatever the lock looks like. R26
func TestConfirm(t *testing.T) {
	everywhere(t, func(t *testing.T, s *server) {
		p := s.proxies(t, 1)[0]
		p.up.set(func(u *upstream) {
			u.replicas = func(need int) int {
				time.Sleep(300 * time.Millisecond)
				return need + 1
			}
		})
		for _, a := range []Acquire{{Token: "a"}, {Token: "a", Mode: Read}, {Token: "a", Keep: true, Meta: "why"}} {
			a.Sync = 2
			_, g, _, err := p.lockSynced(t.Context(), a)
			if err != nil || g.Token != "a" || g.Fence == 0 || g.Count != 1 {
				t.Fatalf("%+v, %v", g, err)
			}
			if g.TTL > 29700*time.Millisecond || g.TTL < 25*time.Second {
				t.Errorf("%v remain of 30 s after 300 ms", g.TTL)
			}
			look := func() string { return text(s.ask("GET", "lock:{job}")) + text(s.ask("HGETALL", "lock:{job}")) }
			before := look()
			if again, err := p.Confirm(t.Context(), &Acquire{Name: "job", Token: "a", Sync: 1}, g); err != nil || again.Fence != g.Fence {
				t.Errorf("%+v, %v", again, err)
			}
			if after := look(); after != before || !strings.Contains(after, fmt.Sprint(g.Fence)) {
				t.Errorf("it changed the lock: %s, before %s", after, before)
			}
			asked := p.up.asked()
			if same, err := p.Confirm(t.Context(), &Acquire{Name: "job", Token: "a"}, g); err != nil || same != g || p.up.asked() > asked {
				t.Errorf("without SYNC: %+v, %v", same, err)
			}
			if p.unlock("a") != 1 {
				t.Error("it cannot be released")
			}
		}
		if n := p.Stats().Unsynced; n != 0 {
			t.Errorf("%d unsynced", n)
		}
	})
}

// Too few replicas have it: it is given back before anybody is told, and the next one
// gets it at once. R26
func TestTooFewReplicas(t *testing.T) {
	everywhere(t, func(t *testing.T, s *server) {
		p := s.proxies(t, 1, Options{Sync: 2, SyncTimeout: 400 * time.Millisecond})[0]
		p.have(1)
		if p.Sync() != 2 {
			t.Errorf("the default is %d", p.Sync())
		}
		_, _, took, err := p.lockSynced(t.Context(), Acquire{Token: "a", Sync: p.Sync()})
		if err == nil || !strings.HasPrefix(err.Error(), "NOREPLICAS 1/2 ") || took < 400*time.Millisecond || took > 5*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		if r := p.lock(t.Context(), Acquire{Token: "b"}); !r.ok {
			t.Errorf("the next one did not get it: %+v", r)
		}

		// A re-entry is taken back, the hold stays.
		_, _, _, err = p.lockSynced(t.Context(), Acquire{Token: "b", Reentrant: true, Sync: 2})
		if err == nil || p.state().Holders[0].Count != 1 {
			t.Errorf("%v; %+v", err, p.state())
		}

		// Who waits behind it gets it.
		p.unlock("b")
		done := make(chan error)
		go func() {
			_, _, _, err := p.lockSynced(t.Context(), Acquire{Token: "c", Sync: 3})
			done <- err
		}()
		for p.state().Name() == "free" {
			time.Sleep(time.Millisecond)
		}
		next := p.begin(t.Context(), Acquire{Token: "d", Wait: minute})
		if err := <-done; err == nil || !strings.HasPrefix(err.Error(), "NOREPLICAS 1/3 ") {
			t.Error(err)
		}
		granted(t, next)
		p.unlock("d")
		if n := p.Stats().Unsynced; n != 3 {
			t.Errorf("%d unsynced", n)
		}
		s.empty(t)
	})
}

// Whatever else goes wrong: there is no grant, and nothing is left of it.
func TestUnconfirmed(t *testing.T) {
	broken := errors.New("no node")
	left := errors.New("the client has left")
	tests := map[string]struct {
		lease time.Duration
		fault func(u *upstream, s *server, cancel func(error))
		word  string
		err   error
		holds string // who holds it in the end
	}{
		"it is gone": {fault: func(u *upstream, s *server, _ func(error)) {
			u.replicas = nil
			u.faults = once("confirm", func() { s.mini.Del("lock:{job}") }, nil)
		}, word: "TRYAGAIN"},
		"somebody else has it": {fault: func(u *upstream, s *server, _ func(error)) {
			u.faults = once("confirm", func() {
				s.mini.Del("lock:{job}")
				other := New(u, Options{})
				a := other.NewAcquire(Acquire{Name: "job", Token: "other", Mode: Write})
				c := s.connect()
				defer c.Close()
				c.do(notedAcquire(other, a).req)
			}, nil)
		}, word: "TRYAGAIN", holds: "other"},
		"nobody can be asked": {fault: func(u *upstream, _ *server, _ func(error)) {
			u.faults = once("confirm", func() {}, broken)
		}, err: broken},
		"the lease is over first": {lease: 500 * time.Millisecond, fault: func(u *upstream, _ *server, _ func(error)) {
			u.replicas = func(int) int { return 0 }
		}, word: "TRYAGAIN"},
		"the lease is over just then": {lease: 500 * time.Millisecond, fault: func(u *upstream, _ *server, _ func(error)) {
			u.replicas = func(need int) int { time.Sleep(500 * time.Millisecond); return need }
		}, word: "TRYAGAIN"},
		"the client leaves": {fault: func(u *upstream, _ *server, cancel func(error)) {
			u.replicas = func(int) int { cancel(left); return 0 }
		}, err: left},
		"it cannot be given back at once": {fault: func(u *upstream, _ *server, _ func(error)) {
			u.replicas = func(int) int { return 0 }
			u.faults = once("cancel", func() {}, broken)
		}, word: "NOREPLICAS"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(t *testing.T, s *server) {
				p := s.proxies(t, 1)[0]
				p.have(1)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				p.up.set(func(u *upstream) { test.fault(u, s, cancel) })
				_, g, _, err := p.lockSynced(ctx, Acquire{Token: "a", Lease: test.lease, Sync: 1})
				if err == nil || g != (Grant{}) || !errors.Is(err, test.err) && !strings.HasPrefix(err.Error(), test.word+" ") {
					t.Errorf("%+v, %v", g, err)
				}
				if test.err != nil && !errors.Is(err, test.err) {
					t.Error(err)
				}
				if test.holds != "" {
					time.Sleep(time.Second)
					if st := p.state(); len(st.Holders) != 1 || st.Holders[0].Owner != OwnerOf(test.holds) {
						t.Errorf("%+v", st)
					}
					return
				}
				if test.lease == 0 {
					time.Sleep(2 * time.Second) // far below the lease
				}
				s.empty(t)
			})
		})
	}
}

// once makes a fault for the next run of a script.
func once(script string, happen func(), err error) func(string) (error, error) {
	return func(req string) (before, after error) {
		if req != script || happen == nil {
			return nil, nil
		}
		happen()
		happen = nil
		return err, nil
	}
}
