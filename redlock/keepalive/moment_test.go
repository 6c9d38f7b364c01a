package keepalive

import (
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/subscription"
)

// doubt takes job, and has Redis say once that it is gone. there brings it back.
func (p *keeper) doubt(lease time.Duration, most int) (h *Kept, there func()) {
	p.t.Helper()
	p.up.latency = time.Millisecond
	h = p.take("job", lease, most)
	synctest.Wait() // it is heard by now what others say
	key := p.names.Place("job").Key
	e := get(p.up, func() *entry { return p.up.holds[key] })
	time.Sleep(10 * time.Millisecond)
	p.up.set(func() { delete(p.up.holds, key) })
	p.untilDoubted(h)
	return h, func() {
		p.up.set(func() {
			e.until = time.Now().Add(lease)
			p.up.holds[key] = e
		})
	}
}

// untilDoubted waits until Redis has said once that h is gone.
func (p *keeper) untilDoubted(h *Kept) {
	p.t.Helper()
	for h.is() != doubted {
		if h.Ended() {
			p.t.Fatalf("lost %s", p.losses())
		}
		time.Sleep(time.Millisecond)
	}
}

// What Redis says only once is gone, as a slot may that moves, is not lost: it goes on as before. R18 R19
func TestGoneForAMoment(t *testing.T) {
	for name, most := range map[string]int{"for ever": 0, "MAX": 1000} {
		t.Run(name, func(t *testing.T) {
			kept(t, func(t *testing.T, p *keeper) {
				_, there := p.doubt(lease, most)
				there()
				time.Sleep(time.Hour)
				if s := p.Stats(); p.losses() != "[]" || s.Kept != 1 || !p.held("job") {
					t.Fatalf("lost %s, %+v", p.losses(), s)
				}
				if n := len(p.renewals("job")); n < 359 || n > 402 {
					t.Errorf("%d renewals in an hour", n)
				}
			})
		})
	}
}

// Once that is over, a later answer is the first one again. R18 R19
func TestGoneForAMomentAgain(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		h, there := p.doubt(lease, 0)
		for range 3 {
			there()
			time.Sleep(doubtTime + 10*time.Millisecond)
			if h.is() != resting || p.losses() != "[]" {
				t.Fatalf("state %d, lost %s", h.is(), p.losses())
			}
			p.up.set(func() { clear(p.up.holds) })
			p.untilDoubted(h)
		}
		there()
	})
}

// A proxy that can hear from now on asks whether its holds last. If it asks once more, it renews nothing
// either. R18 R19
func TestGoneForAMomentWhenFirstHeard(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		h := p.take("job", lease, 1)
		key := p.names.Place("job").Key
		e := p.up.holds[key]
		p.up.set(func() { delete(p.up.holds, key) })
		synctest.Wait()
		if h.is() != doubted {
			t.Fatalf("state %d", h.is())
		}
		p.up.set(func() { p.up.holds[key] = e })
		get(p.up, func() func(subscription.Change) { return p.up.notify })(
			subscription.Change{Kind: subscription.Live}) // its connection was cut
		if synctest.Wait(); h.is() != doubted {
			t.Fatalf("state %d after another connection: lost %s", h.is(), p.losses())
		}
		time.Sleep(lease / 4)
		if n := get(p.up, func() int { return p.up.asked[key] }); n != 1 || len(p.renewals("job")) > 0 {
			t.Errorf("asked %d times more, %d renewals", n, len(p.renewals("job")))
		}
		time.Sleep(lease / 4)
		if len(p.renewals("job")) != 1 || p.losses() != "[]" {
			t.Errorf("%d renewals, lost %s", len(p.renewals("job")), p.losses())
		}
	})
}

// What Redis says twice is gone is lost, which is told once and without delay, with its fence. R19
func TestGoneTwice(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		h, _ := p.doubt(lease, 0)
		from, asked := time.Now(), p.up.requests()
		time.Sleep(doubtTime - 10*time.Millisecond)
		if p.losses() != "[]" || p.up.requests() != asked {
			t.Errorf("lost %s, %d questions too soon", p.losses(), p.up.requests()-asked)
		}
		time.Sleep(time.Minute)
		if s := p.Stats(); p.losses() != "[job gone]" || s.Lost[Gone] != 1 || s.Kept != 0 {
			t.Fatalf("lost %s, %+v", p.losses(), s)
		}
		if lost, ok := p.Lost("job", "t", 0); !ok || lost != (Lost{Gone, h.of.Fence}) {
			t.Errorf("remembered: %+v %v", lost, ok)
		}
		if took := p.told(0).Sub(from); took > doubtTime+10*time.Millisecond {
			t.Errorf("told after %v", took)
		}
		if n := p.up.requests() - asked; n != 1 {
			t.Errorf("asked %d times more", n)
		}
	})
}

