package locks_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/locks"
)

// have sets how many replicas have everything.
func have(p *proxies.Proxy, n int) {
	p.Up.Set(func(u *rig.Upstream) { u.Replicas = func(int) int { return n } })
}

// lockSynced is lock with Confirm behind it, as LOCK ... SYNC does.
func lockSynced(p *proxies.Proxy, ctx context.Context,
	a redlock.Acquire) (q *redlock.Acquire, g redlock.Grant, took time.Duration, err error) {
	p.T.Helper()
	a.Name, a.Mode = "job", cmp.Or(a.Mode, redlock.Write)
	q = p.NewAcquire(a)
	g, ok, err := p.Client().Acquire(q)
	if !ok || err != nil {
		p.T.Fatalf("no grant to be confirmed: %v", err)
	}
	began := time.Now()
	g, err = p.Confirm(ctx, q, g)
	return q, g, time.Since(began), err
}

// A grant counts when the replicas have it, and reports what remains then. Asking changes
// nothing, whatever the lock looks like. R26
func TestConfirm(t *testing.T) {
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 1)[0]
		p.Up.Set(func(u *rig.Upstream) {
			u.Replicas = func(need int) int {
				time.Sleep(300 * time.Millisecond)
				return need + 1
			}
		})
		for _, a := range []redlock.Acquire{{Token: "a"}, {Token: "a", Mode: redlock.Read},
			{Token: "a", Keep: true, Meta: "why"}} {
			a.Sync = 2
			_, g, _, err := lockSynced(p, t.Context(), a)
			if err != nil || g.Token != "a" || g.Fence == 0 || g.Count != 1 {
				t.Fatalf("%+v, %v", g, err)
			}
			if g.TTL > 29700*time.Millisecond || s.Mini != nil && g.TTL < 25*time.Second {
				t.Errorf("%v remain of 30 s after 300 ms", g.TTL)
			}
			look := func() string { // in no order: a big hash has none
				var fields []string
				for _, field := range s.Ask("HGETALL", "lock:{job}").Elems {
					fields = append(fields, field.Text())
				}
				slices.Sort(fields)
				return s.Ask("GET", "lock:{job}").Text() + fmt.Sprint(fields)
			}
			before := look()
			again, err := p.Confirm(t.Context(), &redlock.Acquire{Name: "job", Token: "a", Sync: 1}, g)
			if err != nil || again.Fence != g.Fence {
				t.Errorf("%+v, %v", again, err)
			}
			if after := look(); after != before || !strings.Contains(after, fmt.Sprint(g.Fence)) {
				t.Errorf("it changed the lock: %s, before %s", after, before)
			}
			asked := p.Up.Asked()
			same, err := p.Confirm(t.Context(), &redlock.Acquire{Name: "job", Token: "a"}, g)
			if err != nil || same != g || p.Up.Asked() > asked {
				t.Errorf("without SYNC: %+v, %v", same, err)
			}
			if p.Unlock("a") != 1 {
				t.Error("it cannot be released")
			}
		}
		if n := p.Stats()[locks.NoReplicas]; n != 0 {
			t.Errorf("%d unsynced", n)
		}
	})
}

// Too few replicas have it: it is given back before anybody is told, and the next one
// gets it at once. R26
func TestTooFewReplicas(t *testing.T) {
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 1, locks.Options{Sync: 2, SyncTimeout: 400 * time.Millisecond})[0]
		have(p, 1)
		if p.Sync() != 2 {
			t.Errorf("the default is %d", p.Sync())
		}
		_, _, took, err := lockSynced(p, t.Context(), redlock.Acquire{Token: "a", Sync: p.Sync()})
		if err == nil || !strings.HasPrefix(err.Error(), "NOREPLICAS 1/2 ") {
			t.Error(err)
		}
		if s.Mini != nil && took != 400*time.Millisecond { // in fake time
			t.Errorf("after %v", took)
		}
		if r := p.Lock(t.Context(), redlock.Acquire{Token: "b"}); !r.OK {
			t.Errorf("the next one did not get it: %+v", r)
		}

		// A re-entry is taken back, the hold stays.
		_, _, _, err = lockSynced(p, t.Context(), redlock.Acquire{Token: "b", Reentrant: true, Sync: 2})
		if err == nil || p.State().Holders[0].Count != 1 {
			t.Errorf("%v; %+v", err, p.State())
		}

		// Who waits behind it gets it.
		p.Unlock("b")
		done, asked, queued := make(chan error), make(chan bool), make(chan bool)
		p.Up.Set(func(u *rig.Upstream) {
			u.Replicas = func(int) int { close(asked); <-queued; return 1 }
		})
		go func() {
			_, _, _, err := lockSynced(p, t.Context(), redlock.Acquire{Token: "c", Sync: 3})
			done <- err
		}()
		<-asked
		next := p.Begin(t.Context(), redlock.Acquire{Token: "d", Wait: minute})
		close(queued)
		if err := <-done; err == nil || !strings.HasPrefix(err.Error(), "NOREPLICAS 1/3 ") {
			t.Error(err)
		}
		proxies.Granted(t, next)
		p.Unlock("d")
		if n := p.Stats()[locks.NoReplicas]; n != 3 {
			t.Errorf("%d unsynced", n)
		}
		s.Empty(t)
	})
}

