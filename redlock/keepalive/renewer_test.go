package keepalive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/subscription"
	"lockproxy/redlock"
)

// kept runs test over a fake upstream in fake time.
func kept(t *testing.T, test func(t *testing.T, p *keeper)) {
	synctest.Test(t, func(t *testing.T) { test(t, newKeeper(t)) })
}

const lease = 30 * time.Second

// For an hour, each renewal comes a third of the lease after the one before, or up to a tenth
// of that earlier, and not always at the same. R18 R24
func TestKeptForAnHour(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		p.up.latency = 3 * time.Millisecond
		last := time.Now()
		p.take("job", lease, 0)
		for range 3600 {
			time.Sleep(time.Second)
			if !p.held("job") {
				t.Fatal("it is gone")
			}
		}
		gaps := map[time.Duration]bool{}
		all := p.renewals("job")
		for _, at := range all {
			if gap := at.Sub(last); gap < lease*9/30-2*time.Millisecond || gap > lease/3+5*time.Millisecond {
				t.Errorf("a gap of %v", gap)
			}
			gaps[at.Sub(last).Truncate(100*time.Millisecond)] = true
			last = at
		}
		if n := len(all); n < 359 || n > 401 || len(gaps) < 5 {
			t.Errorf("%d renewals, %d different gaps", n, len(gaps))
		}
		if s := p.Stats(); s.Kept != 1 || s.Renewals != uint64(len(all)) || sum(s.Lost) != 0 ||
			p.losses() != "[]" {
			t.Errorf("%+v, lost %s", s, p.losses())
		}
	})
}

// Nothing is renewed after the end, whatever ends it. R18 R25
func TestNothingRenewedAfterTheEnd(t *testing.T) {
	for end, does := range map[string]struct {
		do   func(p *keeper, h *Kept)
		held bool // Redis still has it a second later
	}{
		// it was freed by UNLOCK
		"unlocked": {func(p *keeper, h *Kept) { p.Unlocked("job", "t", h.of.Keeper) }, true},
		"release":  {func(p *keeper, h *Kept) { h.Release(); h.Release(); h.Forget() }, false},
		"forget":   {func(p *keeper, h *Kept) { h.Forget(); h.Forget(); h.Release() }, true},
		"released": {func(p *keeper, h *Kept) { p.ends(h, "released") }, false},
		"broken":   {func(p *keeper, h *Kept) { p.ends(h, "broken") }, false},
		"closed":   {func(p *keeper, h *Kept) { p.Close(context.Background()) }, true},
	} {
		t.Run(end, func(t *testing.T) {
			kept(t, func(t *testing.T, p *keeper) {
				h := p.take("job", lease, 0)
				time.Sleep(lease)
				before := len(p.renewals("job"))
				if before < 3 {
					t.Fatalf("%d renewals", before)
				}
				does.do(p, h)
				does.do(p, h)
				time.Sleep(time.Second)
				if p.held("job") != does.held {
					t.Errorf("held: %v", !does.held)
				}
				time.Sleep(time.Hour)
				if n := len(p.renewals("job")); n != before || p.Stats().Kept != 0 {
					t.Errorf("%d renewals after the end, %d kept", n-before, p.Stats().Kept)
				}
				want := "[]"
				if end == "broken" {
					want = "[job broken]"
				}
				if p.losses() != want {
					t.Errorf("lost %s", p.losses())
				}
				if end == "release" && p.up.count(&p.up.detaches) != 1 {
					t.Errorf("freed %d times", p.up.count(&p.up.detaches))
				}
			})
		})
	}
}

// A renewal that is under way when the hold ends changes nothing any more.
func TestEndDuringARenewal(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		p.up.latency = 100 * time.Millisecond
		released, unlocked := p.take("released", lease, 0), p.take("unlocked", lease, 0)
		for released.is() != asked && unlocked.is() != asked {
			time.Sleep(10 * time.Millisecond)
		}
		released.Release()
		p.up.set(func() { delete(p.up.holds, p.names.Place("unlocked").Key) })
		p.Unlocked("unlocked", "t", unlocked.of.Keeper)
		time.Sleep(lease)
		if p.held("released") || p.losses() != "[]" || p.Stats().Kept != 0 {
			t.Errorf("held %v, lost %s", p.held("released"), p.losses())
		}
	})
}

