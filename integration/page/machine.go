package page

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Machine is where this runs, and of which commit.
func Machine() []string {
	return []string{
		fmt.Sprintf("machine: %d x %s, %s", runtime.NumCPU(), processor(), First("uname", "-sm")),
		runtime.Version() + "; " + First("git", "log", "-1", "--format=lockproxy at %h, %cs"),
	}
}

func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return First("sysctl", "-n", "machdep.cpu.brand_string")
	}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// First is the first line that a program writes.
func First(name string, args ...string) string {
	out, err := exec.Command(name, args...).CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil && line == "" {
		return name + " is not here"
	}
	return line
}
