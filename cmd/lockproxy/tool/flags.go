package tool

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockproxy/cmd/lockproxy/kind"
)

// yes is a flag without a value. With =no it says no, for what a variable has set. Its Type is bool, so that
// pflag's help shows no placeholder behind it.
type yes struct{ *kind.Input }

func (y yes) Type() string { return "bool" }

func (y yes) Set(s string) error {
	switch strings.ToLower(s) {
	case "true", "1":
		s = "yes"
	case "false", "0", "":
		s = "no"
	}
	return y.Input.Set(s)
}

// Yes declares a flag without a value.
func Yes(flags *pflag.FlagSet, at *bool, name, help string) {
	f := flags.VarPF(yes{kind.YesNo(at)}, name, "", help)
	f.NoOptDefVal, f.DefValue = "true", ""
}

// Names of annotations of flags.
const (
	variables = "variables" // environment variables that stand for it; the first one that is set counts
	Heading   = "heading"   // below which help has it
)

// Or names environment variables that stand for a flag where it is not given. Help names them. A flag that is
// given wins.
func Or(flags *pflag.FlagSet, name string, all ...string) {
	flags.SetAnnotation(name, variables, all)
	flags.Lookup(name).Usage += " (" + strings.Join(all, ", ") + ")"
}

// Under puts all flags below a heading of their own.
func Under(flags *pflag.FlagSet, text string) {
	flags.VisitAll(func(f *pflag.Flag) { flags.SetAnnotation(f.Name, Heading, []string{text}) })
}

// readVariables sets the flags of c that are not given and have a variable. An empty one counts as none.
func readVariables(c *cobra.Command) (err error) {
	environ := callOf(c).Environ
	c.Flags().VisitAll(func(f *pflag.Flag) {
		for _, variable := range f.Annotations[variables] {
			given := Lookup(environ, variable)
			if given == "" || f.Changed || err != nil {
				continue
			}
			if wrong := f.Value.Set(given); wrong != nil {
				err = fmt.Errorf("%s %w", variable, wrong)
			}
			return
		}
	})
	return err
}

// Variables are the environment variables that stand for flags of the subcommands of root.
func Variables(root *cobra.Command) []string {
	var all []string
	for _, c := range root.Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) { all = append(all, f.Annotations[variables]...) })
	}
	slices.Sort(all)
	return slices.Compact(all)
}