// An UNLOCK whose reply is read after that of a renewal which came after it is no loss.
func TestUnlockThatIsToldLate(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		h := p.take("job", lease, 0)
		p.up.set(func() { p.up.holds = map[string]*entry{} })
		for p.up.requests() == 0 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(10 * time.Millisecond)
		if h.is() != doubted {
			t.Fatalf("state %d", h.is())
		}
		p.Unlocked("job", "t", "")
		time.Sleep(lease)
		if p.losses() != "[]" {
			t.Errorf("lost %s", p.losses())
		}
	})
}

// What Redis has no more is lost; what another keeper has is not this one's to report. R18 R24
func TestGoneAndTaken(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		p.take("gone", lease, 0)
		p.take("taken", lease, 0)
		p.take("other", lease, 0)
		p.up.set(func() {
			delete(p.up.holds, p.names.Place("gone").Key)
			p.up.holds[p.names.Place("taken").Key].keeper = "elsewhere:1"
		})
		time.Sleep(lease/3 + time.Second)
		if s := p.Stats(); p.losses() != "[gone gone]" || s.Kept != 1 || s.Lost[Gone] != 1 {
			t.Errorf("lost %s, %+v", p.losses(), s)
		}
		if p.up.count(&p.up.detaches) != 0 {
			t.Error("something was freed")
		}
	})
}

// A grant whose reply took longer than its lease is asked for before it is given up. R18 R19
func TestKeptTooLate(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		p.up.latency = 10 * time.Millisecond
		p.take("gone", -time.Second, 0) // Redis has it no more
		h := p.take("there", lease, 0)
		p.Keep(Hold{
			Name: "there", Token: "t", Fence: h.of.Fence, Lease: lease, Until: time.Now().Add(-time.Second),
			Keeper: h.of.Keeper, Lost: h.of.Lost,
		})
		time.Sleep(time.Hour)
		if p.losses() != "[gone gone]" || !p.held("there") {
			t.Errorf("lost %s, held %v", p.losses(), p.held("there"))
		}
	})
}

// A grant that comes late, but whose lease is not over, is renewed before that is, however
// short it is. R18 R19
func TestKeptJustInTime(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		p.up.latency = 10 * time.Millisecond
		const short = 100 * time.Millisecond
		h := p.take("job", short, 0)
		p.Keep(Hold{
			Name: "job", Token: "t", Fence: h.of.Fence, Lease: short, Until: time.Now().Add(-short),
			Keeper: h.of.Keeper, Lost: h.of.Lost,
		})
		time.Sleep(600 * short)
		if p.losses() != "[]" || !p.held("job") {
			t.Errorf("lost %s, held %v", p.losses(), p.held("job"))
		}
	})
}

// MAX n renews n times, and then reports once, when the lease is over. R19 R23
func TestMaxRenewals(t *testing.T) {
	for n := 1; n <= 5; n++ {
		kept(t, func(t *testing.T, p *keeper) {
			p.take("job", lease, n)
			time.Sleep(time.Hour)
			all := p.renewals("job")
			if len(all) != n || p.losses() != "[job max]" {
				t.Fatalf("MAX %d: %d renewals, lost %s", n, len(all), p.losses())
			}
			if late := p.told(0).Sub(all[n-1].Add(lease)); late < 0 || late > time.Second {
				t.Errorf("reported %v after the lease", late)
			}
		})
	}
}

