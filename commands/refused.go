package commands

import "strings"

// listed goes on behind why a command of the list is refused.
const listed = " (refused-commands)"

// RefusedByDefault are the commands that do harm through a proxy, or mean one server: those
// whose row gives a reason although it has a way for them.
func RefusedByDefault() []string {
	var names []string
	for i := range rows {
		if rows[i].why != "" && rows[i].route != Refused {
			names = append(names, rows[i].name)
		}
	}
	return names
}

// refuse has the table refuse a command, "container|sub" for a subcommand, a
// container with all that is in it. What the upstream does not have is passed over.
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
	if c.Route == Refused {
		return
	}
	why := ""
	if r := rowOf[c.Name]; r != nil {
		why = r.why
	} else if container, _, isSub := strings.Cut(c.Name, "|"); isSub && rowOf[container] != nil {
		why = rowOf[container].why
	}
	c.Route, c.Reason = Refused, why+listed
}
