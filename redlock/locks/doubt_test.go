package locks_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/locks"
)

// Who asks whether the token holds the lock, after an error that leaves it open, does not keep what is left
// from being taken back: as long as that goes on, it is an error too. R10 R33
func TestCheckOfWhatIsTakenBack(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 1)[0]
		trouble := true
		p.Up.Set(func(u *rig.Upstream) {
			u.Faults = func(script string) (before, after error) {
				switch {
				case trouble && script == "acquire":
					return nil, errors.New("the reply was lost")
				case trouble && script == "cancel":
					return errors.New("it is away"), nil
				}
				return nil, nil
			}
		})
		if r := p.Lock(t.Context(), redlock.Acquire{Token: "t", Lease: time.Minute}); r.OK || r.Err == nil {
			t.Fatalf("%+v", r)
		}
		check := func() (held bool, err error) {
			p.Inspect(p.Client().By(), "job", "t", func(s redlock.State, e error) []byte {
				held, err = s.Held("t") != nil, e
				return nil
			})
			return held, err
		}
		if held, err := check(); held || err == nil || err.Error()[:9] != "TRYAGAIN " {
			t.Errorf("CHECK: %v %v", held, err)
		}
		p.Up.Set(func(*rig.Upstream) { trouble = false })
		time.Sleep(6 * time.Second)
		s.Empty(t)
		if held, err := check(); held || err != nil {
			t.Errorf("CHECK: %v %v", held, err)
		}
	})
}

// A wait that ends because its client goes, or its proxy shuts down, while the lock is handed to it: it has
// been given back when that is told, or the error says that it may be held. R10
func TestWaitThatIsEndedIsKnown(t *testing.T) {
	for _, away := range []bool{false, true} {
		rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
			up := &slow{Upstream: &rig.Upstream{S: s}}
			defer up.Close()
			p := &proxies.Proxy{Locker: locks.New(up, locks.Options{}), Up: up.Upstream, T: t}
			defer p.Close(context.Background())
			proxies.Granted(t, p.Begin(t.Context(), redlock.Acquire{Token: "holder"}))
			ctx, cancel := context.WithCancel(t.Context())
			waits := p.Begin(ctx, redlock.Acquire{Token: "t", Wait: minute})
			proxies.Waiting(t, waits)
			p.Up.Set(func(u *rig.Upstream) {
				u.Faults = func(script string) (before, after error) {
					if away && script == "cancel" {
						before = errors.New("it is away")
					}
					return before, nil
				}
			})
			cancel()
			p.Unlock("holder")
			r := <-waits
			if r.OK || r.Err == nil || errors.Is(r.Err, redlock.ErrMayHold) != away {
				t.Errorf("away %v: %+v", away, r)
			}
			state := p.State()
			if !away && state.Held("t") != nil {
				t.Error("it is held still")
			}
			p.Up.Set(func(u *rig.Upstream) { u.Faults = nil })
			time.Sleep(10 * time.Second)
			s.Empty(t)
		})
	}
}
