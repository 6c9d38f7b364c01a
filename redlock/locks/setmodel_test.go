package locks_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/locks"
)

// slow is an upstream to which requests are on the way for a while, each way.
type slow struct {
	*rig.Upstream
	deaf   map[string]bool // scripts that are answered 1, and do not run
	mu     sync.Mutex
	random rand.PCG
}

// travel is one way of a request.
func (s *slow) travel() {
	s.mu.Lock()
	d := rand.New(&s.random).Int64N(int64(2 * time.Millisecond))
	s.mu.Unlock()
	time.Sleep(time.Duration(d))
}

func (s *slow) Do(ctx context.Context, slot int, req []byte, resend bool) ([]byte, error) {
	script := rig.ScriptOf(req)
	s.travel()
	if s.deaf[script] {
		return []byte(":1\r\n"), nil
	}
	reply, err := s.Upstream.Do(ctx, slot, req, resend)
	reply = bytes.Clone(reply)
	s.travel()
	return reply, err
}

// ledger is what clients believe to hold.
type ledger struct {
	mu     sync.Mutex
	holds  map[string]holding // by name
	fences map[string]int64   // the highest so far
	wrong  []error
}

type holding struct {
	token string
	until time.Time
}

func (l *ledger) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, fmt.Errorf(format, args...))
}

// granted notes a grant.
func (l *ledger) granted(name, token string, fence int64, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.holds[name]; h.token != token && time.Now().Before(h.until) {
		l.wrong = append(l.wrong, fmt.Errorf("two holders of %s: %s and %s", name, h.token, token))
	}
	if fence <= l.fences[name] {
		l.wrong = append(l.wrong, fmt.Errorf("the fence of %s falls to %d", name, fence))
	}
	l.holds[name], l.fences[name] = holding{token, until}, fence
}

// right says that nothing has gone wrong yet.
func (l *ledger) right() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.wrong) == 0
}

// over notes that a client lets go.
func (l *ledger) over(names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		delete(l.holds, name)
	}
}

// simulate has clients of several proxies take sets of locks, and single ones, at random, until something
// goes wrong. mutate changes the LockSet of a client, and deaf scripts do not run. It returns what went
// wrong.
func simulate(t *testing.T, seed uint64, mutate func(client int, s *locks.LockSet), deaf ...string) error {
	random := rand.New(rand.NewPCG(seed, 0))
	server := rig.NewMini(t)
	defer server.Mini.Close()
	var all []*locks.Locker
	for range 2 + random.IntN(2) {
		up := &slow{Upstream: &rig.Upstream{S: server, Others: random.IntN(2)}, deaf: make(map[string]bool),
			random: *rand.NewPCG(seed, random.Uint64())}
		for _, script := range deaf {
			up.deaf[script] = true
		}
		l := locks.New(up, locks.Options{MaxWait: time.Hour})
		all = append(all, l)
		defer up.Close()
		defer l.Close(t.Context())
	}
	names := []string{"a", "b", "{g}a", "{g}b", "{g}c", "c"}
	l := &ledger{holds: make(map[string]holding), fences: make(map[string]int64)}
	var clients sync.WaitGroup
	for i := range 8 {
		c := &setClient{id: i, l: all[i%len(all)], seen: l, mutate: mutate,
			random: rand.New(rand.NewPCG(seed, uint64(i+1))), names: names}
		clients.Go(func() {
			for n := 0; n < 6 && l.right(); n++ {
				c.visit(t.Context())
			}
		})
	}
	clients.Wait()
	return errors.Join(l.wrong...)
}

// setClient is one client of simulate.
type setClient struct {
	id     int
	l      *locks.Locker
	seen   *ledger
	mutate func(client int, s *locks.LockSet)
	random *rand.Rand
	names  []string
}

// visit takes a set of locks once, and lets it go.
func (c *setClient) visit(ctx context.Context) {
	names := slices.Clone(c.names)
	c.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = names[:1+c.random.IntN(4)]
	a := redlock.Acquire{Lease: time.Duration(40+c.random.IntN(100)) * time.Millisecond,
		Keep: c.random.IntN(4) == 0}
	if c.random.IntN(3) > 0 {
		a.Wait = 10 * time.Second
	}
	set := locks.NewSet(func(string) *locks.Locker { return c.l }, names, a)
	if c.mutate != nil {
		c.mutate(c.id, set)
	}
	ok, _, err := set.Take(ctx)
	now := time.Now()
	left := set.Left(now)
	switch {
	case err != nil && !strings.HasPrefix(err.Error(), "TRYAGAIN "):
		c.seen.fail("%v", err)
	case err == nil && !ok:
		if a.Wait > 0 {
			c.seen.fail("a deadlock: %q were waited for in vain", names)
		}
		c.holdsNone(ctx, names, set.Token())
	case err != nil || left <= 0:
		set.Undo()
	default:
		for _, p := range set.Parts() {
			c.seen.granted(p.Name, set.Token(), p.Grant.Fence, now.Add(left))
		}
		c.letGo(ctx, set, names, left)
	}
	time.Sleep(time.Duration(c.random.IntN(20)) * time.Millisecond)
}

// letGo holds a set for a while.
func (c *setClient) letGo(ctx context.Context, set *locks.LockSet, names []string, left time.Duration) {
	time.Sleep(time.Duration(c.random.Int64N(int64(left / 2))))
	if c.random.IntN(5) == 0 { // it crashes
		return
	}
	c.seen.over(names)
	if err := set.Release(ctx); err != nil {
		c.seen.fail("%v", err)
	}
}

// holdsNone checks that a token holds nothing.
func (c *setClient) holdsNone(ctx context.Context, names []string, token string) {
	for _, name := range names {
		all, _, err := c.l.List(ctx, locks.Listing{Match: name, Count: 1})
		if err != nil {
			c.seen.fail("%v", err)
		}
		for _, one := range all {
			if one.State.Held(token) != nil {
				c.seen.fail("%s is held by %s, which was told that it holds nothing", name, token)
			}
		}
	}
}

var setSeeds = flag.Uint64("seeds", 6, "how many runs of the model of sets there are")

// Clients of several proxies take overlapping sets of locks: there are never two holders of one, never a
// deadlock, and a client holds all or nothing. R5 R9
func TestSetModel(t *testing.T) {
	for seed := range *setSeeds {
		synctest.Test(t, func(t *testing.T) {
			rig.InTheseYears()
			if err := simulate(t, seed, nil); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
	}
}

// Mutants are caught: proxies that do not share an order, and one that gives nothing back. The first
// seed shows nearly always what is wrong with them.
func TestSetModelCatches(t *testing.T) {
	for _, mutant := range []struct {
		want   string
		mutate func(client int, s *locks.LockSet)
		deaf   []string
	}{
		{want: "a deadlock", mutate: func(client int, s *locks.LockSet) {
			if client%2 == 0 {
				s.Reverse()
			}
		}},
		{want: "told that it holds nothing", deaf: []string{"cancel"}},
	} {
		for seed := range uint64(200) {
			var err error
			synctest.Test(t, func(t *testing.T) {
				rig.InTheseYears()
				err = simulate(t, seed, mutant.mutate, mutant.deaf...)
			})
			if err != nil && strings.Contains(err.Error(), mutant.want) {
				t.Logf("caught by seed %d: %.300v", seed, err)
				break
			}
			if seed == 199 {
				t.Errorf("not caught: %s", mutant.want)
			}
		}
	}
}
