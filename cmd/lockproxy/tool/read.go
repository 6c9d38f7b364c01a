package tool

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// read sets the flags from the environment and then from the command line, and sorts the other words into
// c. Flags and operands come in any order; behind -- nothing is a flag.
func (m *Command) read(flags *Flags, args []string, c *Call) error {
	if err := readVariables(flags, c.Environ); err != nil {
		return err
	}
	if i := slices.Index(args, "--"); i >= 0 {
		c.Command = args[i+1:]
		args = args[:i]
	}
	for len(args) > 0 {
		n, err := m.readWord(flags, args, c)
		if err != nil {
			return err
		}
		args = args[n:]
	}
	if !m.Runs {
		c.Operands = append(c.Operands, c.Command...)
		c.Command = nil
	}
	return m.count(c)
}

// readWord reads the first of args, with its value, and returns how many words that were.
func (m *Command) readWord(flags *Flags, args []string, c *Call) (int, error) {
	name, isFlag := strings.CutPrefix(args[0], "--")
	name, value, given := strings.Cut(name, "=")
	flag := flags.find(name)
	switch {
	case isFlag && flag != nil:
	case m.Settings:
		c.Settings = append(c.Settings, args[0])
		return 1, nil
	case isFlag:
		return 0, flags.stranger(name)
	case len(args[0]) > 1 && args[0][0] == '-':
		return 0, fmt.Errorf("%s: flags are written --name VALUE", args[0])
	default:
		c.Operands = append(c.Operands, args[0])
		return 1, nil
	}
	words := 1
	switch {
	case given:
	case flag.Value == "":
		value = "yes"
	case len(args) == 1:
		return 0, fmt.Errorf("--%s: needs a value: --%s %s", name, name, flag.Value)
	default:
		value, words = args[1], 2
	}
	if err := flag.set(value); err != nil {
		return 0, fmt.Errorf("--%s %w", name, err)
	}
	return words, nil
}

// stranger is the error for a flag that there is not.
func (f *Flags) stranger(name string) error {
	var all []string
	for _, flag := range f.all {
		all = append(all, flag.Name)
	}
	if near := Nearest(name, all); near != "" {
		return fmt.Errorf("--%s: there is no such flag; did you mean --%s?", name, near)
	}
	return fmt.Errorf("--%s: there is no such flag", name)
}

// readVariables sets the flags for which there are variables. An empty one counts as none.
func readVariables(flags *Flags, environ []string) error {
	for _, flag := range flags.all {
		for _, variable := range flag.variables {
			value := Lookup(environ, variable)
			if value == "" {
				continue
			}
			if err := flag.set(value); err != nil {
				return fmt.Errorf("%s %w", variable, err)
			}
			break
		}
	}
	return nil
}

// Lookup is the value of a variable, "" if it is not set. Set twice, the last one counts, as in exec.Cmd.
func Lookup(environ []string, variable string) string {
	for _, entry := range slices.Backward(environ) {
		if name, value, _ := strings.Cut(entry, "="); name == variable {
			return value
		}
	}
	return ""
}

// count checks the numbers of operands and of words of the command.
func (m *Command) count(c *Call) error {
	switch n := len(c.Operands); {
	case m.Most >= 0 && n > m.Most && m.Runs:
		return fmt.Errorf("%s: write -- before the command: %s", c.Operands[m.Most], m.Usage())
	case m.Most >= 0 && n > m.Most:
		return fmt.Errorf("%s: nothing is expected here: %s", c.Operands[m.Most], m.Usage())
	case n < m.Least:
		what := strings.Fields(m.Operands)[n]
		if what != strings.ToUpper(what) { // a word itself, one of some
			what = "something"
		}
		return fmt.Errorf("%s is missing: %s", what, m.Usage())
	case m.Runs && len(c.Command) == 0:
		return errors.New("the command is missing: " + m.Usage())
	}
	return nil
}
