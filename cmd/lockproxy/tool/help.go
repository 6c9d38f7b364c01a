package tool

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// width is how many columns help has.
const width = 100

// Root makes root the program with these subcommands.
func Root(root *cobra.Command, all ...*cobra.Command) *cobra.Command {
	// Execute tells errors in its own form, and the usage only to those who ask.
	root.SilenceErrors, root.SilenceUsage, root.DisableFlagsInUseLine = true, true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(all...)
	help := helpCommand(root)
	root.SetHelpCommand(help)
	root.AddCommand(help)
	root.SetFlagErrorFunc(wrongFlag)
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { c.Print(helpOf(c, width)) })
	return root
}

// helpCommand is lockproxy help.
func helpCommand(root *cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:     "help [SUBCOMMAND]",
		Short:   "Tells how a subcommand is used, or lists the settings and subcommands",
		Long:    Long("", Exit{ExitOK, "told"}),
		Example: "  lockproxy help\n  lockproxy help lock     as lockproxy lock --help",
	}
	for _, one := range root.Commands() {
		c.ValidArgs = append(c.ValidArgs, one.Name())
	}
	return Command(c, 0, 1, func(call *Invocation) int {
		of, _, err := root.Find(call.Operands)
		if err != nil {
			return call.Misused(err)
		}
		// cobra adds --help only when a command runs
		of.InitDefaultHelpFlag()
		of.Help()
		return ExitOK
	})
}

// helpOf is what there is to know of c, with flags in so many columns.
func helpOf(c *cobra.Command, columns int) string {
	text := c.UseLine() + "\n    " + c.Short + ".\n\n" + c.Long
	for i, one := range c.Commands() {
		if i == 0 {
			text += "\nSubcommands, of which lockproxy NAME --help tells more:\n"
		}
		text += fmt.Sprintf("  %-12s%s\n", one.Name(), one.Short)
	}
	text += flags(c, columns)
	if HasSettings(c) {
		text += "\nSettings of the proxy are flags too: lockproxy --help lists them.\n"
	}
	return text + "\nExamples:\n" + c.Example + "\n"
}

// flags are those of c, below their headings.
func flags(c *cobra.Command, columns int) (text string) {
	var headings []string
	under := make(map[string]*pflag.FlagSet)
	c.Flags().VisitAll(func(f *pflag.Flag) {
		name := "Flags"
		if given := f.Annotations[Heading]; given != nil {
			name = given[0]
		}
		if under[name] == nil {
			under[name] = pflag.NewFlagSet(name, pflag.ContinueOnError)
			under[name].SortFlags = false
			headings = append(headings, name)
		}
		under[name].AddFlag(f)
	})
	// in the order in which their first flags were declared
	for _, name := range slices.Compact(headings) {
		text += "\n" + name + ":\n" + under[name].FlagUsagesWrapped(columns)
	}
	return text
}
