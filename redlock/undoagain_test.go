package redlock

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A LOCK of unknown outcome that runs after its cancel is taken back all the same, long before its lease is
// over.
func TestLateLockIsTakenBack(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *server) {
		p := s.proxies(t, 1)[0]
		lost := func(a Acquire) (req []byte) { // it is lost on its way, for now
			t.Helper()
			q := p.NewAcquire(a)
			_, req = p.single().acquireRequest(q)
			if _, _, err := p.single().readFirst(q, []byte("-ERR the connection was lost\r\n")); err == nil || Refused(err) {
				t.Fatal(err)
			}
			p.Undo(q)
			return req
		}
		late := func(req []byte, within time.Duration) {
			t.Helper()
			c := s.connect()
			defer c.Close()
			if reply, err := c.do(req); err != nil || reply[0] != ':' && reply[0] != '*' {
				t.Fatalf("%q, %v", reply, err)
			}
			if len(s.keys()) == 0 {
				t.Fatal("it has made nothing")
			}
			time.Sleep(within)
			s.empty(t)
		}
		for _, wait := range []time.Duration{0, minute} {
			req := lost(Acquire{Name: "job", Mode: Write, Lease: minute, Wait: wait})
			time.Sleep(500 * time.Millisecond) // the first cancel has found nothing
			late(req, 600*time.Millisecond)
			late(req, 2*time.Second)
			late(req, 6*time.Second)
			late(req, 18*time.Second)
			time.Sleep(2*minute + time.Second)
			if n := p.single().late.cancels.Load(); n != 0 {
				t.Errorf("%d requests are still looked for when their leases are over", n)
			}
		}

		// One that fails while it waits is looked for as well.
		granted(t, p.begin(t.Context(), Acquire{Token: "0"}))
		done := p.begin(t.Context(), Acquire{Token: "1", Wait: minute})
		p.up.set(func(u *upstream) {
			u.faults = func(script string) (error, error) {
				if script == "acquire" {
					return errors.New("the connection was lost"), nil
				}
				return nil, nil
			}
		})
		if r := <-done; r.err == nil {
			t.Errorf("%+v", r)
		}
		p.unlock("0")
		time.Sleep(500 * time.Millisecond)
		if n := p.single().late.cancels.Load(); n != 1 {
			t.Errorf("%d requests are looked for, want that of the waiter", n)
		}

		// There are not more of them than can be, and the proxy stops without them.
		for range maxLate + 100 {
			lost(Acquire{Name: "job", Mode: Write, Lease: minute})
		}
		time.Sleep(500 * time.Millisecond)
		if n := p.single().late.cancels.Load(); n != maxLate {
			t.Errorf("%d requests are looked for, want %d", n, maxLate)
		}
		began := time.Now()
		p.Close(context.Background())
		if took := time.Since(began); took > 0 || p.single().late.cancels.Load() != 0 {
			t.Errorf("stopping took %v, with %d requests that are still looked for", took, p.single().late.cancels.Load())
		}
	})
}
