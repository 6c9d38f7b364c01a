package settings

import (
	"errors"
	"fmt"
	"strings"

	"lockproxy/cmd/lockproxy/kind"
	"lockproxy/cmd/lockproxy/tool"
)

// What the command line may ask for instead of serving. main looks for them with errors.Is
var (
	ErrHelp    = errors.New("help is asked for")
	ErrVersion = errors.New("the version is asked for")
)

// readFlags reads the command line: --name value, --name=value, and --name
// alone for what is yes or no. Given twice, the last one counts. Its errors are ErrHelp and ErrVersion.
func (src Sources) readFlags() ([]given, error) {
	var all []given
	args := src.Args
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch arg {
		case "--help", "-help", "-h":
			return nil, ErrHelp
		case "--version", "-version", "-v":
			return nil, ErrVersion
		}
		name, value, hasValue := strings.Cut(arg, "=")
		name, ok := strings.CutPrefix(name, "--")
		s := Find(name)
		switch {
		case !ok || s == nil:
			wrong := stranger(name, "--"+name, spellFlag)
			if !ok {
				wrong = given{wrong: src.notAFlag(arg)}
			}
			all = append(all, wrong)
			likely := ok || Find(strings.TrimLeft(name, "-")) != nil
			if likely && !hasValue && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
				args = args[1:] // its value, most likely, which may be a secret
			}
			continue
		case hasValue:
		// --dev no is understood as well as --dev=no
		case len(args) > 0 && s.takesArgument(args[0]):
			value, args = args[0], args[1:]
		case s.at.Boolean():
			value = "yes"
		default:
			all = append(all, given{name: name, wrong: fmt.Errorf("--%s: needs a value; allowed: %s (one "+
				"that begins with -- is written --%s=VALUE)", name, s.at.Allowed, name)})
			continue
		}
		all = append(all, given{name: name, value: value, where: "--" + name + " " + s.shownValue(value)})
	}
	return all, nil
}

func spellFlag(name string) string { return "--" + name }

// takesArgument says that the argument behind the flag is its value.
func (s *Setting) takesArgument(arg string) bool {
	if s.at.Boolean() {
		// whatever is neither yes nor no stands for itself: --dev lock, say
		return kind.YesNo(new(bool)).Set(arg) == nil
	}
	return !strings.HasPrefix(arg, "--")
}

// shownValue is value as errors and logs may show it.
func (s *Setting) shownValue(value string) string {
	if s.Secret {
		return "(not shown)"
	}
	if scheme, _, ok := strings.Cut(value, "://"); ok { // a password may be behind it
		return scheme + "://..."
	}
	if value == "" || strings.ContainsAny(value, " \t\n\"") {
		return fmt.Sprintf("%q", value)
	}
	return value
}

// notAFlag says what is wrong with a word that is no flag, and what may have been meant.
func (src Sources) notAFlag(arg string) error {
	arg, _, _ = strings.Cut(arg, "=") // the value may be a secret
	// one dash, or none
	if name := strings.TrimLeft(arg, "-"); Find(name) != nil {
		return fmt.Errorf("%s: settings are written --%s VALUE", arg, name)
	}
	why := "neither a setting (--name value) nor a subcommand"
	if near := tool.Nearest(arg, src.Tools); near != "" {
		return fmt.Errorf("%s: %s; did you mean %s?", arg, why, near)
	}
	return fmt.Errorf("%s: %s; lockproxy --help lists both", arg, why)
}
