package rig

import "fmt"

// LockInfo is LOCKCTL INFO of a lock.
func LockInfo(l Life, addr, name string) (state string, waiters int64) {
	l.Helper()
	v, err := Ask(addr, "LOCKCTL", "INFO", name)
	if err != nil {
		l.Fatalf("%v", err)
	}
	return v.Field("state").Text, v.Field("waiters").Int()
}

// WaitersOf waits until that many wait for a lock.
func WaitersOf(l Life, addr, name string, want int64) {
	l.Helper()
	Eventually(l, Patience, fmt.Sprintf("%d waiters of %s", want, name), func() bool {
		_, got := LockInfo(l, addr, name)
		return got == want
	})
}
