package locks_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
)

// unlocking is an UNLOCK of the token t that goes through p step by step.
type unlocking struct {
	*rig.Noted
	t *testing.T
	p *proxies.Proxy
}

func unlocks(t *testing.T, p *proxies.Proxy) unlocking {
	return unlocking{rig.NotedRelease(p.Locker, &redlock.Release{Name: "job", Token: "t"}), t, p}
}

// run has Redis run the request that is to be sent now, and returns the reply.
func (u unlocking) run() []byte {
	u.t.Helper()
	reply, err := u.p.Up.Do(u.t.Context(), u.Slot, u.Req, true)
	if err != nil {
		u.t.Fatal(err)
	}
	return append([]byte(nil), reply...)
}

// repeated says that the request is sent again, and may have run.
func (u unlocking) repeated() { u.Then.(redlock.Repeater).Repeated() }

// meansPlain says that the request of an UNLOCK means the grant of a plain lock, not any hold of its token.
func meansPlain(req []byte) bool {
	return !bytes.Contains(req, []byte("\r\n$33\r\n#"))
}

// isFor fails unless the request that is to be sent now means the grant of a plain lock, or any hold.
func (u unlocking) isFor(plain bool) {
	u.t.Helper()
	if meansPlain(u.Req) != plain {
		u.t.Fatalf("plain is to be %v: %q", plain, u.Req)
	}
}

// finish has Redis run requests until there is an answer: 1, 0 or -1 for Null.
func (u unlocking) finish() (int, error) {
	u.t.Helper()
	for {
		reply := u.run()
		u.Req = nil
		u.Then.Answer(reply)
		switch {
		case u.Req != nil: // another request
		case u.Err != nil:
			return 0, u.Err
		case !u.Done.Held:
			return -1, nil
		case u.Done.Whole:
			return 1, nil
		default:
			return 0, nil
		}
	}
}

// The UNLOCK of a plain lock deletes that very lock, and is answered right whatever became of it meanwhile.
// R8 R13 R33
func TestUnlockOfAPlainLock(t *testing.T) {
	for name, c := range map[string]struct {
		between func(u unlocking, other *proxies.Proxy)
		want    int
		left    int // what the token holds then
	}{
		"nothing happens": {func(unlocking, *proxies.Proxy) {}, 1, 0},
		"its reply is lost": {func(u unlocking, _ *proxies.Proxy) {
			u.run()
			u.repeated()
		}, 1, 0},
		"it was sent again, and had not run": {func(u unlocking, _ *proxies.Proxy) { u.repeated() }, 1, 0},
		"its reply is lost, and others have the lock": {func(u unlocking, other *proxies.Proxy) {
			u.run()
			u.repeated()
			other.Lock(u.t.Context(), redlock.Acquire{Token: "x", Lease: time.Minute})
		}, 1, 0},
		"its reply is lost, and others have the lock through the same proxy": {
			func(u unlocking, _ *proxies.Proxy) {
				u.run()
				u.repeated()
				u.p.Lock(u.t.Context(), redlock.Acquire{Token: "x", Lease: time.Minute})
			}, 1, 0},
		"its reply is lost, and the token has the lock again, through another proxy": {
			func(u unlocking, other *proxies.Proxy) {
				u.run()
				u.repeated()
				other.Lock(u.t.Context(), redlock.Acquire{Token: "t", Lease: time.Minute})
			}, 1, 1},
		"it was freed through another proxy": {func(u unlocking, other *proxies.Proxy) {
			if got := other.Unlock("t"); got != 1 {
				u.t.Errorf("the other UNLOCK: %d", got)
			}
		}, -1, 0},
		"it was broken through another proxy": {func(u unlocking, other *proxies.Proxy) {
			if broken, err := other.Client().Breaks("job"); !broken || err != nil {
				u.t.Errorf("BREAK: %v %v", broken, err)
			}
		}, -1, 0},
		"the token has it again through another proxy": {func(u unlocking, other *proxies.Proxy) {
			other.Unlock("t")
			other.Lock(u.t.Context(), redlock.Acquire{Token: "t", Lease: time.Minute})
		}, 1, 0},
		"it was renewed through another proxy": {func(u unlocking, other *proxies.Proxy) {
			r, err := other.Client().Renew(&redlock.Renew{Name: "job", Token: "t", Lease: 2 * time.Minute})
			if r.Left < time.Minute || err != nil {
				u.t.Errorf("RENEW: %v %v", r, err)
			}
		}, 1, 0},
		"it was counted up": {func(u unlocking, other *proxies.Proxy) {
			other.Lock(u.t.Context(), redlock.Acquire{Token: "t", Reentrant: true, Lease: time.Minute})
		}, 0, 1},
		"it was counted up, and sent again": {func(u unlocking, other *proxies.Proxy) {
			other.Lock(u.t.Context(), redlock.Acquire{Token: "t", Reentrant: true, Lease: time.Minute})
			u.run()
			u.repeated()
		}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
				p := proxies.Start(t, s, 2)
				if r := p[0].Lock(t.Context(), redlock.Acquire{Token: "t", Lease: time.Minute}); !r.OK {
					t.Fatalf("LOCK: %+v", r)
				}
				u := unlocks(t, p[0])
				u.isFor(true)
				c.between(u, p[1])
				if got, err := u.finish(); got != c.want || err != nil {
					t.Errorf("UNLOCK is answered %d %v, want %d", got, err, c.want)
				}
				holds := 0
				for _, h := range p[0].State().Holders {
					if h.Owner == redlock.OwnerOf("t") {
						holds = int(h.Count)
					}
				}
				if holds != c.left {
					t.Errorf("the token holds it %d times, want %d", holds, c.left)
				}
				again := unlocks(t, p[0])
				again.isFor(false)
			})
		})
	}
}

