package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// machine describes where and with what this runs, as a markdown list.
func machine() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# lockproxy: benchmark of %s\n\n", time.Now().Format("2006-01-02 15:04"))
	fmt.Fprintf(&b, "- machine: %d x %s, %s\n", runtime.NumCPU(), processor(), first("uname", "-srm"))
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		fields := strings.Fields(string(load))
		fmt.Fprintf(&b, "- load average before: %s\n", strings.Join(fields[:3], " "))
		if busy, err := strconv.ParseFloat(fields[0], 64); err == nil && busy > float64(runtime.NumCPU())/2 {
			b.WriteString("- **other programs are at work here: the figures are rough, the ratios less " +
				"so**\n")
		}
	}
	fmt.Fprintf(&b, "- %s; %s\n", runtime.Version(),
		first("git", "log", "-1", "--format=lockproxy at %h, %cs"))
	fmt.Fprintf(&b, "- %s; %s\n", first("redis-server", "--version"), first("redis-benchmark", "--version"))
	fmt.Fprintf(&b, "- %s; %s\n", first("nutcracker", "--version"), first("haproxy", "-v"))
	return b.String()
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
		return name + ": " + err.Error()
	}
	return line
}
