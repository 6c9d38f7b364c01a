// Package integration tests the whole program from outside, as a new user and
// as an enemy would meet it: real redis-servers, real clients, the real binary.
//
//	client --> lockproxy (built with -race, a process of its own) --> redis-server...
//
// Nothing here imports the proxy's packages: what a test knows of the protocol
// it brings along (wire_test.go), so that it cannot share the proxy's mistakes.
package integration

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// long turns the short doses of load and faults into long ones (make soak).
var long = flag.Bool("long", false, "run long doses of load and faults")

// dose is how much of something a test does: a little by default, more with -long.
func dose[T any](short, more T) T {
	if *long {
		return more
	}
	return short
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	for _, tool := range []string{"redis-server", "redis-cli", "redis-benchmark"} {
		if _, err := exec.LookPath(tool); err != nil {
			fmt.Fprintf(os.Stderr, "integration: %s is not installed: run `make test`, or `apt-get install redis-server redis-tools`\n", tool)
			return 1
		}
	}
	stop, err := startKeeper()
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		return 1
	}
	defer stop()
	go watchStalls() // ends with the program
	// Most tests wait most of the time, for servers and time-outs.
	flag.Set("test.parallel", "6")
	defer packageLife.end()
	return m.Run()
}
