package main

import (
	"fmt"
	"strings"

	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/cmd/lockproxy/tool"
)

// program is what completion and the man page tell of.
func wholeProgram() *tool.Program {
	return &tool.Program{Table: subcommands(), Version: version, Settings: settings.ForTools()}
}

func helpCommand() *tool.Command {
	return &tool.Command{
		Name:     "help",
		Summary:  "Tells how a subcommand is used, or lists the settings and subcommands",
		Operands: "[SUBCOMMAND]",
		Most:     1,
		Asks:     true,
		Examples: []tool.Example{
			{Line: "lockproxy help", What: "all settings of the proxy, and the names of the subcommands"},
			{Line: "lockproxy help lock", What: "as lockproxy lock --help"},
		},
		Exits: []tool.Exit{{Code: tool.ExitOK, Meaning: "told"}},
		Setup: func(*tool.Flags) func(*tool.Call) int { return help },
	}
}

func help(c *tool.Call) int {
	if len(c.Operands) == 0 {
		settings.WriteHelp(c.Stdout, subcommands().Names())
		return tool.ExitOK
	}
	m := subcommands().Find(c.Operands[0])
	if m == nil {
		all := subcommands().Names()
		if near := tool.Nearest(c.Operands[0], all); near != "" {
			return c.Misused(fmt.Errorf("%s: there is no such subcommand; did you mean %s?", c.Operands[0],
				near))
		}
		return c.Misused(fmt.Errorf("%s: there is no such subcommand; there are %s", c.Operands[0],
			strings.Join(all, ", ")))
	}
	m.Help(c.Stdout)
	return tool.ExitOK
}

func manCommand() *tool.Command {
	return &tool.Command{
		Name:    "man",
		Summary: "Prints the manual page, for man(1)",
		About: `It has all that --help tells, of the settings and of each subcommand, for the version that
prints it.`,
		Examples: []tool.Example{
			{Line: "lockproxy man | man -l -", What: "reads it"},
			{Line: "lockproxy man > /usr/local/share/man/man1/lockproxy.1", What: "installs it"},
		},
		Exits: []tool.Exit{{Code: tool.ExitOK, Meaning: "printed"}},
		Setup: func(*tool.Flags) func(*tool.Call) int {
			return func(c *tool.Call) int {
				wholeProgram().Man(c.Stdout)
				return tool.ExitOK
			}
		},
	}
}
