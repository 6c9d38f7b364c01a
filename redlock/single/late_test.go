package single

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
)

// A LOCK of unknown outcome that runs after its cancel is taken back all the same, long before its lease is
// over.
func TestLateLockIsTakenBack(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		const most = 1000 // are looked for at once
		names, up := redlock.NewNames("lock:"), &rig.Upstream{S: s}
		defer up.Close()
		refuse, cancels := "", 0
		up.Faults = func(script string) (error, error) {
			switch script {
			case "cancel":
				cancels++
			case refuse:
				return errors.New("the connection was lost"), nil
			}
			return nil, nil
		}
		looked := func(within time.Duration) int { // how many times
			var before, after int
			up.Set(func(*rig.Upstream) { before = cancels })
			time.Sleep(within)
			up.Set(func(*rig.Upstream) { after = cancels })
			return after - before
		}
		e := New(up, names, Options{MaxQueue: 10, MaxReaders: 10, Log: slog.New(slog.DiscardHandler)})
		request := func(token string, wait time.Duration) *redlock.Acquire {
			a := &redlock.Acquire{
				Name: "job", Mode: redlock.Write, Token: token, Lease: time.Minute, Wait: wait,
			}
			a.ID = names.NewID(a)
			return a
		}
		lost := func(a *redlock.Acquire) (req []byte) { // it is lost on its way, for now
			t.Helper()
			n := rig.NotedAcquire(e, a)
			n.Then.Answer([]byte("-ERR the connection was lost\r\n"))
			if n.Err == nil || redlock.Refused(n.Err) {
				t.Fatal(n.Err)
			}
			e.Undo(a)
			return n.Req
		}
		late := func(req []byte, within time.Duration) {
			t.Helper()
			c := s.Connect()
			defer c.Close()
			if reply, err := c.Do(req); err != nil || reply[0] != ':' && reply[0] != '*' {
				t.Fatalf("%q, %v", reply, err)
			}
			if len(s.Keys()) == 0 {
				t.Fatal("it has made nothing")
			}
			time.Sleep(within)
			s.Empty(t)
		}
		for _, wait := range []time.Duration{0, time.Minute} {
			req := lost(request("t", wait))
			time.Sleep(500 * time.Millisecond) // the first cancel has found nothing
			late(req, 600*time.Millisecond)
			late(req, 2*time.Second)
			late(req, 6*time.Second)
			late(req, 18*time.Second)
			time.Sleep(2*time.Minute + time.Second)
			if n := looked(time.Hour); n != 0 {
				t.Errorf("requests are still looked for when their leases are over: %d times", n)
			}
		}

		// One that fails while it waits is looked for as well.
		client := func() *rig.Asker { return &rig.Asker{L: e, Up: up} }
		if _, ok, err := client().Acquire(request("0", 0)); !ok {
			t.Fatal(err)
		}
		waits := request("1", time.Minute)
		if _, ok, err := client().Acquire(waits); ok || err != nil {
			t.Fatal(ok, err)
		}
		up.Set(func(*rig.Upstream) { refuse = "acquire" })
		if g, ok, err := e.Wait(t.Context(), waits); err == nil {
			t.Errorf("%+v %v", g, ok)
		}
		client().Release(&redlock.Release{Name: "job", Token: "0"})
		time.Sleep(500 * time.Millisecond)
		if n := looked(time.Second); n != 1 {
			t.Errorf("%d requests are looked for, want that of the waiter", n)
		}

		// There are not more of them than can be, and the proxy stops without them.
		for range most + 100 {
			lost(request("t", 0))
		}
		time.Sleep(500 * time.Millisecond)
		if n := looked(900 * time.Millisecond); n != most-1 { // beside that of the waiter, a little later
			t.Errorf("%d requests are looked for, want %d", n, most-1)
		}
		began := time.Now()
		e.Close(context.Background())
		if took := time.Since(began); took > 0 {
			t.Errorf("stopping took %v", took)
		}
		if n := looked(time.Hour); n != 0 {
			t.Errorf("requests are looked for after the end: %d times", n)
		}
	})
}
