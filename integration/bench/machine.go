package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// machine describes where and with what this runs.
func machine() []string {
	return []string{
		fmt.Sprintf("machine: %d x %s, %s", runtime.NumCPU(), processor(), first("uname", "-sm")),
		runtime.Version() + "; " + first("git", "log", "-1", "--format=lockproxy at %h, %cs"),
		first("redis-server", "--version") + "; " + first("redis-benchmark", "--version"),
		first("nutcracker", "--version") + "; " + first("haproxy", "-v") + "; " + first("predixy",
			"--version"),
	}
}

func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return first("sysctl", "-n", "machdep.cpu.brand_string")
	}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// first is the first line that a program writes.
func first(name string, args ...string) string {
	out, err := exec.Command(name, args...).CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil && line == "" {
		return name + " is not here"
	}
	return line
}
