package commands

import "strings"

// listed is the reason for refusing a command of the list.
const listed = " (refused-commands)"

// refuse makes the table refuse a command, "container|sub" for a subcommand; a container with all its
// subcommands. A command that the upstream does not have is passed over.
func (t *Table) refuse(name string) {
	name, sub, isSub := strings.Cut(strings.ToLower(name), "|")
	c := t.byName[name]
	switch {
	case c == nil:
	case isSub:
		if c = c.Subs[sub]; c != nil {
			c.refuse()
		}
	default:
		c.refuse()
		for _, sub := range c.Subs {
			sub.refuse()
		}
	}
}

func (c *Command) refuse() {
	if c.Route != Refused {
		c.Route, c.Why = Refused, c.Why+listed
	}
}
