// Command lockproxy stands between Redis clients and a Redis Cluster, a Sentinel group or one Redis, and adds
// verbs that take and free distributed locks.
//
// This package is the program around the data plane. It is the top floor: only here are flags, environment
// and files read.
//
//	flags, environment, file --> load --> check --> Values --> Config (CONFIG GET, SET)
//	                                                  |
//	             signals --> program.run: admin HTTP, upstream, listeners ... drain
//
// A setting is one row of settings.go: its name, help, what is allowed, and the field of the options that it
// sets. The options are those of the packages that they are for (values.go), which also have the defaults.
//
//	{Name: "maxclients", ..., live: true,
//		in: func(v *Values) value { return number{&v.Proxy.MaxClients, 1, 1_000_000} }}
//
// Of that row come the flag --maxclients, the variable LOCKPROXY_MAXCLIENTS, the line of a file, --help, the
// table in docs/settings.md, and CONFIG GET. With live, CONFIG SET changes the options of the running server.
//
// The life of the process is program.run:
//
//	settings --> admin HTTP, which says "starting" --> connect: upstream, RedLock masters, proxy.New
//	         --> listeners --> SIGTERM --> Drain within drain-timeout --> exit
//
// wire.go makes the data plane of the settings; metrics.go shows its numbers, proxy.Stats, to Prometheus.
//
// A first word that is the name of a subcommand (subcommands.go) runs that instead: lockproxy ready.
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

func main() { os.Exit(realMain(os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)) }

func realMain(args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if code, ok := subcommand(args, environ, stdin, stdout, stderr); ok {
		return code
	}
	v, certs, passwords, err := loadAll(args, environ)
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
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	p := newProgram(NewConfig(v), certs, stderr)
	p.passwords = passwords
	hups := make(chan os.Signal, 1)
	signal.Notify(hups, syscall.SIGHUP)
	defer signal.Stop(hups)
	p.hups, p.settings = hups, func() (*Values, error) { return loadChecked(args, environ) }
	if err := p.run(signals); err != nil {
		p.log.Error("lockproxy ends", "err", err)
		return exitFailed
	}
	return exitOK
}

// complain prints what is wrong, each thing on a line of its own.
func complain(w io.Writer, err error) {
	for _, one := range apart(err) {
		fmt.Fprintf(w, "lockproxy: %v\n", one)
	}
}
