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

// HoldMany takes n locks, whose names are those of the numbers below n by a format, for an hour.
func HoldMany(l Life, addr, format string, n int) {
	l.Helper()
	c := Connect(l, addr)
	const most = 64 // of one command
	for from := 0; from < n; from += most {
		var names []string
		for i := from; i < min(from+most, n); i++ {
			names = append(names, fmt.Sprintf(format, i))
		}
		command := append([]string{"MLOCK", fmt.Sprint(len(names))}, names...)
		c.Must(l, append(command, "TOKEN", "t", "PX", "3600000")...)
	}
}
