// Package rig starts what the tests of the whole program need: real servers, the real program, links between
// them that can fail, and a client that shares no code with the proxy.
//
//	client --> lockproxy (a process of its own) --> redis-server...
//
// A package of tests calls Main in its TestMain. Everything that a test starts ends with it; a keeper process
// ends the rest if the test binary is killed. Packages of tests may run side by side: no port is given away
// twice, and the program is built once for all.
//
// Nothing here imports the proxy's packages: what a test knows of the protocol it brings along (wire.go), so
// that it cannot share the proxy's mistakes.
package rig

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
)

// Long turns the short doses of load and faults into long ones (make soak).
var Long = flag.Bool("long", false, "run long doses of load and faults")

// Dose is how much of something a test does: a little by default, more with -long.
func Dose[T any](short, more T) T {
	if *Long {
		return more
	}
	return short
}

// Raced has all proxies have the race detector (make soak).
var Raced = flag.Bool("raced", false, "run proxies that are built with the race detector")

// Main runs the tests of a package: its TestMain calls it.
func Main(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	end, err := begin()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rig:", err)
		return 1
	}
	defer end()
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given { // most tests wait most of the time, for servers and time-outs
		flag.Set("test.parallel", "6")
	}
	return m.Run()
}

// Program is main of a program that is no test: name, how its arguments are read, and what it does. ctx ends
// when somebody interrupts it; a second interrupt ends the program. What it starts ends with it.
func Program[O any](name string, parse func([]string) (O, error), run func(ctx context.Context, o O) error) {
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	code := 2
	if err == nil {
		code = 1
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer context.AfterFunc(ctx, stop)()
		var end func()
		if end, err = begin(); err == nil {
			err = run(ctx, o)
			end()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(code)
	}
}

// begin prepares for what is to be started, which ends at the latest with end.
func begin() (end func(), err error) {
	apart()
	for _, tool := range []string{"redis-server", "redis-cli", "redis-benchmark"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%s is not installed: run `make test`, or "+
				"`apt-get install redis-server redis-tools`", tool)
		}
	}
	stop, err := startKeeper()
	if err != nil {
		return nil, err
	}
	return func() {
		for _, wrong := range packageLife.End() {
			fmt.Fprintln(os.Stderr, "integration:", wrong)
		}
		stop()
	}, nil
}
