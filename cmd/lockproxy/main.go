// Command lockproxy stands between Redis clients and a Redis Cluster, a Sentinel
// group or one Redis, and adds verbs that take and free distributed locks.
//
// This package is the program around the data plane:
//
//	flags, environment, file --> load --> check --> Values --> Config (CONFIG GET, SET)
//	                                                  |
//	             signals --> program.run: admin HTTP, upstream, listeners ... drain
//
// It is the top floor: only here are flags, environment and files read. The
// settings are the options of packages proxy and cluster; wire.go makes the data plane of them.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // something outside went wrong: an address in use, say
	exitUsage  = 2 // the settings are wrong
)

func main() { os.Exit(realMain(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)) }

func realMain(args, environ []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "health" {
		return health(args[1:], environ, stdout, stderr)
	}
	v, err := load(args, environ)
	if err == nil {
		err = check(v)
	}
	switch {
	case errors.Is(err, errHelp):
		writeHelp(stdout)
		return exitOK
	case errors.Is(err, errVersion):
		io.WriteString(stdout, versionLine())
		return exitOK
	case err != nil:
		complain(stderr, err)
		return exitUsage
	}
	certs, err := loadCerts(v)
	if err != nil {
		complain(stderr, err)
		return exitUsage
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	p := newProgram(NewConfig(v), certs, stderr)
	if err := p.run(signals); err != nil {
		p.log.Error("lockproxy ends", "err", err)
		return exitFailed
	}
	return exitOK
}

// complain prints what is wrong, each thing on a line of its own.
func complain(w io.Writer, err error) {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range several.Unwrap() {
			complain(w, one)
		}
		return
	}
	fmt.Fprintf(w, "lockproxy: %v\n", err)
}
