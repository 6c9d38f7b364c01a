// Package tool is the frame of lockproxy's subcommands: lockproxy ready, lockproxy lock and so on.
//
//	command line --> Table.Find --> Command.Do: flags, operands --> Setup's function --> exit code
//	                     |
//	                     +--> help, completion, man page: made of the same rows
//
// A subcommand is one Command, which says all that a user can know of it. The program has the table of
// them; each stands in a package or a file of its own, knows no other, and reaches the proxy through
// package client.
package tool

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Command is one subcommand.
type Command struct {
	Name     string
	Summary  string // what it does, on one line of help, without a full stop
	Operands string // what follows the flags, for people: "NAME -- COMMAND [ARG]..."; "": nothing
	Least    int    // operands at least
	Most     int    // operands at most; with -1 any number
	Runs     bool   // the words behind -- are a command, Call.Command, and no operands
	Settings bool   // takes the settings of the proxy as flags, too: they are Call.Settings
	About    string // what else to know: paragraphs, with an empty line between two
	Examples []Example
	Exits    []Exit     // its exit codes, beside those of all subcommands
	Words    []string   // words that may be its first operand, for completion
	Asks     bool       // its operand is the name of a subcommand
	Gives    []Variable // what it sets for the command that it runs

	// Setup declares the flags, with their defaults, and returns what runs once they are read. It has no
	// other effect: help, completion and man page call it too.
	Setup func(f *Flags) func(c *Call) int
}

// Example is a line as a user would type it, and what it does.
type Example struct {
	Line string
	What string
}

// Variable is an environment variable, and what it is.
type Variable struct {
	Name    string
	Meaning string
}

// Call is one use of a subcommand.
type Call struct {
	Operands []string
	Command  []string // what stands behind --, if the subcommand runs something
	Settings []string // the flags that are settings of the proxy, as they stood there
	Environ  []string // as os.Environ
	Stdin    io.Reader
	Stdout   io.Writer
	Stderr   io.Writer

	name string
}

// Fail tells the user what is wrong, and returns code.
func (c *Call) Fail(code int, err error) int {
	fmt.Fprintf(c.Stderr, "lockproxy %s: %v\n", c.name, err)
	return code
}

// Misused tells the user what is wrong with the command line, and returns ExitUsage.
func (c *Call) Misused(err error) int {
	c.Fail(ExitUsage, err)
	fmt.Fprintf(c.Stderr, "lockproxy help %s tells how it is used\n", c.name)
	return ExitUsage
}

// Do runs the subcommand with the words behind its name; c has the streams and the environment.
func (m *Command) Do(args []string, c Call) int {
	c.name = m.Name
	var flags Flags
	run := m.Setup(&flags)
	if wantsHelp(args) {
		m.Help(c.Stdout)
		return ExitOK
	}
	if err := m.read(&flags, args, &c); err != nil {
		return c.Misused(err)
	}
	return run(&c)
}

// Accepts says what is wrong with the words behind the subcommand's name, or nil. Nothing runs.
func (m *Command) Accepts(args []string) error {
	var flags Flags
	m.Setup(&flags)
	return m.read(&flags, args, new(Call))
}

// wantsHelp looks for --help before any --, behind which the words are not ours.
func wantsHelp(args []string) bool {
	for _, arg := range args {
		switch arg {
		case "--":
			return false
		case "--help", "-help", "-h":
			return true
		}
	}
	return false
}

// Table is all subcommands, in the order in which help shows them.
type Table []*Command

// Find returns the subcommand of that name, or nil.
func (t Table) Find(name string) *Command {
	if i := slices.IndexFunc(t, func(m *Command) bool { return m.Name == name }); i >= 0 {
		return t[i]
	}
	return nil
}

// Names are the names of all subcommands.
func (t Table) Names() []string {
	var all []string
	for _, m := range t {
		all = append(all, m.Name)
	}
	return all
}

// Variables are the environment variables that stand for flags of subcommands, or that these set for others.
func (t Table) Variables() []string {
	var all []string
	for _, m := range t {
		for _, f := range m.Flags() {
			all = append(all, f.variables...)
		}
		for _, v := range m.Gives {
			all = append(all, v.Name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Flags are those that Setup declares.
func (m *Command) Flags() []*Flag {
	var f Flags
	m.Setup(&f)
	return f.all
}

// Usage is the line that shows how the subcommand is written.
func (m *Command) Usage() string {
	line := "lockproxy " + m.Name
	if len(m.Flags()) > 0 || m.Settings {
		line += " [--flag value]..."
	}
	return strings.TrimSpace(line + " " + m.Operands)
}