// Who waits for a plain lock gets it, at this proxy or at another one. R25
func TestUnlockOfAPlainLockHandsOver(t *testing.T) {
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2)
		for i, waits := range p {
			p[0].Lock(t.Context(), redlock.Acquire{Token: "t", Lease: time.Minute})
			ask := redlock.Acquire{Token: "w", Wait: time.Minute, Lease: time.Minute}
			done := waits.Begin(t.Context(), ask)
			u := unlocks(t, p[0])
			by := u.p.Up.DeleteIf()
			u.isFor(i == 1) // the proxy knows of its own waiters
			reply := u.run()
			u.Req = nil
			u.Then.Answer(reply)
			if more := u.Req != nil; more != (i == 1 && by != "") {
				t.Errorf("UNLOCK takes a second request: %v", more)
			} else if more {
				u.Then.Answer(u.run())
			}
			if !u.Done.Whole || u.Err != nil {
				t.Errorf("UNLOCK: %+v %v", u.Done, u.Err)
			}
			proxies.Granted(t, done)
			if got := waits.Unlock("w"); got != 1 {
				t.Errorf("UNLOCK of the waiter: %d", got)
			}
		}
		s.Empty(t)
	})
}

// An UNLOCK that was sent again until the lease was over says that nobody knows whether it was in time. One
// that was not sent again knows. R13 R33
func TestUnlockOfAPlainLockThatIsOver(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 1)[0]
		for _, repeated := range []bool{false, true} {
			p.Lock(t.Context(), redlock.Acquire{Token: "t", Lease: time.Second})
			u := unlocks(t, p)
			u.isFor(true)
			if repeated {
				u.run()
				u.repeated()
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			switch got, err := u.finish(); {
			case !repeated && (got != -1 || err != nil):
				t.Errorf("UNLOCK: %d %v", got, err)
			case repeated && (err == nil || !strings.Contains(err.Error(), "is not known")):
				t.Errorf("UNLOCK that was sent again: %d %v", got, err)
			}
		}
		p.Lock(t.Context(), redlock.Acquire{Token: "t", Lease: time.Second})
		time.Sleep(2 * time.Second)
		unlocks(t, p).isFor(false) // there is no time left to be sure of
	})
}

// What changes a plain lock through this proxy is known here, so its UNLOCK means any hold of the token.
func TestPlainLocksThatChange(t *testing.T) {
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 1)[0]
		for name, change := range map[string]func(){
			"renewed": func() {
				p.Client().Renew(&redlock.Renew{Name: "job", Token: "t", Lease: time.Minute})
			},
			"asked again": func() { p.Lock(t.Context(), redlock.Acquire{Token: "t", Lease: time.Minute}) },
			"broken":      func() { p.Client().Breaks("job") },
		} {
			p.Lock(t.Context(), redlock.Acquire{Token: "t", Lease: time.Minute})
			change()
			u := unlocks(t, p)
			if u.isFor(false); name == "broken" {
				continue
			}
			if got, err := u.finish(); got != 1 || err != nil {
				t.Errorf("%s: UNLOCK: %d %v", name, got, err)
			}
		}
		s.Empty(t)
	})
}
