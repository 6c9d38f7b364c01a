package single

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
)

// An UNLOCK says the fence that its hold should have: that of the last grant to the token, or the one that
// its client names; but none if its client has named the request, which may have run through another proxy.
func TestUnlockSaysTheFenceOfItsHold(t *testing.T) {
	e := New(rig.Nothing{}, redlock.NewNames("lock:"), Options{})
	a := &redlock.Acquire{Name: "job", Token: "t", Mode: redlock.Write, Lease: time.Minute, ID: "an id"}
	const want = "1800000000000007"
	for _, reply := range []string{":" + want + "\r\n", "$-1\r\n"} { // granted, and then held by others
		noted(e, a).Then.Answer([]byte(reply))
		for _, c := range []struct {
			r    redlock.Release
			want string
		}{
			{redlock.Release{Name: "job", Token: "t"}, want},
			{redlock.Release{Name: "job", Token: "t", Fence: 42}, "42"},
			{redlock.Release{Name: "job", Token: "t", Named: "mine"}, ""},
		} {
			req := e.releaseCall(nil, &sentRelease{r: &c.r, fresh: e.names.NewRequest()}).Req
			request := strings.Split(arguments(t, req)[6], " ")
			if got := request[len(request)-1]; got != c.want {
				t.Errorf("%+v says %q, want %q", c.r, got, c.want)
			}
		}
	}
}

// noting is who asks for a lock: it notes the outcome, as a locks.Locker does.
type noting struct {
	*rig.Noted
	e *Engine
	a *redlock.Acquire
}

func (n noting) Acquired(g redlock.Grant, ok bool, err error) []byte {
	if ok {
		n.e.grants.Granted(n.a, &g, g.At, nil)
	} else {
		n.e.grants.Refused(n.a)
	}
	return n.Noted.Acquired(g, ok, err)
}

// noted is the request of a, whose outcome is noted.
func noted(e *Engine, a *redlock.Acquire) *rig.Noted {
	n := noting{&rig.Noted{}, e, a}
	e.Acquire(n, a, n)
	return n.Noted
}

// Once a lock was freed in another way, an UNLOCK that is sent twice is not taken for one that has freed it:
// it is release.lua that decides. R5
func TestUnlockAfterAnotherRelease(t *testing.T) {
	for name, free := range map[string]func(*Engine){
		"named": func(e *Engine) {
			n := rig.NotedRelease(e, &redlock.Release{Name: "job", Token: "t", Named: "id"})
			n.Then.Answer([]byte(":1\r\n"))
		},
		"likewise": func(e *Engine) {
			n := rig.NotedRelease(e, &redlock.Release{Name: "job", Token: "t"})
			n.Then.Answer([]byte(":1\r\n"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := New(rig.Nothing{}, redlock.NewNames("lock:"), Options{})
			a := &redlock.Acquire{Name: "job", Token: "t", Mode: redlock.Write, Lease: time.Minute}
			a.ID = e.names.NewID(a)
			noted(e, a).Then.Answer([]byte(":1\r\n"))
			free(e)
			n := rig.NotedRelease(e, &redlock.Release{Name: "job", Token: "t"})
			if holder := arguments(t, n.Req)[5]; holder != redlock.OwnerOf("t") {
				t.Errorf("UNLOCK means %q", holder)
			}
		})
	}
}

// order notes in which order two clients are told.
type order struct {
	*rig.Noted
	told []string
}

func (o *order) Released(redlock.Released, error) []byte {
	o.told = append(o.told, "released")
	return nil
}

// Who frees a lock is told before the waiter that gets it: what is noted of the hold is about the one that
// ends. R12
func TestReleasedBeforeHandedOver(t *testing.T) {
	for how, free := range map[string]func(*testing.T, *Engine, *rig.Upstream, *order) error{
		"UNLOCK": func(t *testing.T, e *Engine, up *rig.Upstream, o *order) error {
			e.Release(o, &redlock.Release{Name: "job", Token: "first"}, o)
			reply, err := up.Do(t.Context(), o.Slot, o.Req, true)
			o.Then.Answer(reply)
			return err
		},
		"kept alive": func(t *testing.T, e *Engine, _ *rig.Upstream, o *order) error {
			freed := func() { o.Released(redlock.Released{}, nil) }
			return e.Detach(t.Context(), "job", "first", "p:1", freed)
		},
	} {
		t.Run(how, func(t *testing.T) {
			rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
				up := &rig.Upstream{S: s}
				defer up.Close()
				e := New(up, redlock.NewNames("lock:"),
					Options{MaxQueue: 9, Log: slog.New(slog.DiscardHandler)})
				defer e.Close(t.Context())
				o := &order{Noted: &rig.Noted{}}
				ask := func(token, keeper string) *redlock.Acquire {
					a := &redlock.Acquire{Name: "job", Token: token, Mode: redlock.Write, Lease: time.Hour,
						Wait: time.Hour, Keeper: keeper}
					a.ID = e.names.NewID(a)
					(&rig.Asker{L: e, Up: up}).Acquire(a)
					return a
				}
				ask("first", "p:1")
				a := ask("second", "")
				a.Handed = func(redlock.Grant) { o.told = append(o.told, "granted") }
				waited := make(chan bool)
				go func() { // ends with the wait
					_, ok, _ := e.Wait(t.Context(), a)
					waited <- ok
				}()
				time.Sleep(time.Second)
				err := free(t, e, up, o)
				if ok := <-waited; err != nil || !ok || len(o.told) != 2 || o.told[0] != "released" {
					t.Error(ok, o.told, err)
				}
			})
		})
	}
}
