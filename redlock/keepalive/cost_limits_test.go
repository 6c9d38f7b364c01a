//go:build limits

package keepalive

import (
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A renewal of 100,000 holds takes hardly more of a CPU than one of 1,000. R18
func TestLimitCostOfKeeping(t *testing.T) {
	few, many := renewalOf(t, 1000), renewalOf(t, 100_000)
	t.Logf("a renewal: %v of 1,000 holds, %v of 100,000", few, many)
	if many > 3*few {
		t.Errorf("a renewal takes %v of 1,000 holds, and %v of 100,000", few, many)
	}
}

// renewalOf is how much of a CPU a renewal takes of n holds.
func renewalOf(t *testing.T, n int) (each time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		u := &echo{}
		l, all := keepMany(u, n)
		before := cpuTime()
		time.Sleep(rounds * lease / 3)
		synctest.Wait()
		each = (cpuTime() - before) / time.Duration(u.renewals)
		for _, h := range all {
			h.Forget()
		}
		l.Close(t.Context())
	})
	return each
}

// cpuTime is what the process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
