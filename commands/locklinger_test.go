package commands_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/redlock/locks"
)

// closes is how a connection ends that its client closes, killed one that it does not.
func closes(s *client) { s.User.Keepalives.Break(s.User.Host(), false) }
func killed(s *client) { s.User.Keepalives.Break(s.User.Host(), true) }
func quits(s *client)  { s.User.Keepalives.Close() }

// begins sends a command, whose reply must begin with want.
func begins(t *testing.T, s *client, command, want string) {
	t.Helper()
	if got := readable(s.Do(command)); !strings.HasPrefix(got, want) {
		t.Errorf("%s: %s, want %s", command, got, want)
	}
}

// The hold of a connection that breaks is kept alive for its LINGER, and then ends as it would have without
// that. R18
func TestLingers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		linger string
		end    func(*client)
		least  time.Duration // it is held for so long
		most   time.Duration // and no longer
	}{
		{"closed", " LINGER 60000", closes, time.Minute - time.Second, time.Minute + time.Second},
		{"closed, for less than a lease", " LINGER 1000", closes, 900 * time.Millisecond, 2 * time.Second},
		{"killed", " LINGER 60000", killed, time.Minute + time.Second, time.Minute + 4*time.Second},
		{"QUIT or RESET", " LINGER 60000", quits, -1, time.Second},
		{"closed without LINGER", "", closes, -1, time.Second},
		{"MAX is used up meanwhile", " MAX 3 LINGER 60000", closes, 5 * time.Second, 7 * time.Second},
		{"MAX is not used up", " MAX 60 LINGER 60000", closes, time.Minute - time.Second,
			time.Minute + time.Second},
	} {
		withLocks(t, locks.Options{}, func(t *testing.T, session func() *client) {
			a, b := session(), session()
			began := time.Now()
			begins(t, a, "LOCK job TOKEN t PX 3000 KEEPALIVE"+tt.linger, "*[t F 3000 1]")
			tt.end(a)
			synctest.Wait()
			if tt.least > 0 {
				time.Sleep(tt.least)
				begins(t, b, "LOCK job", "$nil")
			}
			time.Sleep(time.Until(began.Add(tt.most)))
			begins(t, b, "LOCK job", "*[")
			begins(t, b, "LOCKCTL STATS", "*[proxy ")
			if got := readable(b.Do("LOCKCTL STATS")); !strings.Contains(got,
				" holds 0 lingering 0 ") {
				t.Errorf("%s: %s", tt.name, got)
			}
		})
	}
}

// Whoever comes with the token and KEEPALIVE takes a lingering hold over; UNLOCK ends it. R18 R24
func TestLingeringIsTakenOver(t *testing.T) {
	withLocks(t, locks.Options{}, func(t *testing.T, session func() *client) {
		a, b, c := session(), session(), session()
		for _, verb := range []string{"RENEW job t PX 3000 KEEPALIVE", "LOCK job TOKEN t PX 3000 KEEPALIVE",
			"RENEW job t PX 3000 KEEPALIVE LINGER 1"} {
			a.User.Addr = "10.0.0.1:1"
			begins(t, a, "LOCK job TOKEN t PX 3000 KEEPALIVE LINGER 10000", "*[t ")
			closes(a)
			time.Sleep(8 * time.Second)
			begins(t, b, "LOCKCTL INFO job", "*[state write ")
			if got := readable(b.Do("LOCKCTL INFO job")); !strings.Contains(got, " kept 1 ") {
				t.Error(got)
			}
			if got := readable(b.Do("LOCKCTL STATS")); !strings.Contains(got,
				" holds 1 lingering 1 ") {
				t.Error(got)
			}
			if got := readable(b.Do(verb)); strings.HasPrefix(got, "-") {
				t.Errorf("%s: %s", verb, got)
			}
			if got := readable(b.Do("LOCKCTL STATS")); !strings.Contains(got,
				" holds 1 lingering 0 ") {
				t.Error(got)
			}
			time.Sleep(time.Minute)
			begins(t, c, "LOCK job", "$nil")
			closes(b)
			time.Sleep(100 * time.Millisecond)
			begins(t, c, "LOCK job TOKEN u", "*[u ")
			begins(t, c, "UNLOCK job u", "1")
		}
		begins(t, a, "LOCK job TOKEN t PX 3000 KEEPALIVE LINGER 10000", "*[t ")
		closes(a)
		time.Sleep(5 * time.Second)
		begins(t, b, "UNLOCK job t", "1")
		begins(t, b, "LOCK job TOKEN t PX 60000", "*[t ") // which is another hold
		time.Sleep(20 * time.Second)
		begins(t, c, "LOCKCTL CHECK job t", "*[40000 ")
		begins(t, b, "UNLOCK job t", "1")

		// Without KEEPALIVE it goes on to linger, and then lasts for as long as that client was told.
		begins(t, a, "LOCK job TOKEN t PX 3000 KEEPALIVE LINGER 10000", "*[t ")
		closes(a)
		time.Sleep(time.Second)
		begins(t, b, "RENEW job t PX 60000", "60000")
		time.Sleep(59 * time.Second)
		begins(t, c, "LOCK job", "$nil")
		time.Sleep(2 * time.Second)
		begins(t, c, "LOCK job", "*[")
	})
}

