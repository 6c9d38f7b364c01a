package main

import (
	"io"
	"slices"

	"github.com/spf13/cobra"

	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/cmd/lockproxy/tool"
	"lockproxy/cmd/lockproxy/tool/bench"
	"lockproxy/cmd/lockproxy/tool/lock"
	"lockproxy/cmd/lockproxy/tool/locks"
	"lockproxy/cmd/lockproxy/tool/probe"
)

// rootCommand is lockproxy itself, whose flags are the settings, and what it does beside running the proxy.
// It is made anew for each use: cobra keeps what was parsed in it.
func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "lockproxy [--setting value]...",
		Short: "Redis for any client in front of a cluster, with lock verbs",
		Long: `Each setting is a flag, a variable (LOCKPROXY_LOCK_LEASE=30s) and a line of
the file of --config (lock-lease 30s). A flag wins over a variable, that over
the file.
`,
		Example: `  lockproxy --upstream 10.0.0.1:6379,10.0.0.2:6379
        stands before a cluster, a Sentinel group or one Redis
  lockproxy --dev
        needs no Redis: it keeps one in its own memory, to try things out`,
	}
	settings.Flags(root.Flags())
	return tool.Root(root, lock.Command(), probe.Ready(load), probe.Health(load), checkCommand(),
		locks.Command(), bench.Command(), versionCommand(), tool.Completion(), manCommand())
}

// load reads the settings for a probe. Its errors are of the settings alone: a probe opens no files of
// certificates or passwords.
func load(args, environ []string) (*settings.Values, error) {
	return settingsFrom(args, environ).Load()
}

// names are those of the subcommands.
func names(root *cobra.Command) []string {
	var all []string
	for _, c := range root.Commands() {
		all = append(all, c.Name())
	}
	return all
}

// subcommand runs the subcommand that the command line names; ok is false if it names none. It knows the two
// words by which lockproxy lock starts itself, which no help lists.
func subcommand(args, environ []string, stdin io.Reader, stdout, stderr io.Writer) (code int, ok bool) {
	if len(args) == 0 {
		return 0, false
	}
	root := rootCommand()
	switch all := append(names(root), cobra.ShellCompRequestCmd); {
	case args[0] == lock.Watcher:
		return lock.Watch(args[1:], stdin), true
	case args[0] == lock.Gate:
		return lock.Pass(args[1:]), true
	// The shell asks what may come next: then cobra has to know all flags, also those that settings are.
	case args[0] == cobra.ShellCompRequestCmd:
		withSettings(root)
	case !slices.Contains(all, args[0]):
		return 0, false
	}
	call := tool.Invocation{Environ: environ, Stdin: stdin, Stdout: stdout, Stderr: stderr}
	return tool.Execute(root, args, call), true
}

// withSettings gives those that take them the settings as flags, for completion.
func withSettings(root *cobra.Command) {
	for _, c := range root.Commands() {
		if tool.HasSettings(c) {
			settings.Flags(c.Flags())
		}
	}
	tool.Complete(root)
}

// manCommand is lockproxy man.
func manCommand() *cobra.Command {
	return tool.Command(&cobra.Command{
		Use:   "man",
		Short: "Prints the manual page, for man(1)",
		Long: tool.Long(`
It has all that --help tells, of the settings and of each subcommand, for the version that prints it.`,
			tool.Exit{Code: tool.ExitOK, Meaning: "printed"}),
		Example: `  lockproxy man | man -l -
        reads it
  lockproxy man > /usr/local/share/man/man1/lockproxy.1
        installs it`,
	}, 0, 0, func(c *tool.Invocation) int {
		tool.Man(c.Stdout, rootCommand(), version)
		return tool.ExitOK
	})
}
