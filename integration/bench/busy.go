package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// usage is what all programs of the machine had used at a moment, and those of the benchmark.
type usage struct {
	at               time.Time
	all, stolen, own time.Duration
	load             string // average of a minute
}

// tick is the unit of /proc/stat.
const tick = 10 * time.Millisecond

// usage is zero where the system does not say.
func (y *yard) usage() (u usage) {
	u.at = time.Now()
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		u.load, _, _ = strings.Cut(string(text), " ")
	}
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u
	}
	var user, nice, system, idle, wait, irq, soft, steal time.Duration
	fmt.Sscanf(string(text), "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &irq, &soft,
		&steal)
	u.all, u.stolen = (user+nice+system+irq+soft)*tick, steal*tick
	for _, p := range y.processes {
		if t, err := cpuTime(p.pid()); err == nil {
			u.own += t
		}
	}
	if t, err := cpuTime(os.Getpid()); err == nil {
		u.own += t
	}
	var ended unix.Rusage // of those that it has ended
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &ended); err == nil {
		u.own += time.Duration(ended.Utime.Nano() + ended.Stime.Nano())
	}
	return u
}

// until says how busy the machine was.
func (u usage) until(later usage) string {
	if u.all == 0 {
		return "how busy the machine was is not known"
	}
	took := later.at.Sub(u.at).Seconds()
	others := max(0, (later.all-u.all)-(later.own-u.own))
	text := fmt.Sprintf("%d CPUs, of which other programs used %.2f and the host took %.2f", runtime.NumCPU(),
		others.Seconds()/took, (later.stolen-u.stolen).Seconds()/took)
	return fmt.Sprintf("%s; load average %s before, %s after", text, u.load, later.load)
}