// A lingering hold that is lost is told to whoever comes with its token. A grant that its client has not read
// does not linger, and its end is no loss. R19
func TestLingeringIsLost(t *testing.T) {
	withLocks(t, locks.Options{}, func(t *testing.T, session func() *client) {
		a, b := session(), session()
		begins(t, a, "LOCK job TOKEN t PX 3000 KEEPALIVE LINGER 60000", "*[t ")
		begins(t, a, "LOCK job2 TOKEN t PX 3000 KEEPALIVE LINGER 60000 MAX 1", "*[t ")
		closes(a)
		begins(t, b, "LOCKCTL BREAK job", "1")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		begins(t, b, "RENEW job t KEEPALIVE", "-LOCKLOST job was lost (gone), ")
		begins(t, b, "LOCK job2 TOKEN t KEEPALIVE", "-LOCKLOST job2 was lost (max), ")
		if a.Pushed != "" {
			t.Errorf("pushed %q", a.Pushed)
		}
		begins(t, a, "LOCK job3 TOKEN t PX 3000 KEEPALIVE LINGER 60000", "*[t ")
		closes(a)
		a.Lose()
		time.Sleep(10 * time.Second)
		begins(t, b, "LOCK job3 TOKEN t", "*[t ")
	})
}

// With what lingers a client that connects again and again has no more than one connection may keep alive,
// and others have their share. R18
func TestLingeringShare(t *testing.T) {
	withLocks(t, locks.Options{MaxKept: 6},
		func(t *testing.T, session func() *client) {
			for i, want := range []string{"*[", "*[", "*[", "-ERR this connection keeps 3 holds ", "-ERR "} {
				a := session()
				a.User.Addr = "10.0.0.1:100" + string(rune('0'+i))
				begins(t, a, "LOCK a"+string(rune('0'+i))+" TOKEN t PX 3000 KEEPALIVE LINGER 60000", want)
				closes(a)
				time.Sleep(time.Second)
			}
			a, b := session(), session()
			a.User.Addr, b.User.Addr = "10.0.0.1:2000", "10.0.0.2:2000"
			begins(t, b, "LOCK b1 TOKEN t PX 3000 KEEPALIVE", "*[")
			begins(t, b, "LOCK b2 TOKEN t PX 3000 KEEPALIVE", "*[")
			begins(t, b, "LOCK b3 TOKEN t PX 3000 KEEPALIVE", "-ERR this connection keeps 2 holds ")
			begins(t, a, "RENEW a0 t PX 3000 KEEPALIVE", "3000") // makes no more of them
			time.Sleep(2 * time.Minute)
			begins(t, a, "LOCK a5 TOKEN t PX 3000 KEEPALIVE", "*[")
		})
}
