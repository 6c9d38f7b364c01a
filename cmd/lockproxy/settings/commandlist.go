package settings

import (
	"errors"
	"strings"
)

// commandList are names of commands, "config|set" for a subcommand, separated by commas or
// spaces.
type commandList struct{ at *[]string }

func (l commandList) Set(s string) error {
	all := []string{}
	for _, name := range strings.FieldsFunc(strings.ToLower(s),
		func(r rune) bool { return r == ',' || r == ' ' }) {
		container, sub, isSub := strings.Cut(name, "|")
		if container == "" || isSub && sub == "" || strings.Contains(sub, "|") {
			return errors.New("must be names of commands, such as debug or config|set")
		}
		all = append(all, name)
	}
	*l.at = all
	return nil
}

func (l commandList) String() string { return strings.Join(*l.at, ",") }
func (l commandList) Allowed() string {
	return `commands, several with commas, subcommands as config\|set`
}