// A hold with all renewals used up goes on if somebody else makes it longer, and another Keep starts anew.
// R19
func TestMaxRenewalsAndRenew(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		began := time.Now()
		p.take("elsewhere", lease, 1)
		p.take("here", lease, 1)
		time.Sleep(lease)
		until := time.Now().Add(10 * time.Minute)
		p.up.set(func() {
			p.up.holds[p.names.Place("elsewhere").Key].until = until
			p.up.holds[p.names.Place("here").Key].until = until
		})
		p.Prolonged("here", "t", until, 0)
		p.Prolonged("here", "t", began, 0) // never shorter
		p.Prolonged("here", "other", until.Add(lease), 0)
		asked := func() int { return get(p.up, func() int { return p.up.asked[p.names.Place("here").Key] }) }
		before := asked()
		time.Sleep(9 * time.Minute)
		if p.losses() != "[]" || asked() != before {
			t.Fatalf("lost %s", p.losses())
		}
		time.Sleep(time.Hour)
		if got := p.losses(); got != "[elsewhere max here max]" && got != "[here max elsewhere max]" {
			t.Errorf("lost %s", got)
		}
		for i := range 2 {
			if late := p.told(i).Sub(until); late < 0 || late > time.Second {
				t.Errorf("reported %v after the lease", late)
			}
		}
		if n := len(p.renewals("here")) + len(p.renewals("elsewhere")); n != 2 {
			t.Errorf("%d renewals", n)
		}

		p.take("job", lease, 2)
		time.Sleep(lease / 2)
		p.take("job", lease, 3)
		time.Sleep(time.Hour)
		if n := len(p.renewals("job")); n != 4 {
			t.Errorf("%d renewals of two keepers", n)
		}
		if got := p.losses(); !strings.HasSuffix(got, " job max]") || strings.Count(got, "job") != 1 {
			t.Errorf("lost %s", got)
		}
	})
}

// With all renewals used up and nobody to ask, the loss is still told. R19
func TestMaxRenewalsUpstreamAway(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		p.take("job", lease, 1)
		time.Sleep(lease)
		p.up.set(func() { p.up.hang = true })
		time.Sleep(lease/3 + 2*time.Second)
		if p.losses() != "[job max]" {
			t.Errorf("lost %s", p.losses())
		}
	})
}

// An outage that is shorter than what remains of the lease costs nothing, a longer one is a
// loss, told once and at the end of the lease; what Redis still has then is freed. R18 R19
func TestOutage(t *testing.T) {
	for name, set := range map[string]struct{ begin, end func(u *fakeUpstream) }{
		"errors": {func(u *fakeUpstream) { u.down = errDown }, func(u *fakeUpstream) { u.down = nil }},
		"silent": {func(u *fakeUpstream) { u.hang = true }, func(u *fakeUpstream) { u.hang = false }},
		// the requests run, their replies are lost
		"lost": {func(u *fakeUpstream) { u.lose = errDown }, func(u *fakeUpstream) { u.lose = nil }},
	} {
		t.Run("short "+name, func(t *testing.T) {
			kept(t, func(t *testing.T, p *keeper) {
				p.take("job", lease, 0)
				time.Sleep(lease)
				last := p.renewals("job")
				p.up.set(func() { set.begin(p.up) })
				time.Sleep(time.Until(last[len(last)-1].Add(lease - 6*time.Second)))
				p.up.set(func() { set.end(p.up) })
				time.Sleep(time.Hour)
				if !p.held("job") || p.losses() != "[]" || p.up.count(&p.up.detaches) != 0 {
					t.Errorf("held %v, lost %s", p.held("job"), p.losses())
				}
				// No hot loop.
				if n := p.up.requests(); n > 450 {
					t.Errorf("%d requests", n)
				}
			})
		})
		t.Run("long "+name, func(t *testing.T) {
			kept(t, func(t *testing.T, p *keeper) {
				p.take("job", lease, 0)
				time.Sleep(lease)
				all := p.renewals("job")
				over := all[len(all)-1].Add(lease)
				p.up.set(func() { set.begin(p.up) })
				time.Sleep(time.Until(over) + lease/2)
				if p.losses() != "[job expired]" {
					t.Fatalf("lost %s", p.losses())
				}
				if late := p.told(0).Sub(over); late < 0 || late > 10*time.Millisecond {
					t.Errorf("told %v after the end", late)
				}
				// A renewal of the outage has run after all.
				p.up.set(func() {
					set.end(p.up)
					if e := p.up.holds[p.names.Place("job").Key]; e != nil {
						e.until = time.Now().Add(lease / 2)
					}
				})
				time.Sleep(6 * time.Second)
				if p.held("job") {
					t.Error("it was left behind")
				}
				n := p.up.requests()
				time.Sleep(time.Hour)
				if p.losses() != "[job expired]" || p.up.requests() != n || p.up.count(&p.up.detaches) > 40 {
					t.Errorf("lost %s, %d requests, %d attempts to free it", p.losses(), p.up.requests()-n,
						p.up.count(&p.up.detaches))
				}
			})
		})
	}
}

