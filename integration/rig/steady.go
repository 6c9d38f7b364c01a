package rig

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
)

const (
	// stallStep is how often the machine is looked at.
	stallStep = 20 * time.Millisecond
	// stallLate is how late a timer must be for the machine to count as standing still: other processes may
	// have to wait for several times as long then.
	stallLate = 10 * time.Millisecond
)

// stalls notes when the machine stood still: a busy one stops every program on it for longer
// than leases of milliseconds are.
var stalls struct {
	mu   sync.Mutex
	last time.Time     // the end of the last one
	all  time.Duration // of all of them
}

// watchStalls looks at the machine for as long as the program runs.
func watchStalls() {
	for last := time.Now(); ; {
		time.Sleep(stallStep)
		now := time.Now()
		if late := now.Sub(last) - stallStep; late > stallLate {
			stalls.mu.Lock()
			stalls.last, stalls.all = now, stalls.all+late
			stalls.mu.Unlock()
		}
		last = now
	}
}

// stalledSince says that the machine stood still at some time after start.
func stalledSince(start time.Time) bool {
	time.Sleep(2 * stallStep) // or the last one would not be noted yet
	stalls.mu.Lock()
	defer stalls.mu.Unlock()
	return stalls.last.After(start)
}

// overloaded says that far more has wanted to run in the last minute than the machine has processors, where
// the system tells: then others may have stood still while this process ran.
func overloaded() bool {
	text, _ := os.ReadFile("/proc/loadavg")
	var load float64
	fmt.Sscan(string(text), &load)
	return load > 2*float64(runtime.NumCPU())
}

// steadyAttempts is how often a test is tried while the machine stands still.
const steadyAttempts = 6

// Steady runs what real time decides, again if it failed while the machine stood still. A failure on a
// machine that did not is one at once.
func Steady(t *testing.T, attempt func() error) {
	t.Helper()
	for i := 1; ; i++ {
		start := time.Now()
		err := attempt()
		if err == nil {
			return
		}
		if i == steadyAttempts || !stalledSince(start) && !overloaded() {
			t.Error(err)
			return
		}
		t.Logf("the machine stood still, once more: %v", err)
	}
}
