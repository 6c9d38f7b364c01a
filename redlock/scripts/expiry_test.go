//go:build !quick

package scripts_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/scripts"
)

// In the millisecond in which a lease ends, its key is still there, with 0 ms to live. A request then finds
// a lock that ends, and no foreign key. R3 R30
func TestLastMillisecond(t *testing.T) {
	s := rig.StartRedis(t)
	l := &teller{t: t, s: s, c: s.Connect()}
	defer l.c.Close()
	both := []string{rig.LockKey, fenceKey}
	calls := map[string]func(n int) string{
		"a waiter": func(n int) string {
			return l.show(l.run(scripts.Acquire, both, "b", "1000", "w", fmt.Sprintf("id%014d", n), "0", "P1",
				"5000", "100", "SPUBLISH"))
		},
		"the holder": func(n int) string {
			return l.show(l.run(scripts.Acquire, both, "a", "1", "w", fmt.Sprintf("id%014d", n), "1"))
		},
		"a break": func(n int) string { return l.show(l.run(breakScript, both, "P1", "SPUBLISH")) },
		"a renewal": func(n int) string {
			return l.show(renewedIn(l.run(renewScript, both[:1], "a", "1", "")))
		},
	}
	for who, call := range calls {
		for n := range 40 {
			s.Ask("DEL", rig.LockKey)
			l.run(scripts.Acquire, both, "a", "3", "w", "id", "0")
			for s.Ask("PTTL", rig.LockKey).Int > 1 { // a call before makes the lock a hash
			}
			time.Sleep(time.Duration(n*50) * time.Microsecond)
			if got := call(n); strings.HasPrefix(got, "-") {
				t.Errorf("%s: %s", who, got)
				break
			}
		}
	}
}

// A lease of one millisecond may end before the script that grants it. Nothing of it stays: otherwise that
// would be a key without a time to live and without a layout. R2 R30
func TestShortestLease(t *testing.T) {
	s := rig.StartRedis(t)
	l := &teller{t: t, s: s, c: s.Connect()}
	defer l.c.Close()
	for n := range 25_000 {
		v := l.run(scripts.Acquire, []string{rig.LockKey, fenceKey}, "a", "1", "r",
			fmt.Sprintf("id%014d", n), "0", "", "", "", "SPUBLISH")
		if v.Err() != "" {
			t.Fatalf("after %d leases: %s, left: %s with %s ms", n, v.Err(),
				textOf(s.Ask("HGETALL", rig.LockKey)), textOf(s.Ask("PTTL", rig.LockKey)))
		}
	}
}