// Whatever else goes wrong: there is no grant, and nothing is left of it.
func TestUnconfirmed(t *testing.T) {
	broken := errors.New("no node")
	left := errors.New("the client has left")
	tests := map[string]struct {
		lease time.Duration
		fault func(u *rig.Upstream, s *rig.Server, cancel func(error))
		word  string
		err   error
		holds string // who holds it in the end
	}{
		"it is gone": {fault: func(u *rig.Upstream, s *rig.Server, _ func(error)) {
			u.Replicas = nil
			u.Faults = once("renew", func() { s.Mini.Del("lock:{job}") }, nil)
		}, word: "TRYAGAIN"},
		"somebody else has it": {fault: func(u *rig.Upstream, s *rig.Server, _ func(error)) {
			u.Faults = once("renew", func() {
				s.Mini.Del("lock:{job}")
				other := locks.New(u, locks.Options{})
				a := other.NewAcquire(redlock.Acquire{Name: "job", Token: "other", Mode: redlock.Write})
				c := s.Connect()
				defer c.Close()
				c.Do(rig.NotedAcquire(other, a).Req)
			}, nil)
		}, word: "TRYAGAIN", holds: "other"},
		"nobody can be asked": {fault: func(u *rig.Upstream, _ *rig.Server, _ func(error)) {
			u.Faults = once("renew", func() {}, broken)
		}, err: broken},
		"the lease is over first": {lease: 500 * time.Millisecond,
			fault: func(u *rig.Upstream, _ *rig.Server, _ func(error)) {
				u.Replicas = func(int) int { return 0 }
			}, word: "TRYAGAIN"},
		"the lease is over just then": {lease: 500 * time.Millisecond,
			fault: func(u *rig.Upstream, _ *rig.Server, _ func(error)) {
				u.Replicas = func(need int) int { time.Sleep(500 * time.Millisecond); return need }
			}, word: "TRYAGAIN"},
		"the client leaves": {fault: func(u *rig.Upstream, _ *rig.Server, cancel func(error)) {
			u.Replicas = func(int) int { cancel(left); return 0 }
		}, err: left},
		"it cannot be given back at once": {fault: func(u *rig.Upstream, _ *rig.Server, _ func(error)) {
			u.Replicas = func(int) int { return 0 }
			u.Faults = once("cancel", func() {}, broken)
		}, word: "NOREPLICAS"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
				p := proxies.Start(t, s, 1)[0]
				have(p, 1)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				p.Up.Set(func(u *rig.Upstream) { test.fault(u, s, cancel) })
				_, g, _, err := lockSynced(p, ctx, redlock.Acquire{Token: "a", Lease: test.lease, Sync: 1})
				if err == nil || g != (redlock.Grant{}) ||
					!errors.Is(err, test.err) && !strings.HasPrefix(err.Error(), test.word+" ") {
					t.Errorf("%+v, %v", g, err)
				}
				if test.err != nil && !errors.Is(err, test.err) {
					t.Error(err)
				}
				if test.holds != "" {
					time.Sleep(time.Second)
					if st := p.State(); len(st.Holders) != 1 ||
						st.Holders[0].Owner != redlock.OwnerOf(test.holds) {
						t.Errorf("%+v", st)
					}
					return
				}
				if test.lease == 0 {
					time.Sleep(2 * time.Second) // far below the lease
				}
				s.Empty(t)
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
