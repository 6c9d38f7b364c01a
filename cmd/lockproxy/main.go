// Command lockproxy stands between Redis clients and a Redis Cluster, a Sentinel group or one Redis, and adds
// verbs that take and free distributed locks.
//
// This package is the program around the data plane. It is the top floor: only here are flags, environment
// and files read.
//
//	settings --> program.run: admin HTTP, upstream, listeners ... drain
//	               |
//	            signals
//
// The life of the process is program.run:
//
//	settings --> admin HTTP, which says "starting" --> connect: upstream, RedLock masters, proxy.New
//	         --> listeners --> SIGTERM --> Drain within drain-timeout --> exit
//
// wire.go makes the data plane of the settings; package admin shows its numbers, proxy.Stats, to Prometheus.
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

	"lockproxy/cmd/lockproxy/auditlog"
	"lockproxy/cmd/lockproxy/files"
	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/cmd/lockproxy/tool"
	"lockproxy/cmd/lockproxy/tool/lock"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // something outside went wrong: an address in use, say
	exitUsage  = 2 // the settings are wrong
)

func main() { os.Exit(realMain(os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)) }

// realMain is main without the process: it returns the exit code, so that tests can run it.
func realMain(args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// First of all: what stands behind the name of a subcommand are no settings.
	if code, ok := subcommand(args, environ, stdin, stdout, stderr); ok {
		return code
	}
	src := settingsFrom(args, environ)
	v, certs, passwords, err := loadAll(src)
	switch {
	// --help anywhere among the settings is help, whatever else is wrong.
	case errors.Is(err, settings.ErrHelp):
		code, _ := subcommand([]string{"help"}, environ, stdin, stdout, stderr)
		return code
	case errors.Is(err, settings.ErrVersion):
		io.WriteString(stdout, versionLine())
		return exitOK
	case err != nil:
		complain(stderr, err)
		return exitUsage
	}
	// Two: one begins the end, and the next one must not get lost while nobody reads.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	p := newProgram(settings.NewConfig(v), certs, stderr)
	p.passwords = passwords
	// One is enough: a SIGHUP that comes while another waits asks for the same.
	hups := make(chan os.Signal, 1)
	signal.Notify(hups, syscall.SIGHUP)
	defer signal.Stop(hups)
	// The command line and the environment are those of the start; the config file is read anew each time.
	p.hups, p.settings = hups, func() (*settings.Values, error) {
		r := src.Read()
		return r.Values, r.Err()
	}
	if err := p.run(signals); err != nil {
		p.log.Error("lockproxy ends", "err", err)
		return exitFailed
	}
	return exitOK
}

// settingsFrom is where settings come from.
func settingsFrom(args, environ []string) settings.Sources {
	root := rootCommand()
	return settings.Sources{Args: args, Environ: environ, Tools: names(root),
		// Variables that begin with LOCKPROXY_ and are no settings: without this list they would be refused
		// as misspelt ones.
		Others: append(tool.Variables(root), lock.Variables...)}
}

// loadAll reads the settings and the files that they name, with all mistakes of both. It is the one place
// where files are read before anything runs, for the proxy and for check alike.
func loadAll(src settings.Sources) (*settings.Values, files.Certs, files.Passwords, error) {
	r := src.Read()
	c, wrongCerts := files.ReadCerts(r.Values)
	p, wrongPasswords := files.ReadPasswords(r.Values)
	_, wrongMap := files.ReadDetours(r.Values)
	r.Add(errors.Join(wrongCerts, wrongPasswords, wrongMap, auditlog.Check(r.Values.AuditLog)))
	return r.Values, c, p, r.Err()
}

// complain prints what is wrong, each thing on a line of its own.
func complain(w io.Writer, err error) {
	for _, one := range settings.Apart(err) {
		fmt.Fprintf(w, "lockproxy: %v\n", one)
	}
}
