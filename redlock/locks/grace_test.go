//go:build !quick

package locks_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/locks"
)

// The master has another replication id all of a sudden, as after a fail-over: nothing new is
// granted for the grace, to nobody; renewals and releases go on, and so do those who hold the lock
// already. R26
func TestFailoverGrace(t *testing.T) {
	for period := 700 * time.Millisecond; !graceRefuses(t, period); period *= 4 {
		if period > time.Minute {
			t.Fatalf("the machine is too slow for a grace of %v", period)
		}
	}
}

// graceRefuses is the test with that grace. It returns false if the machine was so busy that the grace was
// over before all was asked.
func graceRefuses(t *testing.T, period time.Duration) (inTime bool) {
	s := rig.StartRedis(t)
	both := proxies.Start(t, s, 2, locks.Options{FailoverGrace: period})
	p, other := both[0], both[1]
	inTime = true
	changed := time.Now()
	refused := func(r proxies.Result) {
		t.Helper()
		if r.OK || r.Err == nil || !strings.HasPrefix(r.Err.Error(), "TRYAGAIN ") ||
			!strings.Contains(r.Err.Error(), " ms ") {
			if inTime = time.Now().Before(changed.Add(period)); inTime {
				t.Fatalf("in the grace: %+v", r)
			}
		}
	}

	// A master that was never promoted, and that was never another one, grants once it is older than any
	// lease may be.
	young := func() bool { return strings.Contains(s.Ask("INFO", "server").Text(), "uptime_in_seconds:0\r") }
	if r := other.Lock(t.Context(),
		redlock.Acquire{Name: "young{job}", Token: "y", Lease: time.Minute}); young() {
		refused(r)
	}
	// Redis tells its age in whole seconds.
	time.Sleep(time.Until(changed.Add(period + 1100*time.Millisecond)))
	if r := p.Lock(t.Context(), redlock.Acquire{Token: "a", Lease: time.Minute}); !r.OK || r.Err != nil {
		t.Fatalf("before anything has happened: %+v", r)
	}
	if r := other.Lock(t.Context(),
		redlock.Acquire{Name: "elsewhere{job}", Token: "x", Lease: time.Minute}); !r.OK {
		t.Fatalf("before anything has happened: %+v", r)
	}
	queued := p.Begin(t.Context(), redlock.Acquire{Token: "b", Wait: time.Minute})
	promote(t, s)
	changed = time.Now()

	if r := p.Lock(t.Context(), redlock.Acquire{Token: "a", Lease: 2 * time.Minute}); !r.OK ||
		r.TTL < time.Minute {
		t.Errorf("the one who holds it, again: %+v", r)
	}
	r, err := p.Client().Renew(&redlock.Renew{Name: "job", Token: "a", Lease: 3 * time.Minute})
	if err != nil || r.Left == 0 {
		t.Errorf("renewal: %+v %v", r, err)
	}
	refused(other.Lock(t.Context(), redlock.Acquire{Name: "new{job}", Token: "y"}))
	elsewhere := redlock.Acquire{Name: "elsewhere{job}", Token: "y", Break: true}
	refused(other.Lock(t.Context(), elsewhere)) // and ends no hold
	r, err = p.Client().Renew(&redlock.Renew{Name: elsewhere.Name, Token: "x", Lease: time.Minute})
	if err != nil || inTime && r.Left == 0 {
		t.Errorf("what was not to be broken: %+v %v", r, err)
	}
	if got := p.Unlock("a"); got != 1 {
		t.Errorf("release: %d", got)
	}
	refused(<-queued) // the release hands nothing on
	refused(p.Lock(t.Context(), redlock.Acquire{Name: "waits{job}", Token: "c", Wait: time.Second}))
	refused(p.Lock(t.Context(), redlock.Acquire{Name: "reads{job}", Token: "r", Mode: redlock.Read}))

	time.Sleep(time.Until(changed.Add(period + 300*time.Millisecond)))
	for _, q := range both {
		until(t, "granted after the grace", func() bool { // which began when this proxy saw the master
			late := redlock.Acquire{Name: "late{job}", Token: q.ID(), Mode: redlock.Read}
			return q.Lock(t.Context(), late).OK
		})
	}
	return inTime
}

// A reply that is lost, or a connection that breaks, does not end the grace: whoever asks again is refused,
// and nothing is left. R26 R33
func TestFailoverGraceAndLostReplies(t *testing.T) {
	s := rig.StartRedis(t)
	p := proxies.Start(t, s, 1, locks.Options{FailoverGrace: time.Hour})[0] // Redis is younger
	cut, n := errors.New("the connection has broken"), 0
	p.Up.Set(func(u *rig.Upstream) {
		u.Faults = func(script string) (before, after error) {
			if n++; script == "acquire" && n%2 == 1 {
				return nil, cut
			}
			return nil, nil
		}
	})
	for range 6 {
		if r := p.Lock(t.Context(), redlock.Acquire{Token: "t"}); r.OK || r.Err == nil {
			t.Errorf("replies are lost: %+v", r)
		}
	}
	if n := p.Up.Asked(); n < 6 {
		t.Errorf("only %d requests: the test does not test", n)
	}
	p.Up.Set(func(u *rig.Upstream) { u.Faults = nil })
	for _, token := range []string{"t", "u"} {
		if r := p.Lock(t.Context(), redlock.Acquire{Token: token}); r.OK || r.Err == nil ||
			!strings.HasPrefix(r.Err.Error(), "TRYAGAIN ") {
			t.Errorf("in the grace: %+v", r)
		}
	}
	s.Empty(t)
}

// promote has a master be a replica for a moment, which nobody sees but by its replication id.
func promote(t *testing.T, s *rig.Server) {
	c := s.Connect()
	defer c.Close()
	for _, line := range []string{"MULTI", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "EXEC"} {
		reply, err := c.Do(resp.AppendCommandStrings(nil, strings.Fields(line)...))
		if err != nil || reply[0] == '-' {
			t.Fatalf("%s: %q %v", line, reply, err)
		}
	}
}
