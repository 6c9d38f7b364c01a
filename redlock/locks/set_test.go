package locks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/locks"
)

// setOf makes a set of locks of p.
func setOf(p *proxies.Proxy, a redlock.Acquire, names ...string) *locks.LockSet {
	return locks.NewSet(func(string) *locks.Locker { return p.Locker }, names, a)
}

// take takes them, and fails unless they are granted.
func take(t *testing.T, s *locks.LockSet) {
	t.Helper()
	if ok, held, err := s.Take(t.Context()); !ok || err != nil {
		t.Fatalf("not granted: %+v %v", held, err)
	}
}

// refused takes them, and fails unless others hold the lock of that name.
func refused(t *testing.T, s *locks.LockSet, name string) {
	t.Helper()
	if ok, held, err := s.Take(t.Context()); ok || err != nil || held.Name != name {
		t.Fatalf("%v %+v %v", ok, held, err)
	}
}

// holds says that a token holds a lock, with what lease.
func holds(t *testing.T, p *proxies.Proxy, name, token string) time.Duration {
	t.Helper()
	s, err := p.Client().State(name)
	if err != nil {
		t.Fatal(err)
	}
	if h := s.Held(token); h != nil {
		return h.TTL
	}
	return 0
}

// Locks of one slot are taken in one step, and when others hold one of them, that is all that is asked.
func TestSetOfOneSlot(t *testing.T) {
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 1)[0]
		before := p.Up.Asked()
		first := setOf(p, redlock.Acquire{Token: "t"}, "{g}a", "{g}b", "{g}c", "{g}a")
		take(t, first)
		if n := p.Up.Asked() - before; n != 1 {
			t.Errorf("%d requests", n)
		}
		fences := map[int64]bool{}
		for _, part := range first.Given() {
			fences[part.Grant.Fence] = true
			if left := holds(t, p, part.Name, "t"); left < 20*time.Second {
				t.Errorf("%s is held for %v", part.Name, left)
			}
		}
		if len(fences) != 3 || len(first.Given()) != 4 || len(first.Parts()) != 3 {
			t.Errorf("fences %v of %d locks", fences, len(first.Given()))
		}
		for _, keep := range []bool{false, true} {
			before = p.Up.Asked()
			refused(t, setOf(p, redlock.Acquire{Keep: keep}, "{g}z", "{g}b"), "{g}b")
			if n := p.Up.Asked() - before; n != 1 {
				t.Errorf("%d requests to be refused", n)
			}
			if err := first.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			take(t, setOf(p, redlock.Acquire{Token: "u", Keep: true, Meta: "m"}, "{g}b", "{g}d"))
			first = setOf(p, redlock.Acquire{Token: "u"}, "{g}b", "{g}d")
		}
		first.Release(t.Context())
		s.Empty(t)
	})
}

// The only master has all locks, so they are taken in one step, whatever their slots.
func TestSetOfOneMaster(t *testing.T) {
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 1)[0]
		warm := setOf(p, redlock.Acquire{Token: "t"}, "a", "b") // loads the scripts
		p.Up.Others = 1
		take(t, warm)
		if err := warm.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Those that are taken one by one are asked for once more if they end 10 ms before the last.
		for others, want := range map[int]struct{ least, most int }{0: {1, 1}, 2: {3, 5}} {
			p.Up.Others = others
			before := p.Up.Asked()
			set := setOf(p, redlock.Acquire{Token: "t"}, "a", "b", "c")
			take(t, set)
			if n := p.Up.Asked() - before; n < want.least || n > want.most {
				t.Errorf("%d requests beside %d masters, want %v", n, others, want)
			}
			before = p.Up.Asked()
			refused(t, setOf(p, redlock.Acquire{}, "b", "c"), "b")
			if n := p.Up.Asked() - before; n != 1 {
				t.Errorf("%d requests to be refused", n)
			}
			if err := set.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		s.Empty(t)
	})
}

// The same token again gets the same fences, and an attempt in vain leaves what the token held before.
func TestSetAgain(t *testing.T) {
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2)
		for i, names := range [][]string{{"{g}a", "{g}b"}, {"a", "b"}} {
			token := fmt.Sprint("t", i)
			first := setOf(p[0], redlock.Acquire{Token: token}, names...)
			again := setOf(p[1], redlock.Acquire{Token: token}, names...)
			take(t, first)
			take(t, again)
			for i, part := range first.Given() {
				if g := again.Given()[i].Grant; g.Fence != part.Grant.Fence || g.Count != 1 {
					t.Errorf("%+v, then %+v", part.Grant, g)
				}
			}
			other := setOf(p[0], redlock.Acquire{Token: "other"}, names[1])
			if err := setOf(p[0], redlock.Acquire{Token: token}, names[1]).Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			take(t, other)
			for _, keep := range []bool{false, true} {
				refused(t, setOf(p[1], redlock.Acquire{Token: token, Keep: keep}, names...), names[1])
				if holds(t, p[0], names[0], token) == 0 {
					t.Errorf("%s was given back, though it was held before", names[0])
				}
			}
			if err := errors.Join(other.Release(t.Context()), first.Release(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		s.Empty(t)
	})
}

