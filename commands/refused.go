package commands

import "strings"

// listed is the reason for refusing a command of the list.
const listed = " (refused-commands)"

// refuse makes the table refuse a command, "container|sub" for a subcommand; a container with all its
// subcommands. A command that the upstream does not have is passed over.
func (t *Table) refuse(name string, rows map[string]*Row) {
	name, sub, isSub := strings.Cut(strings.ToLower(name), "|")
	c := t.byName[name]
	switch {
	case c == nil:
	case isSub:
		if c = c.Subs[sub]; c != nil {
			c.refuse(rows)
		}
	default:
		c.refuse(rows)
		for _, sub := range c.Subs {
			sub.refuse(rows)
		}
	}
}

func (c *Command) refuse(rows map[string]*Row) {
	if c.Route == Refused {
		return
	}
	why := ""
	if r := rows[c.Name]; r != nil {
		why = r.Why
	} else if container, _, isSub := strings.Cut(c.Name, "|"); isSub && rows[container] != nil {
		why = rows[container].Why
	}
	c.Route, c.Reason = Refused, why+listed
}