// A RENEW that begins to keep a hold alive may be answered late: its lease, counted from when it was sent, is
// over soon. But the client may have been told of a longer one before. So it is told that the hold is lost,
// and the hold is not freed yet. R18 R19
func TestExpiredIsFreedWhenItsLeaseIsOver(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		began := time.Now()
		p.up.down = errDown
		p.up.holds[p.names.Place("job").Key] = &entry{token: "t", keeper: "me:1", fence: 1,
			until: began.Add(lease)}
		p.Keep(Hold{Name: "job", Token: "t", Fence: 1, Lease: lease, Until: began.Add(lease / 3),
			Keeper: "me:1", Lost: func(l Lost) {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.lost, p.when = append(p.lost, string(l.Why)), append(p.when, time.Now())
			}})
		time.Sleep(lease - time.Second)
		if took := p.told(0).Sub(began); p.losses() != "[expired]" || took > lease/2 {
			t.Fatalf("lost %s after %v", p.losses(), took)
		}
		if n := p.up.count(&p.up.detaches); n > 0 {
			t.Errorf("%d attempts to free it before its lease is over", n)
		}
		time.Sleep(2 * time.Second)
		if p.up.count(&p.up.detaches) == 0 {
			t.Error("it is not freed")
		}
	})
}

// Where scripts on several keys are refused, the holds are asked one by one. R19
func TestSlotThatMoves(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		p.up.latency = time.Millisecond
		for i := range 200 {
			p.take(fmt.Sprintf("{tag}%d", i), lease, 0)
		}
		time.Sleep(lease)
		p.up.set(func() { p.up.refuse, p.up.batches = 1, nil })
		time.Sleep(2 * lease)
		if p.losses() != "[]" {
			t.Errorf("lost %s", p.losses())
		}
		// Eight rounds at most of 200, and what is refused is soon given up.
		if n := p.up.requests(); n > 8*205 {
			t.Errorf("%d requests", n)
		}
		p.up.set(func() { p.up.refuse = 0 })
		time.Sleep(lease)
		p.up.set(func() { p.up.batches = nil })
		time.Sleep(lease)
		if n := p.up.requests(); n > 20 {
			t.Errorf("%d requests after it has moved", n)
		}
		if p.losses() != "[]" {
			t.Errorf("lost %s", p.losses())
		}
	})
}

// The holds of one slot that are due, or nearly, go together, and only those. R18
func TestBatches(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		p.up.latency = time.Millisecond
		const n, slots = 2000, 20
		for i := range n {
			p.take(fmt.Sprintf("{%d}%d", i%slots, i), lease, 0)
		}
		time.Sleep(lease * 3)
		renewals := 0
		for i := range n {
			renewals += len(p.renewals(fmt.Sprintf("{%d}%d", i%slots, i)))
		}
		requests := p.up.requests()
		t.Logf("%d holds, 3 leases: %d renewals in %d requests, %d under way at most", n, renewals, requests,
			p.up.count(&p.up.most))
		// 100 holds in a slot are two batches, three where they are not due at once.
		if renewals < n*8 || renewals > n*10 || requests > renewals/33 || p.up.count(&p.up.most) > slots {
			t.Errorf("%d renewals in %d requests, %d under way", renewals, requests, p.up.count(&p.up.most))
		}
		if s := p.Stats(); p.losses() != "[]" || s.Kept != n || s.Renewals != uint64(renewals) {
			t.Errorf("lost %s, %+v", p.losses(), s)
		}
		if size := get(p.up, func() int { return slices.Max(p.up.batches) }); size > 64 {
			t.Errorf("a batch of %d", size)
		}
	})
	kept(t, func(t *testing.T, p *keeper) {
		p.take("{a}long", time.Hour, 0)
		p.take("{a}short", lease, 0)
		time.Sleep(2 * time.Hour)
		if n := len(p.renewals("{a}long")); n > 8 {
			t.Errorf("%d renewals of a lease of an hour", n)
		}
		if n := len(p.renewals("{a}short")); n < 700 {
			t.Errorf("%d renewals of a lease of %v", n, lease)
		}
	})
}