// While a set waits for one lock the leases of the others go on, and at the end all are equal. What is
// reported holds for each of them.
func TestSetKeepsUp(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2)
		names := []string{"a", "b", "c", "{c}d"}
		for i, last := range names {
			holder := setOf(p[0], redlock.Acquire{Token: "holder", Lease: time.Minute}, last)
			take(t, holder)
			began := time.Now()
			time.AfterFunc(7*time.Second, func() { holder.Release(context.Background()) })
			set := setOf(p[1], redlock.Acquire{Lease: time.Second, Wait: minute, Keep: i%2 == 0}, names...)
			take(t, set)
			if took := time.Since(began); took < 7*time.Second || took > 7*time.Second+100*time.Millisecond {
				t.Errorf("it took %v", took)
			}
			left := set.Left(time.Now())
			if left < 900*time.Millisecond {
				t.Errorf("only %v are left", left)
			}
			var ttls []time.Duration
			for _, name := range names {
				ttls = append(ttls, holds(t, p[0], name, set.Token()))
			}
			for _, ttl := range ttls {
				if ttl < left || (ttl-ttls[0]).Abs() > 10*time.Millisecond {
					t.Errorf("leases %v, %v was reported", ttls, left)
				}
			}
			if err := set.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		s.Empty(t)
	})
}

// One WAIT is for all locks together, and in vain it leaves nothing.
func TestSetWaitsInVain(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2)
		names := []string{"a", "b"}
		for i := range names { // the first is freed after 3 s
			holders := []*locks.LockSet{setOf(p[0], redlock.Acquire{}, names[i]),
				setOf(p[0], redlock.Acquire{}, names[1-i])}
			take(t, holders[0])
			take(t, holders[1])
			began := time.Now()
			time.AfterFunc(3*time.Second, func() { holders[0].Release(context.Background()) })
			set := setOf(p[1], redlock.Acquire{Lease: time.Second, Wait: 5 * time.Second}, names...)
			refused(t, set, names[1-i])
			if took := time.Since(began); took != 5*time.Second {
				t.Errorf("it waited %v", took)
			}
			if holds(t, p[0], names[i], set.Token()) > 0 {
				t.Error("a lock was not given back")
			}
			holders[1].Release(t.Context())
		}
		s.Empty(t)
	})
}

// A set stands in the queue of each lock like any other client, and gives way to nobody behind it.
func TestSetInQueues(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2)
		proxies.Granted(t, p[0].Begin(t.Context(), redlock.Acquire{Token: "holder"}))
		set, done := setOf(p[1], redlock.Acquire{Wait: minute}, "job", "other"), make(chan error, 1)
		go func() {
			ok, _, err := set.Take(t.Context())
			if !ok && err == nil {
				err = errors.New("refused")
			}
			done <- err
		}()
		time.Sleep(time.Second)
		behind := p[0].Begin(t.Context(), redlock.Acquire{Token: "behind", Wait: minute})
		p[0].Unlock("holder")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		proxies.Waiting(t, behind)
		set.Release(t.Context())
		proxies.Granted(t, behind)
		p[0].Unlock("behind")
		s.Empty(t)
	})
}

// What a set has taken is given back when its client goes away, or its proxy shuts down, and when a lock is
// taken away from it: before anybody is told, though Redis takes its time. R10
func TestSetInTrouble(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(p *proxies.Proxy, cancel func())
		want string
	}{
		{"the client goes", func(_ *proxies.Proxy, cancel func()) { cancel() }, "canceled"},
		{"a break", func(p *proxies.Proxy, _ func()) {
			p.Client().Breaks("b") // in a slot before that of a
			p.Lock(context.Background(), redlock.Acquire{Name: "b", Token: "thief"})
			time.Sleep(2 * time.Second)
			p.Client().Release(&redlock.Release{Name: "b", Token: "thief"})
		}, "TRYAGAIN one of the locks was taken away"},
	} {
		rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
			p := proxies.Start(t, s, 1)
			holder := setOf(p[0], redlock.Acquire{Token: "holder"}, "a")
			take(t, holder)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(1200*time.Millisecond, func() { test.do(p[0], cancel) })
			up := &slow{Upstream: &rig.Upstream{S: s}}
			defer up.Close()
			l := locks.New(up, locks.Options{})
			defer l.Close(context.Background())
			set := locks.NewSet(func(string) *locks.Locker { return l }, []string{"b", "a"},
				redlock.Acquire{Token: "t", Lease: 3 * time.Second, Wait: minute})
			ok, _, err := set.Take(ctx)
			if ok || err == nil || !strings.Contains(err.Error(), test.want) ||
				errors.Is(err, redlock.ErrMayHold) {
				t.Errorf("%s: %v %v", test.name, ok, err)
			}
			if holds(t, p[0], "b", "t") > 0 {
				t.Errorf("%s: %v, and it is held still", test.name, err)
			}
			holder.Release(t.Context())
			s.Empty(t)
		})
	}
}

