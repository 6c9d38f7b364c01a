package quorum_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/keepalive"
	"lockproxy/redlock/locks"
)

// schedule is what clients of the lock do, when, and what happens to the masters meanwhile.
type schedule struct {
	Seed    uint64
	Ahead   []int // ms, by master: clocks differ
	Lossy   int   // requests of 100 that something happens to
	Clients []client
	Events  []event
}

type client struct {
	Proxy  int
	Visits []visit
}

// visit is one LOCK and what follows.
type visit struct {
	Gap, Hold   int // ms before, and that it is held
	Lease, Wait int // ms
	Read        bool
	Keep        bool
	Again       bool // the same token again while it holds
	Renew       bool
	Up          bool // a reader becomes the writer
	Leave       bool // without UNLOCK
	Tries       bool // TRIES instead of WAIT
	Break       bool // BREAK instead of either
	Re          bool // REENTRANT, also when it is again
	Fresh       bool // the token is made for it, so that it may go behind others unasked
	Quit        int  // ms after which the client goes away, if it waits still; 0: it does not
}

type event struct {
	Gap, Master, Proxy int
	Kind               string
	Step               int // ms
}

var schedules = rapid.Custom(func(t *rapid.T) schedule {
	v := schedule{
		Seed: rapid.Uint64().Draw(t, "seed"), Lossy: rapid.SampledFrom([]int{0, 5, 15, 30}).Draw(t, "lossy"),
	}
	for range 5 {
		v.Ahead = append(v.Ahead, rapid.IntRange(-300, 300).Draw(t, "ahead"))
	}
	for range rapid.IntRange(2, 4).Draw(t, "clients") {
		c := client{Proxy: rapid.IntRange(0, 1).Draw(t, "proxy")}
		for range rapid.IntRange(1, 3).Draw(t, "visits") {
			c.Visits = append(c.Visits, visit{
				Gap:   rapid.IntRange(0, 40).Draw(t, "gap"),
				Hold:  rapid.SampledFrom([]int{0, 5, 50, 300, 1500}).Draw(t, "hold"),
				Lease: rapid.IntRange(400, longestLease).Draw(t, "lease"),
				Wait:  rapid.SampledFrom([]int{0, 50, 1000, 3000}).Draw(t, "wait"),
				Read:  rapid.IntRange(0, 2).Draw(t, "read") == 0,
				Keep:  rapid.IntRange(0, 3).Draw(t, "keep") == 0,
				Again: rapid.IntRange(0, 3).Draw(t, "again") == 0,
				Renew: rapid.IntRange(0, 3).Draw(t, "renew") == 0,
				Up:    rapid.IntRange(0, 2).Draw(t, "up") == 0,
				Re:    rapid.IntRange(0, 2).Draw(t, "re") == 0,
				Leave: rapid.IntRange(0, 5).Draw(t, "leave") == 0,
				Tries: rapid.IntRange(0, 5).Draw(t, "tries") == 0,
				Break: rapid.IntRange(0, 5).Draw(t, "break") == 0,
				Fresh: rapid.Bool().Draw(t, "fresh"),
				Quit:  rapid.SampledFrom([]int{0, 0, 0, 0, 3, 30, 300}).Draw(t, "quit"),
			})
		}
		v.Clients = append(v.Clients, c)
	}
	for range rapid.IntRange(0, 10).Draw(t, "faults") {
		v.Events = append(v.Events, event{
			Gap:    rapid.SampledFrom([]int{0, 20, 100, 500}).Draw(t, "gap"),
			Master: rapid.IntRange(0, 4).Draw(t, "master"),
			Proxy:  rapid.IntRange(0, 1).Draw(t, "proxy"),
			Kind: rapid.SampledFrom([]string{"restart", "restart", "restart", "crash", "up", "step", "cut",
				"stepUnseen", "stepUnseen"}).Draw(t, "kind"),
			Step: rapid.IntRange(-300, 300).Draw(t, "step"),
		})
	}
	return v
})

const longestLease = 1200 // ms

// held is one grant as its client may rely on it.
type held struct {
	token      string
	mode       redlock.Mode
	fence      int64
	asked      time.Time // for the token, the first time
	got, until time.Time
}

func (h *held) String() string {
	born := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	return fmt.Sprintf("%s (%s, fence %d, asked at %v, got at %v, until %v)", h.token, h.mode, h.fence,
		h.asked.Sub(born), h.got.Sub(born), h.until.Sub(born))
}

