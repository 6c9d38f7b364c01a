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

// subcommands is what lockproxy does beside running the proxy.
func subcommands(stdout io.Writer) *cobra.Command {
	var root *cobra.Command
	root = tool.Root(func() { settings.WriteHelp(stdout, names(root)) }, lock.Command(), probe.Ready(load),
		probe.Health(load), checkCommand(), locks.Command(), bench.Command(), versionCommand(),
		tool.Completion(), manCommand())
	return root
}

// load reads the settings for a probe.
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

// subcommand runs the subcommand that the command line names; ok is false if it names none.
func subcommand(args, environ []string, stdin io.Reader, stdout, stderr io.Writer) (code int, ok bool) {
	if len(args) == 0 {
		return 0, false
	}
	root := subcommands(stdout)
	switch all := append(names(root), cobra.ShellCompRequestCmd); {
	case args[0] == lock.Watcher:
		return lock.Watch(args[1:], stdin), true
	case args[0] == lock.Gate:
		return lock.Pass(args[1:]), true
	case args[0] == cobra.ShellCompRequestCmd:
		withSettings(root)
	case !slices.Contains(all, args[0]):
		return 0, false
	}
	call := tool.Invocation{Environ: environ, Stdin: stdin, Stdout: stdout, Stderr: stderr}
	return tool.Execute(root, args, call), true
}

// withSettings gives those that take them the settings as flags, for completion and the manual page. The
// flags
// do nothing: the proxy reads its settings by itself.
func withSettings(root *cobra.Command) {
	settings.Flags(root.Flags())
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
		root := subcommands(c.Stdout)
		settings.Flags(root.Flags())
		tool.Man(c.Stdout, root, version)
		return tool.ExitOK
	})
}
