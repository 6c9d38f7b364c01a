package commands_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/commands/lock"
	"lockproxy/redlock/index"
	"lockproxy/redlock/locks"
)

// show makes a line of each kind of durations: how many there were, and their sum.
func show(all []lock.Durations) (text string) {
	for _, d := range all {
		text += fmt.Sprintf("%s %q %s: %d %s\n", d.Verb, d.Prefix, d.Outcome, d.Count,
			time.Duration(d.Sum*1e9))
	}
	return text
}

// How long locks are waited for and held, by verb, prefix and outcome.
func TestTimesOfLocks(t *testing.T) {
	ledger := func(x *index.Index) *lock.Ledger {
		return lock.NewLedger(x, []string{"job:", "job:big:"}, nil)
	}
	withLedger(t, locks.Options{Lease: 10 * time.Second}, ledger, func(t *testing.T,
		ledger *lock.Ledger, session func() *client,
	) {
		a, b := session(), session()
		do := func(s *client, command, want string) {
			t.Helper()
			if got := readable(s.Do(command)); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s, want %s", command, got, want)
			}
		}
		do(a, "LOCK job:1 TOKEN t", "*[t")
		do(b, "LOCK job:1 WAIT 300", "$nil")
		do(b, "LOCK job:1 TRIES 1 EVERY 10", "$nil") // does not wait
		do(a, "LOCK job:1 TOKEN t REENTRANT", "*[t")
		time.Sleep(700 * time.Millisecond)
		do(b, "UNLOCK job:1 t", "0")
		do(b, "UNLOCK job:1 t", "1") // over another connection, after 1 s
		do(b, "UNLOCK job:1 t", "$nil")

		do(a, "WLOCK job:big:1 TOKEN t PX 2000", "*[t")
		do(a, "RLOCK doc TOKEN r PX 1000", "*[r")
		do(b, "RENEW doc r PX 3000", "3000")
		do(a, "SEMLOCK pool PERMITS 1 TOKEN s PX 1000", "*[s")
		do(b, "SEMLOCK pool PERMITS 1 WAIT 300", "$nil")
		time.Sleep(5 * time.Second) // 2 s and 3 s of leases
		do(a, "LOCK doc TOKEN u", "*[u")
		time.Sleep(time.Second)
		do(b, "LOCKCTL BREAK doc", "1")

		do(a, "LOCK kept TOKEN t PX 300 KEEPALIVE", "*[t")
		do(b, "LOCK kept2 TOKEN t PX 300 KEEPALIVE MAX 1", "*[t")
		time.Sleep(time.Minute)
		a.User.Keepalives.Close()
		time.Sleep(time.Second)
		times := ledger.Times()
		if got, want := show(times.Waits), `lock "job:big:" granted: 1 0s
lock "job:" granted: 2 0s
lock "job:" timeout: 1 300ms
lock "" granted: 3 0s
rlock "" granted: 1 0s
semlock "" granted: 1 0s
semlock "" timeout: 1 300ms
`; got != want {
			t.Errorf("waits:\n%s\nwant\n%s", got, want)
		}
		holds := show(times.Holds)
		_, lost, _ := strings.Cut(holds, `lock "" lost: 1 `)
		took, _, _ := strings.Cut(lost, "\n")
		if d, err := time.ParseDuration(took); err != nil || d < 300*time.Millisecond || d > 2*time.Second {
			t.Errorf("lost after %s", took)
		}
		if got, want := strings.Replace(holds, took, "", 1), `lock "job:big:" expired: 1 2s
lock "job:" released: 1 1s
lock "" released: 1 1m0s
lock "" lost: 1 
lock "" broken: 1 1s
rlock "" expired: 1 3s
semlock "" expired: 1 1s
`; got != want {
			t.Errorf("holds:\n%s\nwant\n%s", got, want)
		}
		for _, d := range times.Waits {
			if d.Outcome == "timeout" && (d.Below[0.25] != 0 || d.Below[0.5] != 1 || d.Below[600] != 1) {
				t.Errorf("buckets %v", d.Below)
			}
		}
	})
}

// A grant that its client was not told of is no hold.
func TestTimesOfUnreadGrant(t *testing.T) {
	ledger := func(x *index.Index) *lock.Ledger { return lock.NewLedger(x, nil, nil) }
	withLedger(t, locks.Options{}, ledger,
		func(t *testing.T, ledger *lock.Ledger, session func() *client) {
			a := session()
			a.Do("LOCK job TOKEN t")
			a.Lose()
			synctest.Wait()
			time.Sleep(time.Hour)
			if holds := ledger.Times().Holds; len(holds) > 0 {
				t.Errorf("holds: %s", show(holds))
			}
		})
}
