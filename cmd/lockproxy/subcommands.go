package main

import (
	"io"

	"lockproxy/cmd/lockproxy/tool"
	"lockproxy/cmd/lockproxy/tool/bench"
	"lockproxy/cmd/lockproxy/tool/lock"
	"lockproxy/cmd/lockproxy/tool/locks"
)

// subcommands is the table of what lockproxy does beside running the proxy.
func subcommands() tool.Table {
	return tool.Table{
		lock.Command(),
		readyCommand(),
		healthCommand(),
		checkCommand(),
		locks.Command(),
		bench.Command(),
		versionCommand(),
		helpCommand(),
		tool.Completion(wholeProgram),
		manCommand(),
	}
}

// subcommand runs the subcommand that the command line names; ok is false if it names none.
func subcommand(args, environ []string, stdin io.Reader, stdout, stderr io.Writer) (code int, ok bool) {
	if len(args) == 0 {
		return 0, false
	}
	switch args[0] {
	case lock.Watcher:
		return lock.Watch(args[1:], stdin), true
	case lock.Gate:
		return lock.Pass(args[1:]), true
	}
	m := subcommands().Find(args[0])
	if m == nil {
		return 0, false
	}
	return m.Do(args[1:], tool.Call{Environ: environ, Stdin: stdin, Stdout: stdout, Stderr: stderr}), true
}
