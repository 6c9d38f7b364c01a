package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps on this thread alone. The runtime's timers are late by up to a millisecond in a process that has
// nothing else to do.
func nap(d time.Duration) {
	// The kernel adds 50 µs to be lazy unless asked not to. Where it refuses, that is all.
	unix.Prctl(unix.PR_SET_TIMERSLACK, 1000, 0, 0, 0)
	t := unix.NsecToTimespec(int64(d))
	unix.Nanosleep(&t, nil)
}
