package locks_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"lockproxy/internal/subscription"
	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/keepalive"
	"lockproxy/redlock/locks"
)

// lostHolds collects what was lost.
type lostHolds struct {
	mu  sync.Mutex
	all []string
}

func (l *lostHolds) report(name string) func(keepalive.Lost) {
	return func(lost keepalive.Lost) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, name+" "+string(lost.Why))
	}
}

// await waits until exactly these are lost, in any order.
func (l *lostHolds) await(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for range rig.Patience / (5 * time.Millisecond) {
		l.mu.Lock()
		got = slices.Sorted(slices.Values(l.all))
		l.mu.Unlock()
		if slices.Equal(got, want) || len(got) > len(want) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if !slices.Equal(got, want) {
		t.Errorf("lost %q, want %q", got, want)
	}
}

// lockKept acquires as LOCK .. KEEPALIVE MAX max does.
func lockKept(p *proxies.Proxy, a redlock.Acquire, max int, lost *lostHolds) *keepalive.Kept {
	p.T.Helper()
	a.Keep = true
	if a.Name == "" {
		a.Name = "job"
	}
	if a.Mode == "" {
		a.Mode = redlock.Write
	}
	q := p.NewAcquire(a)
	began := time.Now()
	g, ok, err := p.Client().Acquire(q)
	if !ok || err != nil {
		p.T.Fatalf("%s: not granted: %v", a.Name, err)
	}
	return p.Keep(keepalive.Hold{
		Name: a.Name, Token: a.Token, Fence: g.Fence, Lease: a.Lease, Until: began.Add(g.TTL),
		Keeper: q.Keeper, Terms: keepalive.Terms{Max: max}, Lost: lost.report(a.Name + " " + a.Token),
	})
}

// renewKept renews as RENEW .. KEEPALIVE does.
func renewKept(p *proxies.Proxy, name, token string, lease time.Duration, lost *lostHolds) *keepalive.Kept {
	p.T.Helper()
	keeper := p.NewKeeper()
	began := time.Now()
	r, err := p.Client().Renew(&redlock.Renew{Name: name, Token: token, Lease: lease, Keeper: keeper})
	if err != nil || r.Left == 0 {
		p.T.Fatalf("renewed for %v: %v", r.Left, err)
	}
	return p.Keep(keepalive.Hold{
		Name: name, Token: token, Fence: r.Fence, Lease: lease, Until: began.Add(r.Left), Keeper: keeper,
		Lost: lost.report(name + " " + token),
	})
}

// until waits for ok.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for i := 0; !ok(); i++ {
		if i == int(rig.Patience/(5*time.Millisecond)) {
			t.Fatalf("not %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// listening waits until p hears what its keepers are told.
func listening(p *proxies.Proxy, t *testing.T) {
	t.Helper()
	until(t, "subscribed", func() (yes bool) {
		p.Up.Set(func(u *rig.Upstream) { yes = slices.Contains(u.Channels, "lock:keeper:"+p.ID()) })
		return yes
	})
}

// keptLease is so long that a machine which stands still for some seconds ends no hold that is kept.
const keptLease = 12 * time.Second

// outlast waits until a lease would be over that is not renewed, several times where that costs nothing.
func outlast(s *rig.Server) {
	if s.Mini != nil {
		time.Sleep(2 * keptLease)
	}
	time.Sleep(keptLease + keptLease/9)
}

// Writers and readers, alone and with waiters, outlive their leases, in batches of a slot; what
// was deleted is lost, what somebody else wrote there too. R18 R24 R29
func TestKeepScript(t *testing.T) {
	t.Parallel()
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 1)[0]
		var lost lostHolds
		var all []*keepalive.Kept
		for i := range 70 {
			a := redlock.Acquire{Name: fmt.Sprintf("{job}w%02d", i), Token: "w", Lease: keptLease}
			all = append(all, lockKept(p, a, 0, &lost))
		}
		for i := range 3 {
			a := redlock.Acquire{Name: "job", Mode: redlock.Read, Token: fmt.Sprint("r", i), Lease: keptLease}
			all = append(all, lockKept(p, a, 0, &lost))
		}
		queued := p.Begin(t.Context(), redlock.Acquire{Name: "{job}w00", Token: "next", Wait: minute})
		s.Ask("DEL", "lock:{job}w01")
		s.Ask("SET", "lock:{job}w02", "something else")
		outlast(s)
		lost.await(t, "{job}w01 w gone", "{job}w02 w gone")
		least := uint64(71 * 3)
		if s.Mini == nil { // on a busy machine some rounds come late
			until(t, "renewed often", func() bool { return p.Stats()[locks.Renewals] >= least })
		} else {
			least = 71 * 7
		}
		if st := p.Stats(); st[locks.Kept] != 71 || st[locks.Renewals] < least {
			t.Errorf("%d kept, %d renewals", st[locks.Kept], st[locks.Renewals])
		}
		if st := p.State(); len(st.Holders) != 3 || !st.Holders[0].Kept {
			t.Errorf("%+v", st)
		}
		proxies.Waiting(t, queued)
		s.Ask("DEL", "lock:{job}w02")
		for _, h := range all {
			h.Release()
		}
		proxies.Granted(t, queued)
		until(t, "freed", func() bool { return len(s.Keys()) == 1 })
		p.Client().Release(&redlock.Release{Name: "{job}w00", Token: "next"})
		s.Empty(t)
	})
}

