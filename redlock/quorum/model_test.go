package quorum_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/keepalive"
	"lockproxy/redlock/locks"
)

// voyage is what clients do at sea, and what happens to the islands meanwhile.
type voyage struct {
	Seed    uint64
	Ahead   []int // ms, by island: clocks differ
	Lossy   int   // requests of 100 that something happens to
	Clients []client
	Storms  []storm
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
	Re          bool // REENTRANT, also when it is again
	Fresh       bool // the token is made for it, so that it may go behind others unasked
	Quit        int  // ms after which the client goes away, if it waits still; 0: it does not
}

type storm struct {
	Gap, Island, Proxy int
	Kind               string
	Step               int // ms
}

var voyages = rapid.Custom(func(t *rapid.T) voyage {
	v := voyage{
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
				Fresh: rapid.Bool().Draw(t, "fresh"),
				Quit:  rapid.SampledFrom([]int{0, 0, 0, 0, 3, 30, 300}).Draw(t, "quit"),
			})
		}
		v.Clients = append(v.Clients, c)
	}
	for range rapid.IntRange(0, 10).Draw(t, "storms") {
		v.Storms = append(v.Storms, storm{
			Gap:    rapid.SampledFrom([]int{0, 20, 100, 500}).Draw(t, "gap"),
			Island: rapid.IntRange(0, 4).Draw(t, "island"),
			Proxy:  rapid.IntRange(0, 1).Draw(t, "proxy"),
			Kind: rapid.SampledFrom([]string{"restart", "restart", "restart", "crash", "up", "step", "cut",
				"leap", "leap"}).Draw(t, "kind"),
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

// logbook is what the clients saw.
type logbook struct {
	mu   sync.Mutex
	all  []*held
	errs []error
}

func (b *logbook) wrong(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errs = append(b.errs, fmt.Errorf(format, args...))
}

// judge says what is wrong with what the clients saw.
func (b *logbook) judge() error {
	err := errors.Join(b.errs...)
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

// sail runs v and returns what is wrong. alter changes the sea before, for mutants.
func sail(t testing.TB, v voyage, alter func(s *sea)) error {
	longest := time.Duration(longestLease)*time.Millisecond*3/2 + 200*time.Millisecond
	s := newSea(t, 5, 2, longest)
	random := rand.New(rand.NewPCG(v.Seed, 1))
	var mu sync.Mutex
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	fair := false
	for i, n := range s.islands {
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
	book := &logbook{}
	var all sync.WaitGroup
	for i, c := range v.Clients {
		all.Go(func() { c.sail(s, i, book) })
	}
	all.Go(func() {
		for _, w := range v.Storms {
			time.Sleep(time.Duration(w.Gap) * time.Millisecond)
			n := s.islands[w.Island]
			switch w.Kind {
			case "crash", "restart":
				n.crash()
				if w.Kind == "restart" {
					n.up()
				}
				for _, links := range s.links {
					links[w.Island].cut()
				}
			case "up":
				n.up()
			case "step":
				n.step(time.Duration(w.Step) * time.Millisecond)
			case "leap":
				n.leap(time.Duration(10*w.Step) * time.Millisecond)
				time.AfterFunc(time.Second, func() {
					for _, links := range s.links {
						links[w.Island].look()
					}
				})
			case "cut":
				s.links[w.Proxy][w.Island].cut()
			}
		}
	})
	all.Wait()
	mu.Lock()
	fair = true
	mu.Unlock()
	for _, n := range s.islands {
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
		book.wrong("in the end: %w", err)
	}
	for i, l := range s.proxies {
		r := lockAt(context.Background(), l, redlock.Acquire{
			Token: fmt.Sprint("last", i), Lease: 2 * time.Second, Wait: 2 * time.Second,
		})
		if !r.OK {
			book.wrong("proxy %d cannot have the lock in the end: %v", i, r.Err)
		}
		if n, err := unlockAt(l, fmt.Sprint("last", i), 0); n != 1 {
			book.wrong("proxy %d cannot release in the end: %v %v", i, n, err)
		}
	}
	if err := s.end(); err != nil {
		book.wrong("%w", err)
	}
	return book.judge()
}

func (c client) sail(s *sea, who int, book *logbook) {
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
		quit := ctx.Err() != nil
		cancel()
		if took := time.Since(began); !u.Tries && took > a.Wait+4*testNodeTimeout {
			book.wrong("WAIT %v took %v", a.Wait, took)
		}
		if r.Err != nil && !noQuorum(r.Err) && !quit {
			book.wrong("LOCK: %w", r.Err)
		}
		if !r.OK {
			continue
		}
		a.Token = r.Token
		if r.Count != 1 {
			book.wrong("the first grant of %s has the count %d", a.Token, r.Count)
		}
		h := &held{token: a.Token, mode: a.Mode, fence: r.Fence, asked: began, got: time.Now(),
			until: r.At.Add(r.TTL)}
		book.mu.Lock()
		book.all = append(book.all, h)
		book.mu.Unlock()
		u.hold(l, a, h, book)
	}
}

// hold is what a client does with a grant.
func (u visit) hold(l *locks.Locker, a redlock.Acquire, h *held, book *logbook) {
	twice := false // it has been told so, or may be
	if u.Again {
		at := time.Now()
		r := lockAt(context.Background(), l, redlock.Acquire{
			Name: "job", Token: a.Token, Mode: a.Mode, Lease: a.Lease, Reentrant: u.Re,
		})
		if !r.OK && r.Err == nil && time.Now().Before(h.until) {
			book.wrong("the same token again, which holds the lock: Null")
		}
		twice = u.Re && (r.OK || r.Err != nil)
		if r.OK && time.Now().Before(h.until) {
			if want := map[bool]int64{true: 2, false: 1}[u.Re]; r.Count != want {
				book.wrong("the same token again has the count %d, want %d", r.Count, want)
			}
			if r.Fence < h.fence {
				book.wrong("the same token again has the fence %d, it had %d", r.Fence, h.fence)
			}
			// From now on it relies on what it was told last.
			now := time.Now()
			next := &held{token: h.token, mode: h.mode, fence: r.Fence, asked: h.asked, got: now,
				until: rig.Later(h.until, at.Add(r.TTL))}
			h.until = now
			h = next
			book.mu.Lock()
			book.all = append(book.all, h)
			book.mu.Unlock()
		}
	}
	if u.Renew {
		at := time.Now()
		if left, err := rig.RenewAt(l, a.Token, a.Lease, 0); err == nil && left > 0 &&
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
			book.mu.Lock()
			book.all = append(book.all, h)
			book.mu.Unlock()
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
			Until: at.Add(r.Left), Keeper: keeper, Lost: func(keepalive.Loss) { lost <- time.Now() }})
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
		book.wrong("UNLOCK of %s, which has the count 1: 0", a.Token)
	}
	unlockAt(l, a.Token, 0)
}

// Clients of two proxies over five masters, with delays, lost requests and replies, cut connections, masters
// that lose their memory and clocks that differ and step: there is one writer at most, or only readers,
// within what was reported, fences are unique and rise, and in the end all is free. R27 R31
func TestQuorumModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		v := voyages.Draw(r, "voyage")
		var err error
		synctest.Test(t, func(t *testing.T) { err = sail(t, v, nil) })
		if err != nil {
			r.Fatal(err)
		}
	})
}