// Connections with very many holds close: these are freed soon, by few goroutines, those of a slot together.
// R18
func TestReleaseOfMany(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		p.up.latency = time.Millisecond
		const n = 10_000
		var all []*Kept
		for i := range n {
			all = append(all, p.take(fmt.Sprintf("{%d}%d", i%1600, i), time.Hour, 0))
		}
		time.Sleep(time.Second) // some were asked for when it could hear other proxies
		p.up.set(func() { p.up.most = 0 })
		before := runtime.NumGoroutine()
		began := time.Now()
		for _, h := range all {
			h.Release()
		}
		if more := runtime.NumGoroutine() - before; more > mostFreers {
			t.Errorf("%d goroutines more", more)
		}
		if p.Stats().Kept != 0 {
			t.Errorf("%d are kept", p.Stats().Kept)
		}
		for get(p.up, func() int { return len(p.up.holds) }) > 0 {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if p.losses() != "[]" || p.up.count(&p.up.most) > mostFreers {
			t.Errorf("lost %s, %d at a time", p.losses(), p.up.count(&p.up.most))
		}
	})
}

// Very many holds of a master that is away hold up those of others until their leases are over, and no
// longer. R18
func TestReleaseBehindMany(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		p.up.hang, p.up.there = true, "{there}"
		for i := range 20_000 {
			p.take(fmt.Sprint(i), lease, 0).Release()
		}
		p.take("there", 2*lease, 0).Release()
		time.Sleep(lease + 3*mostPatience)
		if p.held("there") {
			t.Error("it is not freed yet")
		}
		if n := p.up.count(&p.up.all); n > 0 {
			t.Errorf("%d are still tried", n)
		}
	})
}

// More holds than Redis can renew in time at once: only so many requests are under way, those
// whose lease is over first go first, and none is lost. R18 R19
func TestSlowMaster(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		const n = 2000
		for i := range n {
			p.take(fmt.Sprint(i), lease, 0)
		}
		for i := range 20 {
			p.take(fmt.Sprint("short", i), lease/10, 0)
		}
		p.up.set(func() { p.up.latency = 400 * time.Millisecond }) // 64 at a time: 160 a second
		time.Sleep(4 * lease)
		if most := p.up.count(&p.up.most); most > masterBatches {
			t.Errorf("%d requests under way", most)
		}
		if s := p.Stats(); p.losses() != "[]" || s.Kept != n+20 {
			t.Errorf("lost %d, %+v", len(p.losses()), s)
		}
	})
}

// A hold that Redis still has is not lost because answers are slow: they count whenever they come. It may be
// that the requests are late or the answers, at once or more and more, steadily or in turns. R18 R19
func TestSlowAnswers(t *testing.T) {
	const steps = 40
	for name, delay := range map[string]func(step int) float64{ // parts of the lease
		"a tenth":     func(int) float64 { return 0.1 },
		"a fifth":     func(int) float64 { return 0.2 },
		"half":        func(int) float64 { return 0.5 },
		"0.65":        func(int) float64 { return 0.65 },
		"up to 0.8":   func(i int) float64 { return 0.8 * float64(i) / steps },
		"up and down": func(i int) float64 { return 0.7 * float64(min(i%20, 20-i%20)) / 10 },
		"in turns":    func(i int) float64 { return []float64{0, 0.6, 0.1, 0.5}[i%4] },
	} {
		for _, late := range []string{"requests", "answers"} {
			t.Run(name+" "+late, func(t *testing.T) {
				kept(t, func(t *testing.T, p *keeper) {
					for i := range 10 {
						p.take(fmt.Sprint("job", i), lease, 0)
					}
					for i := range steps {
						d := time.Duration(delay(i) * float64(lease))
						p.up.set(func() {
							if p.up.lag = d; late == "requests" {
								p.up.lag, p.up.latency = 0, d
							}
						})
						time.Sleep(lease / 4)
					}
					if got := p.losses(); got != "[]" || p.Stats().Kept != 10 {
						t.Errorf("lost %s, %d are left", got, p.Stats().Kept)
					}
					t.Log(p.up.requests(), "requests in", steps/4, "leases")
					// The requests that are still under way end before Redis is fast again.
					time.Sleep(lease)
				})
			})
		}
	}
}