// MAX n is over when its lease is, unless somebody makes that longer. R19 R23
func TestKeepScriptMax(t *testing.T) {
	t.Parallel()
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2)
		var lost lostHolds
		lockKept(p[0], redlock.Acquire{Name: "a", Token: "a", Lease: keptLease}, 2, &lost)
		const long = 2 * keptLease
		lockKept(p[0], redlock.Acquire{Name: "b", Token: "b", Lease: long}, 1, &lost)
		until(t, "all renewed", func() bool { return p[0].Stats()[locks.Renewals] == 3 })
		if _, err := p[1].Client().Renew(&redlock.Renew{Name: "b", Token: "b", Lease: long}); err != nil {
			t.Fatal(err)
		}
		lost.await(t, "a a max")
		if keys := s.Keys(); len(keys) != 1 {
			t.Errorf("held: %q", keys)
		}
		lost.await(t, "a a max", "b b max")
		if n := p[0].Stats()[locks.Renewals]; n != 3 {
			t.Errorf("%d renewals", n)
		}
		s.Empty(t)
	})
}

// RENEW .. KEEPALIVE on another proxy takes a hold over; its former keeper says nothing and
// frees nothing. R18 R24
func TestKeeperChanges(t *testing.T) {
	t.Parallel()
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2)
		var lost lostHolds
		first := lockKept(p[0], redlock.Acquire{Token: "t", Lease: keptLease}, 0, &lost)
		second := renewKept(p[1], "job", "t", keptLease, &lost)
		until(t, "taken", func() bool { return p[0].Stats()[locks.Kept] == 0 })
		first.Release()
		if renewKept(p[1], "job", "t", keptLease, &lost); p[1].Stats()[locks.Kept] != 1 {
			t.Errorf("%d kept", p[1].Stats()[locks.Kept])
		}
		second.Release()
		// The connection of the first keeper may also close before that one knows.
		third := renewKept(p[0], "job", "t", keptLease, &lost)
		last := renewKept(p[1], "job", "t", keptLease, &lost)
		third.Release()
		outlast(s)
		if st := p[1].State(); len(st.Holders) != 1 || p[1].Stats()[locks.Kept] != 1 {
			t.Errorf("%+v, %d kept", st, p[1].Stats()[locks.Kept])
		}
		last.Release()
		s.Empty(t)
		lost.await(t)
	})
}

// A request that asked another proxy for KEEPALIVE in vain does not end what the first one keeps alive, which
// hears of its UNLOCK there. R18 R24
func TestKeeperInVainElsewhere(t *testing.T) {
	t.Parallel()
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2)
		var lost lostHolds
		lockKept(p[0], redlock.Acquire{Token: "t", Lease: keptLease}, 0, &lost)
		listening(p[0], t)
		inVain := &redlock.Renew{Name: "job", Token: "t", Lease: keptLease, Keeper: p[1].NewKeeper()}
		if r, err := p[1].Client().Renew(inVain); err != nil || r.Left == 0 {
			t.Fatalf("%+v: %v", r, err)
		}
		outlast(s)
		if st := p[1].State(); len(st.Holders) != 1 || p[0].Stats()[locks.Kept] != 1 {
			t.Errorf("%+v, %d kept", st, p[0].Stats()[locks.Kept])
		}
		if r, err := p[1].Client().Release(&redlock.Release{Name: "job", Token: "t"}); err != nil || r != 1 {
			t.Errorf("%+v: %v", r, err)
		}
		until(t, "told of it", func() bool { return p[0].Stats()[locks.Kept] == 0 })
		lost.await(t)
		s.Empty(t)
	})
}

