// Package tool is what lockproxy's subcommands have in common: lockproxy ready, lockproxy lock and so on.
// Commands, flags and completion are those of cobra.
//
//	command line --> Execute --> cobra: Command, its flags --> Invocation --> exit code
//	                               |
//	                               +--> help.go, man.go: of the same
//
// Each subcommand stands in a package or a file of its own, knows no other, and reaches the proxy through
// package client.
package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Invocation is one use of a subcommand. It belongs to the subcommand that runs.
type Invocation struct {
	Operands []string
	Command  []string // what stands behind --, if the subcommand runs something
	Settings []string // the flags that are settings of the proxy, as they stood there
	Environ  []string // as os.Environ
	Stdin    io.Reader
	Stdout   io.Writer
	Stderr   io.Writer

	name string
	code int // with which it has ended
}

// Fail tells the user what is wrong, and returns code.
func (c *Invocation) Fail(code int, err error) int {
	fmt.Fprintf(c.Stderr, "lockproxy %s: %v\n", c.name, err)
	return code
}

// Misused tells the user what is wrong with the command line, and returns ExitUsage.
func (c *Invocation) Misused(err error) int {
	c.Fail(ExitUsage, err)
	fmt.Fprintf(c.Stderr, "lockproxy help %s tells how it is used\n", c.name)
	return ExitUsage
}

// Command makes a subcommand of c that takes least to most operands. With -- in c.Use, what stands behind it
// is Invocation.Command. c gets its flags afterwards. run returns the exit code, and has told the user why by
// then.
func Command(c *cobra.Command, least, most int, run func(*Invocation) int) *cobra.Command {
	behind := strings.Contains(c.Use, " -- ")
	// Use says itself where flags stand.
	c.DisableFlagsInUseLine = true
	c.Flags().SortFlags = false
	c.ValidArgsFunction = cobra.FixedCompletions(c.ValidArgs, cobra.ShellCompDirectiveNoFileComp)
	c.Args = func(c *cobra.Command, args []string) error { return countWords(c, args, least, most, behind) }
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := readVariables(c); err != nil {
			return err
		}
		call := callOf(c)
		call.name, call.Operands = c.Name(), args
		if behind {
			// countWords has made sure that there is a --
			call.Operands, call.Command = args[:c.ArgsLenAtDash()], args[c.ArgsLenAtDash():]
		}
		call.code = run(call)
		return nil
	}
	return c
}

// countWords says what is wrong with the numbers of operands and of words of the command.
func countWords(c *cobra.Command, args []string, least, most int, behind bool) error {
	n, dash := len(args), c.ArgsLenAtDash()
	if behind && dash >= 0 {
		n = dash
	}
	switch {
	case n > most && behind:
		return fmt.Errorf("%s: write -- before the command: %s", args[most], c.UseLine())
	case n > most:
		return fmt.Errorf("%s: nothing is expected here: %s", args[most], c.UseLine())
	case n < least:
		// the name of the operand that is missing, as Use has it
		words := strings.Fields(strings.Replace(c.Use, "[--flag value]... ", "", 1))
		return fmt.Errorf("%s is missing: %s", words[1+n], c.UseLine())
	case behind && (dash < 0 || dash == len(args)):
		return errors.New("the command is missing: " + c.UseLine())
	}
	return nil
}

// callKey is where the context of a cobra.Command has the Invocation.
type callKey struct{}

// callOf is the Invocation that Execute has put into the context of c. All callers share it.
func callOf(c *cobra.Command) *Invocation { return c.Context().Value(callKey{}).(*Invocation) }

// takesSettings is the annotation of a subcommand whose flags are also the settings of the proxy.
const takesSettings = "settings"

// TakesSettings has c take the settings of the proxy as flags, too: they are Invocation.Settings.
func TakesSettings(c *cobra.Command) *cobra.Command {
	c.Annotations = map[string]string{takesSettings: "yes"}
	return c
}

// HasSettings says that c does so.
func HasSettings(c *cobra.Command) bool { return c.Annotations[takesSettings] != "" }

// Execute runs the subcommand of root that args name; call has the environment and the streams.
func Execute(root *cobra.Command, args []string, call Invocation) (code int) {
	// cobra does not know the settings as flags of c, and would refuse them.
	if c, _, err := root.Find(args); err == nil && HasSettings(c) {
		args, call.Settings = splitSettings(c, args)
	}
	root.SetArgs(args)
	root.SetIn(call.Stdin)
	root.SetOut(call.Stdout)
	root.SetErr(call.Stderr)
	c, err := root.ExecuteContextC(context.WithValue(context.Background(), callKey{}, &call))
	if err == nil {
		return call.code
	}
	call.name = c.Name()
	return call.Misused(err)
}

// splitSettings returns the words that are c's own, which are its name and its flags, and all others. args
// begin with the name of c. A value that stands apart from its flag goes where the flag goes.
func splitSettings(c *cobra.Command, args []string) (own, others []string) {
	c.InitDefaultHelpFlag()
	own = args[:1:1]
	for args = args[1:]; len(args) > 0; args = args[1:] {
		name, _, valued := strings.Cut(strings.TrimPrefix(args[0], "--"), "=")
		flag := c.Flags().Lookup(name)
		switch {
		case args[0] == "-h":
			own = append(own, args[0])
		case flag == nil || !strings.HasPrefix(args[0], "--"):
			others = append(others, args[0])
		case valued || flag.NoOptDefVal != "" || len(args) == 1:
			own = append(own, args[0])
		default:
			own = append(own, args[0], args[1])
			args = args[1:]
		}
	}
	return own, others
}

// wrongFlag is cobra's error for a flag, with what may have been meant.
func wrongFlag(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var all []string
	c.Flags().VisitAll(func(f *pflag.Flag) { all = append(all, f.Name) })
	if near := Nearest(unknown.GetSpecifiedName(), all); near != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, near)
	}
	return err
}

// Lookup is the value of a variable, "" if it is not set. Set twice, the last one counts, as in exec.Cmd.
// environ is as os.Environ.
func Lookup(environ []string, variable string) string {
	for _, entry := range slices.Backward(environ) {
		if name, value, _ := strings.Cut(entry, "="); name == variable {
			return value
		}
	}
	return ""
}