// If the lease ends before Redis is to be asked once more, the first answer counts. R19
func TestGoneWhenItsLeaseIsOver(t *testing.T) {
	for most, want := range map[int]string{0: "[job gone]", 1: "[job max]"} {
		kept(t, func(t *testing.T, p *keeper) {
			p.up.latency = time.Millisecond
			h := p.take("job", doubtTime, most)
			if most > 0 {
				for len(p.renewals("job")) == 0 {
					time.Sleep(time.Millisecond)
				}
			} else {
				p.up.set(func() { clear(p.up.holds) })
			}
			p.untilDoubted(h)
			from, asked := time.Now(), p.up.requests()
			time.Sleep(time.Hour)
			if p.losses() != want || p.up.requests() != asked {
				t.Fatalf("lost %s, want %s; %d questions more", p.losses(), want, p.up.requests()-asked)
			}
			if took := p.told(0).Sub(from); took > doubtTime {
				t.Errorf("told after %v", took)
			}
		})
	}
}

// A message that tells why leaves no doubt, whether Redis is being asked once more or cannot be. And who took
// the hold over has it. R18 R19
func TestGoneAndToldWhy(t *testing.T) {
	for said, want := range map[string]string{"broken": "[job broken]", "released": "[]", "taken": "[]"} {
		for name, more := range map[string]func(p *keeper){
			"before": func(*keeper) {},
			"asked": func(p *keeper) {
				p.up.set(func() { p.up.latency = 100 * time.Millisecond })
				time.Sleep(doubtTime + 10*time.Millisecond)
			},
			"away": func(p *keeper) {
				p.up.set(func() { p.up.down = errDown })
				time.Sleep(time.Second)
			},
		} {
			t.Run(said+" "+name, func(t *testing.T) {
				kept(t, func(t *testing.T, p *keeper) {
					h, _ := p.doubt(lease, 0)
					more(p)
					if p.Stats().Kept != 1 {
						t.Fatalf("lost %s", p.losses())
					}
					p.up.publish(said + " " + h.of.Keeper)
					synctest.Wait()
					if p.losses() != want || p.Stats().Kept != 0 {
						t.Errorf("lost %s, %d kept", p.losses(), p.Stats().Kept)
					}
					time.Sleep(time.Hour)
					if p.losses() != want {
						t.Errorf("later lost %s", p.losses())
					}
				})
			})
		}
	}
	kept(t, func(t *testing.T, p *keeper) {
		h, there := p.doubt(lease, 0)
		there()
		p.up.set(func() { p.up.holds[p.names.Place("job").Key].keeper = "elsewhere:1" })
		time.Sleep(time.Minute)
		if p.losses() != "[]" || !h.Ended() {
			t.Errorf("another keeper has it: lost %s, ended %v", p.losses(), h.Ended())
		}
	})
}

// While nobody can be asked once more, the hold is in doubt until its lease is over, as in any outage. R19
func TestGoneAndNobodyToAsk(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		_, there := p.doubt(lease, 0)
		p.up.set(func() { p.up.down = errDown })
		there()
		time.Sleep(lease / 2)
		p.up.set(func() { p.up.down = nil })
		time.Sleep(time.Hour)
		if p.losses() != "[]" || p.Stats().Kept != 1 {
			t.Errorf("it was there: lost %s", p.losses())
		}
	})
	kept(t, func(t *testing.T, p *keeper) {
		p.doubt(lease, 0)
		p.up.set(func() { p.up.down = errDown })
		time.Sleep(lease / 2)
		p.up.set(func() { p.up.down = nil })
		time.Sleep(2 * time.Second)
		if p.losses() != "[job gone]" {
			t.Errorf("it was gone: lost %s", p.losses())
		}
		p.doubt(lease, 0)
		began := time.Now()
		p.up.set(func() { p.up.down = errDown })
		time.Sleep(lease)
		if p.losses() != "[job gone job expired]" || p.told(1).Sub(began) > lease*2/3+time.Second {
			t.Errorf("lost %s after %v", p.losses(), p.told(1).Sub(began))
		}
	})
}