// A hold that lingers at one proxy is kept alive there, until it is taken over, released or broken through
// another one. R18 R19
func TestLingersUntilTakenElsewhere(t *testing.T) {
	t.Parallel()
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2)
		var lost lostHolds
		linger := func(name string) {
			a := redlock.Acquire{Name: name, Token: "t", Mode: redlock.Write, Lease: keptLease, Keep: true}
			q := p[0].NewAcquire(a)
			began := time.Now()
			g, ok, err := p[0].Client().Acquire(q)
			if !ok || err != nil {
				t.Fatalf("%s: not granted: %v", name, err)
			}
			p[0].Keep(keepalive.Hold{
				Name: name, Token: "t", Fence: g.Fence, Lease: keptLease, Until: began.Add(g.TTL),
				Keeper: q.Keeper, Terms: keepalive.Terms{Linger: time.Hour}, Lost: lost.report(name),
			}).Break("host", (*keepalive.Kept).Release)
		}
		lingering := func(n int) {
			t.Helper()
			until(t, fmt.Sprint(n, " left"), func() bool {
				st := p[0].Stats()
				return st[locks.Lingering] == uint64(n) && st[locks.Kept] == uint64(n) &&
					p[0].Lingering("host") == n
			})
		}
		linger("job")
		linger("{job}released")
		linger("{job}broken")
		listening(p[0], t)
		outlast(s)
		lingering(3)
		if st := p[1].State(); len(st.Holders) != 1 || !st.Holders[0].Kept {
			t.Errorf("%+v", st)
		}
		taken := renewKept(p[1], "job", "t", keptLease, &lost)
		lingering(2)
		if _, err := p[1].Client().Release(&redlock.Release{Name: "{job}released",
			Token: "t"}); err != nil {
			t.Fatal(err)
		}
		lingering(1)
		if broken, err := p[1].Client().Breaks("{job}broken"); !broken || err != nil {
			t.Errorf("broken %v: %v", broken, err)
		}
		lingering(0)
		lost.await(t, "{job}broken broken")
		if _, ok := p[0].Lost("{job}broken", "t", 0); !ok {
			t.Error("the loss is not remembered")
		}
		if _, ok := p[0].Lost("job", "t", 0); ok {
			t.Error("what was taken over counts as lost")
		}
		taken.Release()
		s.Empty(t)
	})
}

// BREAK is told at once, to the keeper of each hold, wherever it is; so is an UNLOCK through another
// proxy, which is no loss. R18 R23 R25
func TestKeeperIsTold(t *testing.T) {
	t.Parallel()
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 3)
		var lost lostHolds
		lockKept(p[0], redlock.Acquire{Name: "job", Mode: redlock.Read, Token: "a", Lease: minute}, 0, &lost)
		lockKept(p[1], redlock.Acquire{Name: "job", Mode: redlock.Read, Token: "b", Lease: minute}, 0, &lost)
		lockKept(p[1], redlock.Acquire{Name: "job", Mode: redlock.Read, Token: "d", Lease: minute}, 0, &lost)
		lockKept(p[1], redlock.Acquire{Name: "other", Token: "c", Lease: minute}, 0, &lost)
		listening(p[0], t)
		listening(p[1], t)
		if broken, err := p[2].Client().Breaks("job"); !broken || err != nil {
			t.Errorf("broken %v: %v", broken, err)
		}
		lost.await(t, "job a broken", "job b broken", "job d broken")
		if _, err := p[2].Client().Release(&redlock.Release{Name: "other", Token: "c"}); err != nil {
			t.Fatal(err)
		}
		until(t, "told", func() bool { return p[1].Stats()[locks.Kept] == 0 })
		lost.await(t, "job a broken", "job b broken", "job d broken")
		s.Empty(t)
	})
}

