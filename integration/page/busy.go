package page

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is what all programs of the machine had used at a moment, and those of a measurement.
type Usage struct {
	at               time.Time
	all, stolen, own time.Duration
	load             string // average of a minute
}

// tick is the unit of /proc/stat.
const tick = 10 * time.Millisecond

// UsageNow is zero where the system does not say. running is what those had used that this program has
// started and that still run.
func UsageNow(running time.Duration) (u Usage) {
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
	u.own = running + CPU(unix.RUSAGE_SELF) + CPU(unix.RUSAGE_CHILDREN) // those that it has ended
	return u
}

// CPU is the CPU time that this program has used so far, or those that it has ended.
func CPU(who int) time.Duration {
	var used unix.Rusage
	unix.Getrusage(who, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// Until says how busy the machine was.
func (u Usage) Until(later Usage) string {
	if u.all == 0 {
		return "how busy the machine was is not known"
	}
	took := later.at.Sub(u.at).Seconds()
	others := max(0, (later.all-u.all)-(later.own-u.own))
	text := fmt.Sprintf("%d CPUs, of which other programs used %.2f and the host took %.2f", runtime.NumCPU(),
		others.Seconds()/took, (later.stolen-u.stolen).Seconds()/took)
	return fmt.Sprintf("%s; load average %s before, %s after", text, u.load, later.load)
}