// caught says what the model has against a mutant.
func caught(t *testing.T, want string, alter func(s *sea)) {
	for seed := range 1000 {
		var err error
		synctest.Test(t, func(t *testing.T) { err = sail(t, voyages.Example(seed), alter) })
		if err != nil && strings.Contains(err.Error(), want) {
			t.Logf("caught by voyage %d: %.400s", seed, err)
			return
		}
	}
	t.Error("the mutant was not caught")
}

// A mutant that takes the highest of the fences that the nodes made, without giving it back to them, is
// caught: fences are not unique, or fall. R27
func TestQuorumModelCatchesNoSettle(t *testing.T) {
	caught(t, "fence", func(s *sea) {
		for _, links := range s.links {
			for _, l := range links {
				l.instead = func(req []byte) ([]byte, []byte) {
					switch rig.ScriptOf(req) {
					case "settle":
						return nil, []byte(":1\r\n")
					case "claim": // nor does the candidate do the settling
						args, _, _ := resp.Split(req, nil)
						if wanted := &args[10]; len(*wanted) > 0 {
							*wanted = []byte("0")
						}
						return resp.AppendCommand(nil, args...), nil
					}
					return req, nil
				}
			}
		}
	})
}

// A mutant that takes nothing back, though the nodes say that they do, is caught: what a failed round left
// counts as a re-entry. R15
func TestQuorumModelCatchesLeftRounds(t *testing.T) {
	caught(t, "the first grant", func(s *sea) {
		for _, links := range s.links {
			for _, l := range links {
				l.instead = func(req []byte) ([]byte, []byte) {
					if rig.ScriptOf(req) == "cancel" {
						return nil, []byte(":1\r\n")
					}
					return req, nil
				}
			}
		}
	})
}

// A mutant that counts what nodes say that have lost their memory is caught: there are two holders. R31
func TestQuorumModelCatchesTrust(t *testing.T) {
	caught(t, "two holders", func(s *sea) {
		for _, links := range s.links {
			for _, l := range links {
				l.trust = true
			}
		}
	})
}