// So is one whose LOCK was answered late already, if each answer takes less than half of the lease. R18 R19
func TestSlowFromTheGrantOn(t *testing.T) {
	const delay = lease * 45 / 100
	for _, late := range []string{"requests", "answers"} {
		kept(t, func(t *testing.T, p *keeper) {
			p.up.set(func() {
				if p.up.lag = delay; late == "requests" {
					p.up.lag, p.up.latency = 0, delay
				}
			})
			p.take("job", lease-delay, 0).Forget() // Redis has it, and for so long
			p.Keep(Hold{Name: "job", Token: "t", Fence: int64(p.n), Lease: lease,
				Keeper: fmt.Sprintf("%s:%d", p.names.ID, p.n), Until: time.Now().Add(lease - delay),
				Lost: func(l Lost) { t.Error(late, l) }})
			time.Sleep(10 * lease)
			if p.Stats().Kept != 1 {
				t.Error(late, "it is not kept any more")
			}
		})
	}
}

// A late answer about an earlier grant says nothing about the one that the token has now. R18 R19
func TestLateAnswerAboutAnEarlierGrant(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		h := p.take("job", lease, 0)
		job := get(p.up, func() *entry { return p.up.holds[p.names.Place("job").Key] })
		p.up.set(func() { job.keeper, p.up.lag = "another", lease/2 })
		time.Sleep(lease * 2 / 5) // Redis has said that another keeper has it: that is under way
		p.up.set(func() { job.keeper, p.up.lag = h.of.Keeper, 0 })
		p.Prolonged("job", "t", time.Now().Add(lease), 100)
		time.Sleep(lease / 4) // it was asked once more
		p.up.set(func() { job.fence = 100 })
		time.Sleep(2 * lease)
		if h.is() == over || p.losses() != "[]" || p.Stats().Kept != 1 {
			t.Errorf("it is %d, lost %s", h.is(), p.losses())
		}
	})
}

// What is released while the upstream is away is freed when it is back; after a lease there
// is nothing to free. Close finishes it, within its context. R18
func TestReleaseWhileAway(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		h := p.take("job", lease, 0)
		p.up.set(func() { p.up.down = errDown })
		h.Release()
		time.Sleep(20 * time.Second)
		p.up.set(func() { p.up.down = nil })
		time.Sleep(6 * time.Second)
		if n := p.up.count(&p.up.detaches); p.held("job") || n > 20 {
			t.Errorf("held %v after %d attempts", p.held("job"), n)
		}

		p.up.set(func() { p.up.down, p.up.detaches = errDown, 0 })
		h = p.take("job", lease, 0)
		h.Release()
		time.Sleep(time.Hour)
		if n := p.up.count(&p.up.detaches); n > 20 || p.losses() != "[]" {
			t.Errorf("%d attempts, lost %s", n, p.losses())
		}

		h = p.take("job", lease, 0)
		h.Release()
		forgotten := p.take("forgotten", lease, 0)
		go func() {
			time.Sleep(3 * time.Second)
			p.up.set(func() { p.up.down = nil })
		}()
		began := time.Now()
		p.Close(context.Background())
		if p.held("job") || !p.held("forgotten") || time.Since(began) < 3*time.Second ||
			time.Since(began) > 9*time.Second {
			t.Errorf("held %v, forgotten %v, closed after %v", p.held("job"), !p.held("forgotten"),
				time.Since(began))
		}
		forgotten.Release()
		if p.take("late", lease, 0).is() != over || p.Stats().Kept != 0 {
			t.Error("it is kept after Close")
		}
	})
	kept(t, func(t *testing.T, p *keeper) {
		p.up.set(func() { p.up.hang = true })
		for i := range 1000 {
			p.take(fmt.Sprint(i), lease, 0).Release()
		}
		time.Sleep(7 * time.Second)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p.Close(ctx)
		if took := time.Since(began); took != time.Second {
			t.Errorf("closed after %v", took)
		}
	})
}

