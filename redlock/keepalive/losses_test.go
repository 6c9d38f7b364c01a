package keepalive

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/redlock"
)

// A loss is remembered by lock and token until an hour is over, or the token holds the lock again, or
// released it after all. R19
func TestLostIsRemembered(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		unlocked := p.take("unlocked", lease, 0)
		lost, lost2 := p.take("lost", lease, 0), p.take("{lost}2", lease, 0)
		late := p.take("late", lease, 0)
		so := p.Losses()
		p.Unlocked("unlocked", "t", unlocked.of.Keeper)
		p.up.set(func() {
			for _, name := range []string{"lost", "{lost}2", "late"} {
				delete(p.up.holds, p.names.Place(name).Key)
			}
		})
		if _, ok := p.Lost("lost", "t", 0); ok {
			t.Error("nobody knows of it yet")
		}
		time.Sleep(time.Minute)
		p.Unlocked("late", "t", late.of.Keeper) // its UNLOCK was answered that late
		for _, c := range []struct{ name, token string }{
			{"unlocked", "t"}, {"late", "t"}, {"lost", "u"}, {"los", "tt"}, {"nothing", "t"}} {
			if lost, ok := p.Lost(c.name, c.token, 0); ok {
				t.Errorf("%v: %+v", c, lost)
			}
		}
		want := Lost{Gone, lost.of.Fence}
		for _, name := range []string{"lost", "{lost}"} {
			if got, ok := p.Lost(name, "t", want.Fence); !ok || got != want {
				t.Errorf("%s: %+v %v", name, got, ok)
			}
		}
		if _, ok := p.Untold("lost", "t", 0); ok {
			t.Error("told twice")
		}
		for _, first := range []bool{true, false} {
			if _, ok := p.Lost("{lost}2", "t", 1000); ok {
				t.Error("that of another fence")
			}
			if _, ok := p.Untold("{lost}2", "t", 1000); ok {
				t.Error("untold, that of another fence")
			}
			if got, ok := p.Untold("{lost}2", "t", 0); ok != first || first && got.Fence != lost2.of.Fence {
				t.Errorf("first %v: %+v %v", first, got, ok)
			}
		}
		if got, ok := p.Relied(so, "lost", "t", 0); !ok || got != want {
			t.Errorf("lost meanwhile: %+v %v", got, ok)
		}
		if _, ok := p.Relied(so, "lost", "t", 1000); ok {
			t.Error("a later grant was meant")
		}
		if _, ok := p.Lost("lost", "t", 0); ok {
			t.Error("the token holds it again")
		}
		if _, ok := p.Relied(p.Losses(), "{lost}2", "t", 0); ok {
			t.Error("lost before")
		}
		if n := p.Renewer.losses.size.Load(); n != 0 {
			t.Errorf("%d losses are remembered", n)
		}
	})
}

// A reader that becomes the writer has a new fence, and so has its loss. R19
func TestLossHasTheLastFence(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		h := p.take("job", lease, 0)
		first := h.of.Fence
		p.Prolonged("job", "t", time.Now(), 100)
		time.Sleep(time.Second) // Redis says that its keeper has it
		p.up.set(func() { delete(p.up.holds, p.names.Place("job").Key) })
		time.Sleep(time.Minute)
		if lost, ok := p.Lost("job", "t", 100); !ok || lost != (Lost{Gone, 100}) {
			t.Errorf("the fence that it had last: %+v %v", lost, ok)
		}
		if _, ok := p.Lost("job", "t", first); ok {
			t.Error("the fence that it had first")
		}
	})
}

// If a kept hold is lost and its token gets the lock anew, the loss is that of the kept one. R19
func TestLossIsNotOfALaterGrant(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		h := p.take("job", lease, 0)
		first := h.of.Fence
		p.up.set(func() { delete(p.up.holds, p.names.Place("job").Key) })
		p.Prolonged("job", "t", time.Now().Add(time.Hour), 100)
		time.Sleep(time.Minute)
		if lost, ok := p.Lost("job", "t", first); !ok || lost != (Lost{Gone, first}) {
			t.Errorf("the kept one: %+v %v", lost, ok)
		}
		if lost, ok := p.Lost("job", "t", 100); ok {
			t.Errorf("the later one: %+v", lost)
		}
	})
}

// A reader that became the writer is not given up before the lease that its client was told. R19
func TestWriterIsKeptForItsLease(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		p.take("job", lease, 0)
		p.up.set(func() { p.up.down = errDown })
		p.Prolonged("job", "t", time.Now().Add(2*lease), 100)
		time.Sleep(3 * lease / 2)
		if lost, ok := p.Lost("job", "t", 0); ok {
			t.Errorf("it is lost: %+v", lost)
		}
		time.Sleep(lease)
		if lost, ok := p.Lost("job", "t", 100); !ok || lost != (Lost{Expired, 100}) {
			t.Errorf("when its lease is over: %+v %v", lost, ok)
		}
	})
}

// What is known of how long a hold lasts is not forgotten if its client asks again for a shorter lease. R19
func TestKeptAgainForAShorterLease(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		h := p.take("job", lease, 0)
		p.up.set(func() { p.up.down = errDown })
		shorter := Hold{Name: "job", Token: "t", Fence: h.of.Fence, Lease: time.Second,
			Until: time.Now().Add(time.Second), Keeper: h.of.Keeper, Lost: func(Lost) {}}
		p.Keep(shorter)
		time.Sleep(lease / 2)
		if lost, ok := p.Lost("job", "t", 0); ok {
			t.Errorf("it is lost: %+v", lost)
		}
		time.Sleep(lease)
		if _, ok := p.Lost("job", "t", 0); !ok {
			t.Error("it is not lost although nobody renewed it")
		}
	})
}

// The memory of losses is bounded, in number and in time. R19
func TestLossesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLosses(redlock.NewNames("lock:"))
		remembers := func(i int) (yes bool) {
			_, yes = l.Lost(fmt.Sprint("job", i), "t", 0)
			return yes
		}
		for i := range mostLosses + 2 {
			l.addLoss(fmt.Sprint("job", i), "t", Lost{Max, 1})
			if i == mostLosses/2 {
				time.Sleep(lossMemory / 2)
				l.addLoss("job1", "t", Lost{Max, 2})
			}
		}
		if n := l.all.Len(); n != mostLosses || remembers(0) || !remembers(1) || remembers(2) ||
			!remembers(3) {
			t.Errorf("%d losses are remembered", n)
		}
		time.Sleep(lossMemory / 2)
		if remembers(3) || remembers(mostLosses/2) || !remembers(1) {
			t.Error("the earlier ones are as old as may be")
		}
		time.Sleep(lossMemory / 2)
		if remembers(1) || l.all.Len() != 0 || l.size.Load() != 0 {
			t.Errorf("%d losses are left", l.all.Len())
		}
	})
}

// The log says how many holds are in danger, and not how many there are. R19
func TestLogSaysHowManyAreInDanger(t *testing.T) {
	kept(t, func(t *testing.T, p *keeper) {
		var lines strings.Builder
		p.o.Log = slog.New(slog.NewTextHandler(&lines, nil))
		soon, later := p.take("soon", lease/10, 0), p.take("later", lease, 0)
		p.up.set(func() { p.up.down = errDown })
		time.Sleep(lease / 10)
		synctest.Wait()
		if text := lines.String(); !strings.Contains(text, " kept=1 ") || strings.Contains(text, " kept=2 ") {
			t.Error(text)
		}
		p.up.set(func() { p.up.down = nil })
		soon.Release()
		later.Release()
		time.Sleep(lease)
	})
}
