package commands

import "lockproxy/internal/resp"

// ByKeys sends the command on as it stands, to where its keys are.
func (c *Call) ByKeys() {
	if n, ok := c.Target(); ok {
		c.Forward(n)
	}
}

// Target is the slot of the keys of the command. If there is none it answers the command, and reports false.
// ErrAskKeys counts as no keys here.
func (c *Call) Target() (n int, ok bool) {
	if c.Nodes().Masters() == 1 {
		return AnySlot, true
	}
	p := c.Place
	if p == nil {
		place := c.Command.PlaceOf(c.Args, c.Table, c.Server.Scripts())
		p = &place
	}
	switch {
	case p.Err == ErrCrossSlot:
		c.Reply(resp.ErrorLine("%s", p.Err))
		return 0, false
	case p.Slot != AnySlot:
		return p.Slot, true
	// a script without keys: only if somebody serves the slot, since any node will do
	case p.Home != AnySlot && c.Nodes().Owner(p.Home) >= 0:
		return p.Home, true
	}
	return AnySlot, true
}

// OneNode forwards commands whose answer speaks of one server, as long as there
// is only one.
func OneNode(c *Call) {
	if c.Nodes().Masters() == 1 {
		c.Forward(AnySlot)
		return
	}
	c.Reply(Refusal(c.Command.Name,
		" in front of several masters: its answer speaks of one server; ask that server"))
}
