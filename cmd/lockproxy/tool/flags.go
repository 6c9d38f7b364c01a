package tool

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagValue is what a flag is set to.
type flagValue struct {
	kind  string // what help calls it: TIME; bool: nothing, for it needs no value
	shown string // as it was last set, or the default
	words []string
	set   func(string) error
}

func (v *flagValue) String() string { return v.shown }

func (v *flagValue) Type() string { return v.kind }

func (v *flagValue) Set(s string) error {
	err := v.set(s)
	if err == nil {
		v.shown = s
	}
	return err
}

// Text is any text.
func Text(at *string, kind string) pflag.Value {
	return &flagValue{kind: kind, shown: *at, set: func(s string) error { *at = s; return nil }}
}

// FILE is the kind of a value that is the path of a file.
const FILE = "FILE"

// OneOf is one of some words.
func OneOf(at *string, kind string, words ...string) pflag.Value {
	return &flagValue{kind: kind, shown: *at, words: words, set: func(s string) error {
		if !slices.Contains(words, s) {
			return errors.New("must be one of " + strings.Join(words, ", "))
		}
		*at = s
		return nil
	}}
}

// Known is what the proxy reads by itself, as completion and the manual page tell of it.
func Known(kind, shown string, words []string) pflag.Value {
	return &flagValue{kind: kind, shown: shown, words: words, set: func(string) error { return nil }}
}

// Number is a number from least to most.
func Number(at *int, least, most int) pflag.Value {
	shown := strconv.Itoa(*at)
	return &flagValue{kind: "N", shown: shown, set: func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most {
			return fmt.Errorf("must be a number of %d to %d", least, most)
		}
		*at = n
		return nil
	}}
}

// Time is a time with its unit, from least to most.
func Time(at *time.Duration, least, most time.Duration) pflag.Value {
	shown := Short(*at)
	if *at == 0 {
		shown = ""
	}
	return &flagValue{kind: "TIME", shown: shown, set: func(s string) error {
		return ParseTime(at, s, least, most)
	}}
}

// ParseTime sets a time from least to most. A plain number is refused, because some would mean seconds and
// others
// milliseconds.
func ParseTime(at *time.Duration, s string, least, most time.Duration) error {
	d, err := time.ParseDuration(s)
	switch _, plain := strconv.ParseFloat(s, 64); {
	case err != nil && plain == nil:
		return fmt.Errorf("needs a unit: %ss or %sms", s, s)
	case err != nil:
		return errors.New("must be a duration, such as 30s, 500ms or 10m")
	case d < least || d > most:
		return fmt.Errorf("must be between %s and %s inclusive", Short(least), Short(most))
	}
	*at = d
	return nil
}

// Yes declares a flag without a value. With =no it says no, for what a variable has set.
func Yes(flags *pflag.FlagSet, at *bool, name, help string) {
	v := &flagValue{kind: "bool", shown: "false", set: func(s string) error {
		switch strings.ToLower(s) {
		case "yes", "true", "1":
			*at = true
		case "no", "false", "0", "":
			*at = false
		default:
			return errors.New("must be yes or no")
		}
		return nil
	}}
	flags.VarPF(v, name, "", help).NoOptDefVal = "true"
}

// Names of annotations of flags.
const (
	variables = "variables" // environment variables that stand for it; the first one that is set counts
	Heading   = "heading"   // below which help has it
)

// Or names environment variables that stand for a flag where it is not given.
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

// Short is Duration.String without the parts that are zero: 10m.
func Short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