// breaking is one LOCK with BREAK, granted or not.
type breaking struct {
	token       string
	fence       int64     // of its grant; 0: it has none
	asked, done time.Time // done: the zero time as long as it goes on
}

// late is how long after its answer a request may still reach a master.
const late = 100 * time.Millisecond

// mayEnd says that it may have ended h: it was under way while h went on, and has no lower fence.
func (b *breaking) mayEnd(h *held) bool {
	return b.token != h.token && b.asked.Before(h.until) && (b.fence == 0 || b.fence > h.fence) &&
		(b.done.IsZero() || h.got.Before(b.done.Add(late)))
}

// history is what the clients saw.
type history struct {
	mu     sync.Mutex
	all    []*held
	breaks []*breaking
	errs   []error
}

// breaking notes a LOCK with BREAK, until it is told what became of it.
func (b *history) breaking(asked time.Time) (done func(token string, fence int64)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := &breaking{asked: asked}
	b.breaks = append(b.breaks, one)
	return func(token string, fence int64) {
		b.mu.Lock()
		defer b.mu.Unlock()
		one.token, one.fence, one.done = token, fence, time.Now()
	}
}

// lasts says that h goes on, as far as its lease and others who break the lock tell.
func (b *history) lasts(h *held) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Before(h.until) &&
		!slices.ContainsFunc(b.breaks, func(one *breaking) bool { return one.mayEnd(h) })
}

func (b *history) wrong(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errs = append(b.errs, fmt.Errorf(format, args...))
}

// judge says what is wrong with what the clients saw.
func (b *history) judge() error {
	err := errors.Join(b.errs...)
	for _, one := range b.breaks {
		for _, h := range b.all {
			if one.mayEnd(h) {
				h.until = one.asked // maybe before its client was told of the grant
			}
		}
	}
	slices.SortFunc(b.all, func(x, y *held) int { return cmp.Compare(x.fence, y.fence) })
	for i, g := range b.all {
		for _, h := range b.all[i+1:] {
			if g.token == h.token {
				continue
			}
			if (g.mode == redlock.Write || h.mode == redlock.Write) && g.got.Before(h.until) &&
				h.got.Before(g.until) {
				err = errors.Join(err, fmt.Errorf("two holders: %v and %v", g, h))
			}
			if g.fence == h.fence {
				err = errors.Join(err, fmt.Errorf("the fence %d twice: %v and %v", g.fence, g, h))
			}
			if h.got.Before(g.asked) {
				err = errors.Join(err,
					fmt.Errorf("the fence falls: %v was granted before %v was asked for", h, g))
			}
		}
	}
	return err
}