// The messages of other proxies are listened to from the first hold on. R18 R23
func TestKeeperMessages(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		time.Sleep(time.Minute)
		if p.up.count(&p.up.subs) != 0 {
			t.Error("subscribed without a hold")
		}
		a, b := p.take("a", lease, 0), p.take("b", lease, 0)
		if n := p.up.count(&p.up.subs); n != 1 {
			t.Errorf("subscribed %d times", n)
		}
		if got, want := get(p.up,
			func() string { return p.up.channel }), "lock:keeper:"+p.names.ID; got != want {
			t.Fatalf("channel %q, want %q", got, want)
		}
		for _, kind := range []subscription.EventKind{subscription.Lost, subscription.Live} {
			get(p.up,
				func() func(subscription.Change) { return p.up.notify })(subscription.Change{Kind: kind})
		}
		for _, m := range []string{"", "broken", "broken " + p.names.ID + ":99", "released nobody",
			"hello " + a.of.Keeper} {
			p.up.publish(m)
		}
		if p.Stats().Kept != 2 {
			t.Error("a message for nobody has ended something")
		}
		p.ends(a, "broken")
		p.ends(a, "broken")
		if p.losses() != "[a broken]" {
			t.Errorf("lost %s", p.losses())
		}
		p.ends(b, "released")
		if s := p.Stats(); p.losses() != "[a broken]" || s.Kept != 0 || s.Lost[Broken] != 1 {
			t.Errorf("lost %s, %+v", p.losses(), s)
		}
		if p.up.count(&p.up.detaches) != 0 {
			t.Error("something was freed")
		}
	})
}

// Anybody may publish on the channel, so a message makes the proxy ask Redis, and changes nothing by itself,
// be there ever so many: neither is the hold let go, nor is one renewed out of turn. R18 R19
func TestForgedKeeperMessages(t *testing.T) {
	for _, most := range []int{0, 1000} {
		kept(t, func(t *testing.T, p *keeper) {
			h := p.take("job", lease, most)
			synctest.Wait()
			before, messages := p.up.requests(), 0
			for began := time.Now(); time.Since(began) < 3*lease; messages += 2 {
				p.up.publish("released " + h.of.Keeper)
				p.up.publish("broken " + h.of.Keeper)
				time.Sleep(10 * time.Millisecond)
			}
			asked, most := p.up.requests()-before, int(3*lease/hintPause)+20
			if !p.held("job") || p.losses() != "[]" || p.Stats().Kept != 1 || asked > most {
				t.Errorf("held %v, lost %s, %d kept, %d questions for %d messages, want %d at most",
					p.held("job"), p.losses(), p.Stats().Kept, asked, messages, most)
			}
			if n := len(p.renewals("job")); n < 6 || n > 14 {
				t.Errorf("%d renewals in three leases", n)
			}
			time.Sleep(time.Minute)
			p.up.publish("released " + h.of.Keeper) // long before
			time.Sleep(lease)
			p.up.set(func() { delete(p.up.holds, p.names.Place("job").Key) })
			time.Sleep(lease)
			if p.losses() != "[job gone]" {
				t.Errorf("lost %s, and no message came", p.losses())
			}
		})
	}
}