// A hold that goes on at another proxy, and is freed there, is no loss for the proxy that kept it before,
// which does not renew it in between. R18
func TestTakenOverAndFreed(t *testing.T) {
	t.Parallel()
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2)
		for name, takeOver := range map[string]func(lost *lostHolds){
			"renewed": func(lost *lostHolds) { renewKept(p[1], "job", "a", minute, lost) },
			"locked again": func(lost *lostHolds) {
				lockKept(p[1], redlock.Acquire{Token: "a", Lease: minute}, 0, lost)
			},
		} {
			var lost lostHolds
			lockKept(p[0], redlock.Acquire{Name: "job", Token: "a", Lease: minute}, 0, &lost)
			listening(p[0], t)
			takeOver(&lost)
			if n := p[1].Unlock("a"); n != 1 {
				t.Errorf("%s: UNLOCK: %d", name, n)
			}
			until(t, "told", func() bool { return p[0].Stats()[locks.Kept] == 0 })
			lost.await(t)
			s.Empty(t)
		}
	})
}

// LOCK with BREAK is told to the keepers of the holds that it ends, not to that of the hold that it raises.
// R18 R23
func TestTakeOverFromAKeptHold(t *testing.T) {
	t.Parallel()
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 3)
		var lost lostHolds
		lockKept(p[0], redlock.Acquire{Name: "job", Mode: redlock.Read, Token: "a", Lease: minute}, 0, &lost)
		kept := lockKept(p[1], redlock.Acquire{
			Name: "job", Mode: redlock.Read, Token: "b", Lease: minute}, 0, &lost)
		listening(p[0], t)
		listening(p[1], t)
		a := p[2].NewAcquire(redlock.Acquire{
			Name: "job", Mode: redlock.Write, Token: "b", Lease: minute, Break: true})
		if _, ok, err := p[2].Client().Acquire(a); !ok || err != nil || !a.Broke {
			t.Errorf("the reader that becomes the writer: %v %v %+v", ok, err, a)
		}
		lost.await(t, "job a broken")
		if n := p[1].Stats()[locks.Kept]; n != 1 {
			t.Errorf("%d are kept alive", n)
		}
		a = p[0].NewAcquire(redlock.Acquire{
			Name: "job", Mode: redlock.Read, Token: "c", Lease: minute, Break: true})
		if _, ok, err := p[0].Client().Acquire(a); !ok || err != nil || !a.Broke {
			t.Errorf("another reader: %v %v %+v", ok, err, a)
		}
		lost.await(t, "job a broken", "job b broken")
		kept.Release() // frees nothing of another token
		if n := p[2].Unlock("c"); n != 1 {
			t.Errorf("UNLOCK: %d", n)
		}
		s.Empty(t)
	})
}

// A connection that closes hands its lock to who waits, through whatever proxy. R9 R18
func TestReleaseHandsOver(t *testing.T) {
	t.Parallel()
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2)
		var lost lostHolds
		for i := range 4 {
			h := lockKept(p[0], redlock.Acquire{Token: "t", Lease: minute}, 0, &lost)
			next := p[i%2].Begin(t.Context(), redlock.Acquire{Token: "next", Wait: minute})
			h.Release()
			proxies.Granted(t, next) // which waits for less than the lease
			p[0].Unlock("next")
		}
		s.Empty(t)
		lost.await(t)
	})
}

// The loss of a script on the server changes nothing. R18
func TestKeepScriptLost(t *testing.T) {
	t.Parallel()
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 1)[0]
		var lost lostHolds
		h := lockKept(p, redlock.Acquire{Token: "t", Lease: keptLease}, 0, &lost)
		s.Ask("SCRIPT", "FLUSH")
		outlast(s)
		s.Ask("SCRIPT", "FLUSH")
		if len(p.State().Holders) != 1 {
			t.Error("it is gone")
		}
		h.Release()
		s.Empty(t)
		lost.await(t)
	})
}

// The answer to an UNLOCK that is read late ends no later hold of the token, and ends its own without a word,
// also when the UNLOCK was sent again. R18
func TestUnlockEndsItsOwnHoldOnly(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(p *proxies.Proxy, lost *lostHolds){
		"plain": func(p *proxies.Proxy, _ *lostHolds) {
			p.Lock(p.T.Context(), redlock.Acquire{Token: "t", Lease: minute})
		},
		"kept": func(p *proxies.Proxy, lost *lostHolds) {
			lockKept(p, redlock.Acquire{Token: "t", Lease: minute}, 0, lost)
		},
		"kept, with a reader": func(p *proxies.Proxy, lost *lostHolds) {
			p.Lock(p.T.Context(), redlock.Acquire{Token: "r", Mode: redlock.Read, Lease: 6 * time.Second})
			lockKept(p, redlock.Acquire{Token: "t", Mode: redlock.Read, Lease: minute}, 0, lost)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rig.Everywhere(t, func(t *testing.T, s *rig.Server) { unlockIsReadLate(t, s, first) })
		})
	}
}