// The reply to a request is lost: the client gets an error that says that it may hold locks, and whatever was
// taken is given back. R10 R33
func TestSetOfUnknownOutcome(t *testing.T) {
	for _, lost := range []string{"mlock", "acquire"} {
		for _, names := range [][]string{{"{g}a", "{g}b"}, {"a", "b"}} {
			rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
				p := proxies.Start(t, s, 1)[0]
				n := 0
				p.Up.Set(func(u *rig.Upstream) {
					u.Faults = func(script string) (before, after error) {
						if script == lost {
							if n++; n == 1 && lost == "mlock" || n == 2 {
								return nil, errors.New("the reply was lost")
							}
						}
						return nil, nil
					}
				})
				ok, _, err := setOf(p, redlock.Acquire{Token: "t"}, names...).Take(t.Context())
				if asked := n > 0; ok != (err == nil) || asked && !errors.Is(err, redlock.ErrMayHold) {
					t.Errorf("%s: %v %v", lost, ok, err)
				}
				if err == nil {
					return
				}
				time.Sleep(time.Second)
				s.Empty(t)
			})
		}
	}
}

// A request that ran and is sent again finds what it has taken.
func TestSetSentAgain(t *testing.T) {
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 1)[0]
		for _, keep := range []bool{false, true} {
			set := setOf(p, redlock.Acquire{Token: "t", Keep: keep}, "{g}a", "{g}b")
			take(t, set)
			fences := []int64{set.Parts()[0].Grant.Fence, set.Parts()[1].Grant.Fence}
			take(t, set)
			for i, part := range set.Parts() {
				if part.Grant.Fence != fences[i] || part.Grant.Count != 1 {
					t.Errorf("fence %d, then %+v", fences[i], part.Grant)
				}
			}
			if err := set.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.Empty(t)
		}
	})
}

// After an error nothing is held any more when the client hears of it, though Redis takes its time: too few
// replicas have one of the locks, its master is new, or Redis is full. R10 R26
func TestSetInVain(t *testing.T) {
	for _, test := range []struct {
		name   string
		refuse string // what the acquire of the second lock is answered
		o      locks.Options
		want   string
	}{
		{"no replicas", "", locks.Options{Sync: 1, SyncTimeout: 10 * time.Millisecond}, "NOREPLICAS "},
		{"a grace", "-TRYAGAIN the master has changed: no new grants\r\n", locks.Options{}, "TRYAGAIN "},
		{"full", "-OOM command not allowed when used memory > 'maxmemory'.\r\n", locks.Options{}, "OOM "},
		{"too many wait", "-QUEUEFULL\r\n", locks.Options{}, "QUEUEFULL"},
	} {
		for _, keep := range []bool{false, true} {
			for _, names := range [][]string{{"a", "b"}, {"{b}c", "{b}d", "a"}} {
				rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
					up := &refusing{slow: &slow{Upstream: &rig.Upstream{S: s, Others: 2}},
						refusal: test.refuse}
					up.Replicas = func(n int) int { return n }
					defer up.Close()
					l := locks.New(up, test.o)
					defer l.Close(context.Background())
					set := locks.NewSet(func(string) *locks.Locker { return l }, names,
						redlock.Acquire{Token: "t", Keep: keep})
					ok, _, err := set.Take(t.Context())
					if ok || err == nil || !strings.HasPrefix(err.Error(), test.want) {
						t.Errorf("%s: %v %v", test.name, ok, err)
					}
					if keys := s.Keys(); len(keys) > 0 {
						t.Errorf("%s, %v: %v is held still", test.name, names, keys)
					}
				})
			}
		}
	}
}

// refusing is an upstream that answers each request for the lock a with refusal, if that is not "".
type refusing struct {
	*slow
	refusal string
}

func (r *refusing) DoWhole(ctx context.Context, slot int, req []byte, resend bool) ([]byte, error) {
	return r.Do(ctx, slot, req, resend)
}

func (r *refusing) Do(ctx context.Context, slot int, req []byte, resend bool) ([]byte, error) {
	if r.refusal != "" && rig.ScriptOf(req) == "acquire" && bytes.Contains(req, []byte("lock:{a}\r\n")) {
		return []byte(r.refusal), nil
	}
	return r.slow.Do(ctx, slot, req, resend)
}

// Synced has no replicas of the lock a.
func (r *refusing) Synced(ctx context.Context, slot int, req []byte, replicas int, timeout time.Duration) (
	reply []byte, acked int, err error,
) {
	reply, acked, err = r.slow.Synced(ctx, slot, req, replicas, timeout)
	if bytes.Contains(req, []byte("lock:{a}\r\n")) {
		time.Sleep(timeout)
		acked = 0
	}
	return reply, acked, err
}