// A message that comes while Redis is being asked, or cannot be, is looked into after that. R18 R19
func TestMessageMeanwhile(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		a, b := p.take("a", lease, 0), p.take("b", lease, 0)
		p.up.set(func() { p.up.lag = 50 * time.Millisecond })
		for a.is() != asked {
			time.Sleep(10 * time.Millisecond)
		}
		p.ends(a, "broken") // behind the answer that is on its way
		time.Sleep(hintPause + 100*time.Millisecond)
		if p.losses() != "[a broken]" {
			t.Errorf("lost %s", p.losses())
		}
		p.up.set(func() { p.up.down = errDown })
		p.ends(b, "released")
		time.Sleep(lease / 3)
		p.up.set(func() { p.up.down = nil })
		time.Sleep(2 * lease)
		if p.losses() != "[a broken]" || p.Stats().Kept != 0 {
			t.Errorf("lost %s, %d kept", p.losses(), p.Stats().Kept)
		}
	})
}

// A later Keep of the same lock and token has the place of the earlier one, whose end means nothing. R18
func TestKeepAgain(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		first := p.take("job", lease, 0)
		second := p.take("job", lease, 0)
		first.Release()
		first.Forget()
		p.up.publish("broken " + first.of.Keeper)
		time.Sleep(time.Minute)
		if s := p.Stats(); s.Kept != 1 || !p.held("job") || p.losses() != "[]" ||
			p.up.count(&p.up.detaches) != 0 {
			t.Errorf("%+v, lost %s", s, p.losses())
		}
		second.Release()
		time.Sleep(time.Second)
		if p.held("job") {
			t.Error("it was not freed")
		}
	})
}

// goroutines is how many there are in bubbles: those of the runtime come and go.
func goroutines() int {
	buf := make([]byte, 1<<20)
	return bytes.Count(buf[:runtime.Stack(buf, true)], []byte("synctest bubble"))
}

// Without holds nothing runs and nothing wakes. R18
func TestNothingRunsWithoutHolds(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		before := goroutines()
		h := p.take("job", lease, 0)
		time.Sleep(time.Minute)
		if n := goroutines(); n != before {
			t.Errorf("%d goroutines more for a hold at rest", n-before)
		}
		h.Forget()
		k := p.Renewer
		k.mu.Lock()
		armed := k.armed
		k.mu.Unlock()
		if armed != never || k.timer.Stop() {
			t.Error("a timer is set")
		}
	})
}

// What is lost may be looked at from Lost.
func TestLostMayCallBack(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		kept := make(chan *Kept, 1)
		kept <- p.Keep(Hold{Name: "job", Token: "t", Lease: lease, Until: time.Now().Add(lease), Keeper: "k",
			Lost: func(Lost) {
				h := <-kept
				h.Release()
				h.Forget()
				p.Unlocked("job", "t", "k")
				p.Keep(Hold{Name: "job", Token: "t", Lease: lease, Until: time.Now().Add(lease),
					Keeper: "k2"}).Forget()
			}})
		time.Sleep(time.Minute)
		if s := p.Stats(); s.Lost[Gone] != 1 || s.Kept != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// How many holds are kept is bounded.
func TestKeepFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newKeeper(t, Options{Lease: lease, Most: 2})
		p.take("a", lease, 0)
		if _, err := p.Free(); err != nil {
			t.Error(err)
		}
		h := p.take("b", lease, 0)
		var said redlock.ReplyError
		if _, err := p.Free(); !errors.As(err, &said) || !strings.HasPrefix(err.Error(), "ERR ") ||
			!strings.Contains(err.Error(), "lock-max-keepalive") {
			t.Errorf("full: %v", err)
		}
		h.Forget()
		if _, err := p.Free(); err != nil {
			t.Error(err)
		}
	})
}

// Short leases are renewed in time too, with an upstream that hangs now and then. R19
func TestShortLeases(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		p.up.latency = time.Millisecond
		p.take("job", 500*time.Millisecond, 0)
		for range 100 {
			p.up.set(func() { p.up.hang = true })
			time.Sleep(100 * time.Millisecond)
			p.up.set(func() { p.up.hang = false })
			time.Sleep(400 * time.Millisecond)
		}
		if p.losses() != "[]" || !p.held("job") {
			t.Errorf("lost %s", p.losses())
		}
	})
}

// sum is how many losses there are.
func sum(lost map[Loss]uint64) (n uint64) {
	for _, of := range lost {
		n += of
	}
	return n
}
