package keepalive

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Whatever ends a hold ends its lingering, which takes no memory then. R18
func TestLingeringEnds(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		const linger = 10 * time.Minute
		begin := func(name string) *Kept {
			h := p.take(name, lease, 0)
			h.of.Linger = linger
			h.Break("host", (*Kept).Release)
			h.Break("host", (*Kept).Release) // and again
			return h
		}
		for name, end := range map[string]func(h *Kept){
			"its time":  func(*Kept) { time.Sleep(linger - time.Minute) },
			"Release":   (*Kept).Release,
			"Forget":    (*Kept).Forget,
			"UNLOCK":    func(h *Kept) { p.Unlocked(h.of.Name, "t", h.of.Keeper) },
			"Keep":      func(h *Kept) { p.take(h.of.Name, lease, 0).Release() },
			"BREAK":     func(h *Kept) { p.up.set(func() { clear(p.up.holds) }) },
			"MAX":       func(h *Kept) { p.take(h.of.Name, lease, 1).Break("host", (*Kept).Release) },
			"no LINGER": func(h *Kept) { p.take(h.of.Name, lease, 0).Break("host", (*Kept).Release) },
		} {
			h := begin(name)
			time.Sleep(time.Minute)
			if s := p.Stats(); s.Lingering != 1 || s.Kept != 1 || p.Lingering("host") != 1 ||
				p.Lingering("another") != 0 || !p.held(name) {
				t.Errorf("before %s: %+v", name, s)
			}
			end(h)
			time.Sleep(time.Minute)
			if s := p.Stats(); s.Lingering != 0 || s.Kept != 0 || p.Lingering("host") != 0 ||
				len(p.lingerers) != 0 {
				t.Errorf("after %s: %+v", name, s)
			}
			time.Sleep(linger)
		}
		for i := range 3 {
			begin(fmt.Sprint("shutdown", i))
		}
		p.Renewer.Close(context.Background())
		if s := p.Stats(); s.Lingering != 0 || !p.held("shutdown0") {
			t.Errorf("after the end of the proxy: %+v", s)
		}
	})
}

// A hold lingers on while replies to its renewals are lost, or while its upstream is away, for less than a
// lease. Longer, and it is lost, and lingers no more. R18 R33
func TestLingeringThroughAnOutage(t *testing.T) {
	for name, fail := range map[string]func(u *fakeUpstream, err error){
		"replies are lost": func(u *fakeUpstream, err error) { u.lose = err },
		"away":             func(u *fakeUpstream, err error) { u.down = err },
	} {
		kept(t, func(t *testing.T, p *keeper) {
			h := p.take("job", lease, 0)
			h.of.Linger = 20 * lease
			h.Break("host", (*Kept).Release)
			for range 3 {
				p.up.set(func() { fail(p.up, errDown) })
				time.Sleep(lease / 2)
				p.up.set(func() { fail(p.up, nil) })
				time.Sleep(lease)
				if s := p.Stats(); s.Lingering != 1 || !p.held("job") || p.losses() != "[]" {
					t.Errorf("%s for half a lease: %+v, lost %s", name, s, p.losses())
				}
			}
			p.up.set(func() { fail(p.up, errDown) })
			time.Sleep(2 * lease)
			p.up.set(func() { fail(p.up, nil) })
			time.Sleep(lease)
			if s := p.Stats(); s.Lingering != 0 || p.held("job") || p.losses() == "[]" {
				t.Errorf("%s for two leases: %+v, lost %s", name, s, p.losses())
			}
		})
	}
}