// simulate runs a schedule and returns what is wrong. alter changes the network before, for mutants.
func simulate(t testing.TB, v schedule, alter func(s *network)) error {
	longest := time.Duration(longestLease)*time.Millisecond*3/2 + 200*time.Millisecond
	s := newNetwork(t, 5, 2, longest)
	random := rand.New(rand.NewPCG(v.Seed, 1))
	var mu sync.Mutex
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	fair := false
	for i, n := range s.masters {
		n.ahead = time.Duration(v.Ahead[i]) * time.Millisecond
	}
	for _, links := range s.links {
		for _, l := range links {
			l.delay = func() time.Duration {
				mu.Lock()
				calm := fair
				mu.Unlock()
				if !calm && draw(100) < v.Lossy/3 {
					return time.Duration(draw(40_000)) * time.Microsecond
				}
				return time.Duration(100+draw(1500)) * time.Microsecond
			}
			l.fault = func(string) fault {
				mu.Lock()
				calm := fair
				mu.Unlock()
				if calm || draw(100) >= v.Lossy {
					return none
				}
				return fault(1 + draw(3))
			}
		}
	}
	if alter != nil {
		alter(s)
	}
	seen := &history{}
	var all sync.WaitGroup
	for i, c := range v.Clients {
		all.Go(func() { c.run(s, i, seen) })
	}
	all.Go(func() {
		for _, w := range v.Events {
			time.Sleep(time.Duration(w.Gap) * time.Millisecond)
			n := s.masters[w.Master]
			switch w.Kind {
			case "crash", "restart":
				n.crash()
				if w.Kind == "restart" {
					n.up()
				}
				for _, links := range s.links {
					links[w.Master].cut()
				}
			case "up":
				n.up()
			case "step":
				n.step(time.Duration(w.Step) * time.Millisecond)
			case "stepUnseen":
				n.stepUnseen(time.Duration(10*w.Step) * time.Millisecond)
				time.AfterFunc(time.Second, func() {
					for _, links := range s.links {
						links[w.Master].look()
					}
				})
			case "cut":
				s.links[w.Proxy][w.Master].cut()
			}
		}
	})
	all.Wait()
	mu.Lock()
	fair = true
	mu.Unlock()
	for _, n := range s.masters {
		n.up()
	}
	for _, links := range s.links { // as proxies do each second: a step that is found later costs votes later
		for _, l := range links {
			l.look()
		}
	}
	// When all leases are over everything is free, and can be had.
	time.Sleep(longest + 2*time.Second)
	if err := s.free(); err != nil {
		seen.wrong("in the end: %w", err)
	}
	for i, l := range s.proxies {
		r := lockAt(context.Background(), l, redlock.Acquire{
			Token: fmt.Sprint("last", i), Lease: 2 * time.Second, Wait: 2 * time.Second,
		})
		if !r.OK {
			seen.wrong("proxy %d cannot have the lock in the end: %v", i, r.Err)
		}
		if n, err := unlockAt(l, fmt.Sprint("last", i), 0); n != 1 {
			seen.wrong("proxy %d cannot release in the end: %v %v", i, n, err)
		}
	}
	if err := s.end(); err != nil {
		seen.wrong("%w", err)
	}
	return seen.judge()
}

func (c client) run(s *network, who int, seen *history) {
	l := s.proxies[c.Proxy]
	for i, u := range c.Visits {
		time.Sleep(time.Duration(u.Gap) * time.Millisecond)
		a := redlock.Acquire{
			Name: "job", Token: fmt.Sprintf("c%d.%d", who, i), Mode: redlock.Write,
			Lease: time.Duration(u.Lease) * time.Millisecond, Wait: time.Duration(u.Wait) * time.Millisecond,
			Reentrant: u.Re,
		}
		if u.Read {
			a.Mode = redlock.Read
		}
		if u.Fresh && !u.Tries {
			a.Token = ""
		}
		broke, most := func(string, int64) {}, a.Wait+4*testNodeTimeout
		if u.Break {
			a.Break, a.Wait, u.Tries = true, 0, false
			broke, most = seen.breaking(time.Now()), time.Second
		}
		ctx, cancel := context.WithCancel(context.Background())
		if u.Quit > 0 {
			time.AfterFunc(time.Duration(u.Quit)*time.Millisecond, cancel)
		}
		began := time.Now()
		var r proxies.Result
		if u.Tries {
			a.Wait = 0
			q := l.NewAcquire(a)
			r.Grant, r.OK, r.Err = l.Try(ctx, q, 3, 20*time.Millisecond)
		} else {
			r = lockAt(ctx, l, a)
		}
		broke(r.Token, r.Fence)
		quit := ctx.Err() != nil
		cancel()
		if took := time.Since(began); !u.Tries && took > most { //house:brief in fake time
			seen.wrong("WAIT %v took %v", a.Wait, took)
		}
		if r.Err != nil && !noQuorum(r.Err) && !quit {
			seen.wrong("LOCK: %w", r.Err)
		}
		if !r.OK {
			on := s.holdsOn(a.Token)
			if a.Token != "" && len(on) > len(s.masters)/2 && !errors.Is(r.Err, redlock.ErrMayHold) {
				seen.wrong("LOCK of %s: not granted (%v), and held on %v", a.Token, r.Err, on)
			}
			continue
		}
		a.Token = r.Token
		if r.Count != 1 {
			seen.wrong("the first grant of %s has the count %d", a.Token, r.Count)
		}
		h := &held{token: a.Token, mode: a.Mode, fence: r.Fence, asked: began, got: time.Now(),
			until: r.At.Add(r.TTL)}
		seen.mu.Lock()
		seen.all = append(seen.all, h)
		seen.mu.Unlock()
		u.hold(l, a, h, seen)
	}
}