// unlockIsReadLate ends what first takes, and reads the answer to that during a later hold.
func unlockIsReadLate(t *testing.T, s *rig.Server, first func(p *proxies.Proxy, lost *lostHolds)) {
	p := proxies.Start(t, s, 1)[0]
	var lost lostHolds
	send := func(n *rig.Noted) []byte {
		reply, err := p.Up.Do(t.Context(), n.Slot, n.Req, true)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(reply)
	}
	unlock := func() *rig.Noted {
		return rig.NotedRelease(p.Locker, &redlock.Release{Name: "job", Token: "t"})
	}
	read := func(reply []byte) { // as the answer to an UNLOCK, which is answered once
		n := unlock()
		if n.Then.Answer(reply); !n.Done.Whole || n.Err != nil {
			t.Fatalf("%q: %v", reply, n.Err)
		}
		p.Unlocked("job", "t", n.Done.Keeper, 0, nil)
	}
	// Once it can hear, it asks about what it keeps alive. That is to be over.
	other := lockKept(p, redlock.Acquire{Name: "other", Token: "t", Lease: minute}, 0, &lost)
	listening(p, t)
	time.Sleep(time.Second)
	other.Release()
	first(p, &lost)
	sent := unlock()
	reply := send(sent)
	again := send(sent)
	if meansPlain(sent.Req) { // the proxy knows what became of it
		sent.Then.(redlock.Repeater).Repeated()
		sent.Then.Answer(again)
		if sent.Then.Answer(send(sent)); !sent.Done.Whole || sent.Err != nil {
			t.Fatalf("sent again: %v %v", sent.Done, sent.Err)
		}
		again = reply
	}
	until(t, "the reader has gone", func() bool { return len(p.State().Holders) == 0 })
	h := lockKept(p, redlock.Acquire{Token: "t", Lease: keptLease}, 0, &lost)
	read(reply)
	read(again)
	outlast(s)
	if st := p.State(); len(st.Holders) != 1 || h.Ended() {
		t.Errorf("the later hold is not kept any more: %+v", st)
	}
	last := unlock()
	send(last)
	read(send(last))
	until(t, "it ends", h.Ended)
	if n := p.Stats()[locks.Kept]; n != 0 {
		t.Errorf("%d holds are kept", n)
	}
	s.Empty(t)
	lost.await(t)
}

// A proxy that cannot hear yet of what becomes of its holds finds a BREAK once it can. One that does not hear
// any more finds it with the next renewal. It cannot tell why the hold has gone. R19
func TestBreakUnheard(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p, lost := proxies.Start(t, s, 1)[0], &lostHolds{}
		p.Up.Set(func(u *rig.Upstream) { u.Mute = true })
		began := time.Now()
		lockKept(p, redlock.Acquire{Token: "t", Lease: keptLease}, 0, lost)
		if broken, err := p.Client().Breaks("job"); !broken || err != nil {
			t.Fatalf("%v %v", broken, err)
		}
		lost.await(t, "job t gone")
		if took := time.Since(began); took > keptLease/2 {
			t.Errorf("found after %v", took)
		}
		lockKept(p, redlock.Acquire{Token: "s", Lease: keptLease}, 0, lost)
		p.Client().Breaks("job")
		time.Sleep(time.Millisecond) // the message is lost
		began = time.Now()
		p.Up.Set(func(u *rig.Upstream) { u.Mute = false })
		listening(p, t)
		p.Up.Tell(subscription.Live)
		lost.await(t, "job s gone", "job t gone")
		if took := time.Since(began); took > keptLease/6 {
			t.Errorf("found %v after it could hear", took)
		}
		lockKept(p, redlock.Acquire{Token: "u", Lease: keptLease}, 0, lost)
		began = time.Now()
		p.Client().Breaks("job")
		lost.await(t, "job s gone", "job t gone", "job u broken")
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("heard after %v", took)
		}
		p.Up.Set(func(u *rig.Upstream) { u.Mute = true })
		lockKept(p, redlock.Acquire{Token: "v", Lease: keptLease}, 0, lost)
		p.Client().Breaks("job")
		lost.await(t, "job s gone", "job t gone", "job u broken", "job v gone")
	})
}
