package commands

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/redcon"
)

// Docs is what COMMAND DOCS says of a command of lockproxy's own.
type Docs struct {
	Summary    string
	Since      string // version of lockproxy
	Group      string
	Complexity string
	Arguments  []Argument
}

// Argument is one argument in COMMAND DOCS, in the shape of Redis's own command
// definitions.
type Argument struct {
	Name      string
	Type      string // key, string, integer, pure-token, oneof, block, pattern
	Token     string // the literal word before it, such as PX
	Optional  bool
	Multiple  bool
	Arguments []Argument // of oneof and block
}

// Usage ends an error with the syntax of the verb. err begins in lower case, without an error word of its
// own.
func (c *Command) Usage(err error) error {
	return fmt.Errorf("ERR %w. Syntax: %s", err, syntax(c))
}

// WrongArity is the reply to c with a wrong number of arguments.
func (c *Command) WrongArity() []byte {
	if c.Flags&LockVerb != 0 {
		return ErrorReply(c.Usage(errors.New("wrong number of arguments")))
	}
	return rejects(c, "wrong number of arguments for '%s' command", c.Name)
}

// syntax is the syntax line of a verb.
func syntax(c *Command) string {
	line := strings.ToUpper(strings.ReplaceAll(c.Name, "|", " "))
	if c.Subs == nil {
		return line + syntaxOf(c.Docs.Arguments, " ")
	}
	var subs []string
	for _, name := range slices.Sorted(maps.Keys(c.Subs)) {
		subs = append(subs, strings.ToUpper(name)+syntaxOf(c.Subs[name].Docs.Arguments, " "))
	}
	return line + " " + strings.Join(subs, " | ")
}

// HelpOf is the reply to the HELP of a container, in Redis's form.
func HelpOf(c *Command) []byte {
	out := redcon.AppendArray(nil, 1+2*len(c.Subs))
	out = redcon.AppendString(out, strings.ToUpper(c.Name)+
		" <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for _, name := range slices.Sorted(maps.Keys(c.Subs)) {
		docs := c.Subs[name].Docs
		out = redcon.AppendString(out, strings.ToUpper(name)+syntaxOf(docs.Arguments, " "))
		out = redcon.AppendString(out, "    "+docs.Summary)
	}
	return out
}

// syntaxOf writes arguments as people read them: optional ones in brackets, choices with bars. before stands
// in front of each.
func syntaxOf(all []Argument, before string) string {
	var b strings.Builder
	for _, arg := range all {
		text := arg.Name
		switch arg.Type {
		case "pure-token":
			text = ""
		case "oneof":
			var either []string
			for _, one := range arg.Arguments {
				either = append(either, strings.TrimSpace(syntaxOf([]Argument{one}, "")))
			}
			text = strings.Join(either, " | ")
		case "block":
			text = strings.TrimSpace(syntaxOf(arg.Arguments, " "))
		}
		text = strings.TrimSpace(arg.Token + " " + text)
		switch {
		case arg.Multiple && arg.Optional:
			text += " ..."
		case arg.Multiple:
			text += " [" + text + " ...]"
		}
		if arg.Optional {
			text = "[" + text + "]"
		}
		b.WriteString(before + text)
	}
	return b.String()
}