// hold is what a client does with a grant.
func (u visit) hold(l *locks.Locker, a redlock.Acquire, h *held, seen *history) {
	twice := false // it has been told so, or may be
	if u.Again {
		at := time.Now()
		r := lockAt(context.Background(), l, redlock.Acquire{
			Name: "job", Token: a.Token, Mode: a.Mode, Lease: a.Lease, Reentrant: u.Re,
		})
		if !r.OK && r.Err == nil && seen.lasts(h) {
			seen.wrong("the same token again, which holds the lock: Null")
		}
		twice = u.Re && (r.OK || r.Err != nil)
		if r.OK && seen.lasts(h) {
			if want := map[bool]int64{true: 2, false: 1}[u.Re]; r.Count != want {
				seen.wrong("the same token again has the count %d, want %d", r.Count, want)
			}
			if r.Fence < h.fence {
				seen.wrong("the same token again has the fence %d, it had %d", r.Fence, h.fence)
			}
			// From now on it relies on what it was told last.
			now := time.Now()
			next := &held{token: h.token, mode: h.mode, fence: r.Fence, asked: h.asked, got: now,
				until: rig.Later(h.until, at.Add(r.TTL))}
			h.until = now
			h = next
			seen.mu.Lock()
			seen.all = append(seen.all, h)
			seen.mu.Unlock()
		}
	}
	if u.Renew {
		at := time.Now()
		if left, err := renewAt(l, a.Token, a.Lease, 0); err == nil && left > 0 &&
			time.Now().Before(h.until) {
			h.until = rig.Later(h.until, at.Add(left))
		}
	}
	if u.Up && a.Mode == redlock.Read {
		at := time.Now()
		r := lockAt(context.Background(), l, redlock.Acquire{
			Name: "job", Token: a.Token, Mode: redlock.Write, Lease: a.Lease, Wait: 30 * time.Millisecond,
		})
		if r.OK && time.Now().Before(h.until) {
			now := time.Now()
			next := &held{token: h.token, mode: redlock.Write, fence: r.Fence, asked: at, got: now,
				until: r.At.Add(r.TTL)}
			h.until = now
			h = next
			seen.mu.Lock()
			seen.all = append(seen.all, h)
			seen.mu.Unlock()
		}
	}
	if u.Keep {
		lost := make(chan time.Time, 1)
		keeper := l.NewKeeper()
		at := time.Now()
		r, err := (&rig.Asker{L: l}).Renew(&redlock.Renew{
			Name: "job", Token: a.Token, Lease: a.Lease, Fence: h.fence, Keeper: keeper,
		})
		if err != nil || r.Left == 0 || !time.Now().Before(h.until) {
			return
		}
		kept := l.Keep(keepalive.Hold{Name: "job", Token: a.Token, Fence: h.fence, Lease: a.Lease,
			Until: at.Add(r.Left), Keeper: keeper, Lost: func(keepalive.Lost) { lost <- time.Now() }})
		select {
		case when := <-lost:
			h.until = when
			return
		case <-time.After(time.Duration(u.Hold) * time.Millisecond):
		}
		h.until = time.Now()
		kept.Release()
		return
	}
	time.Sleep(time.Duration(u.Hold) * time.Millisecond)
	if u.Leave {
		return
	}
	until := h.until
	if now := time.Now(); now.Before(h.until) {
		h.until = now
	}
	switch n, err := unlockAt(l, a.Token, 0); {
	case err != nil || !twice && n != 0 || !time.Now().Before(until):
		return
	case !twice:
		seen.wrong("UNLOCK of %s, which has the count 1: 0", a.Token)
	}
	unlockAt(l, a.Token, 0)
}

// A schedule takes some tenths of a second of CPU with the race detector, and with a fixed seed nothing fails
// by chance. A flag on the command line goes before these, as in make soak.
func init() {
	flag.Set("rapid.checks", "25")
	flag.Set("rapid.seed", "1")
}

// Clients of two proxies over five masters, with delays, lost requests and replies, cut connections, masters
// that lose their memory and clocks that differ and step: there is one writer at most, or only readers,
// within what was reported, fences are unique and rise, and in the end all is free. Who is told Null, or an
// error that does not say that the token may hold the lock, does not hold it. R10 R27 R31
func TestQuorumModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		v := schedules.Draw(r, "schedule")
		var err error
		synctest.Test(t, func(t *testing.T) { err = simulate(t, v, nil) })
		if err != nil {
			r.Fatal(err)
		}
	})
}
