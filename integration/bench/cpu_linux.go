package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the CPU time that a process has used, all its threads, also those
// that have ended: the kernel's CPU-time clock of the process, which counts in
// nanoseconds what /proc/PID/stat shows in hundredths of a second.
func cpuTime(pid int) (time.Duration, error) {
	var t unix.Timespec
	clock := int32(^pid<<3 | 2) // clock_getcpuclockid(3)
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, err
	}
	return time.Duration(t.Nano()), nil
}
