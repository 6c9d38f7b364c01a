package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// resident is how many bytes of memory a process has, as the operating system says.
func resident(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err == nil {
		_, rest, _ := strings.Cut(string(text), "VmRSS:")
		text = []byte(rest)
	} else if text, err = exec.Command("ps", "-o", "rss=", "-p", strconv.Itoa(pid)).Output(); err != nil {
		return 0, fmt.Errorf("ps of process %d: %w", pid, err)
	}
	var kb int
	if _, err := fmt.Sscan(string(text), &kb); err != nil {
		return 0, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	return kb << 10, nil
}
