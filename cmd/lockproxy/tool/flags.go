package tool

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Flags are the flags of a subcommand, as its Setup declares them.
type Flags struct {
	all   []*Flag
	group string
}

// Flag is one of them.
type Flag struct {
	Name  string
	Value string // what its value is called: DURATION; "": it is yes or no
	Help  string // without a full stop
	Group string // heading in help

	Default   string   // as a user would write it; "": none
	Words     []string // what the value may be, if that is a few words
	Files     bool     // the value is the path of a file
	variables []string // environment variables that stand for it; the first one that is set counts

	set func(value string) error
}

// Group is the heading of the flags that follow.
func (f *Flags) Group(heading string) { f.group = heading }

// Text declares a flag with any text as its value.
func (f *Flags) Text(at *string, name, value, help string) *Flag {
	return f.add(&Flag{Name: name, Value: value, Help: help, Default: *at, set: func(s string) error {
		*at = s
		return nil
	}})
}

// File declares a flag whose value is the path of a file.
func (f *Flags) File(at *string, name, help string) *Flag {
	flag := f.Text(at, name, "FILE", help)
	flag.Files = true
	return flag
}

// OneOf declares a flag whose value is one of some words.
func (f *Flags) OneOf(at *string, name, value string, words []string, help string) *Flag {
	return f.add(&Flag{Name: name, Value: value, Help: help, Default: *at, Words: words,
		set: func(s string) error {
			for _, word := range words {
				if s == word {
					*at = s
					return nil
				}
			}
			return errors.New("must be one of " + strings.Join(words, ", "))
		}})
}

// Yes declares a flag without a value. With =no it says no, for what a variable has set.
func (f *Flags) Yes(at *bool, name, help string) *Flag {
	return f.add(&Flag{Name: name, Help: help, set: func(s string) error {
		switch strings.ToLower(s) {
		case "yes", "true", "1":
			*at = true
		case "no", "false", "0", "":
			*at = false
		default:
			return errors.New("must be yes or no")
		}
		return nil
	}})
}

// Number declares a flag that is a number from least to most.
func (f *Flags) Number(at *int, name, value string, least, most int, help string) *Flag {
	return f.add(&Flag{Name: name, Value: value, Help: help, Default: shown(*at, 0),
		set: func(s string) error {
			n, err := strconv.Atoi(s)
			if err != nil || n < least || n > most {
				return fmt.Errorf("must be a number of %d to %d", least, most)
			}
			*at = n
			return nil
		}})
}

// Duration declares a flag that is a time with its unit, from least to most.
func (f *Flags) Duration(at *time.Duration, name string, least, most time.Duration, help string) *Flag {
	return f.add(&Flag{Name: name, Value: "TIME", Help: help, Default: shown(Short(*at), "0s"),
		set: func(s string) error {
			d, err := time.ParseDuration(s)
			switch _, plain := strconv.ParseFloat(s, 64); {
			case err != nil && plain == nil:
				return fmt.Errorf("needs a unit: %ss or %sms", s, s)
			case err != nil:
				return errors.New("must be a time, such as 30s, 500ms or 10m")
			case d < least || d > most:
				return fmt.Errorf("must be between %s and %s", Short(least), Short(most))
			}
			*at = d
			return nil
		}})
}

// shown is a default as help shows it: nothing if it is none.
func shown[T comparable](v, none T) string {
	if v == none {
		return ""
	}
	return fmt.Sprint(v)
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

func (f *Flags) add(flag *Flag) *Flag {
	flag.Group = f.group
	f.all = append(f.all, flag)
	return flag
}

func (f *Flags) find(name string) *Flag {
	for _, flag := range f.all {
		if flag.Name == name {
			return flag
		}
	}
	return nil
}

// Or names environment variables that stand for the flag where it is not given.
func (f *Flag) Or(variables ...string) *Flag {
	f.variables = variables
	return f
}
