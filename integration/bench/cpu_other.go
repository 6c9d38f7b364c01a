//go:build !linux

package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// cpuTime is the CPU time that a process has used, all its threads, as ps tells
// it: in hundredths of a second at best.
func cpuTime(pid int) (time.Duration, error) {
	out, err := exec.Command("ps", "-o", "time=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return 0, fmt.Errorf("ps of process %d: %w", pid, err)
	}
	var seconds float64
	for part := range strings.SplitSeq(strings.TrimSpace(string(out)), ":") {
		f, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return 0, fmt.Errorf("ps of process %d: %w", pid, err)
		}
		seconds = seconds*60 + f
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
