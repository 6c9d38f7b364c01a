package commands

// byKeys sends the command on as it stands, to where its keys are.
func (c *Call) byKeys() {
	if n, ok := c.target(); ok {
		c.Forward(n)
	}
}

// target is the slot of the keys of the command. If there is none it answers the command, and reports false.
func (c *Call) target() (n int, ok bool) {
	if c.Masters() == 1 {
		return AnySlot, true
	}
	n, err := c.Command.Slot(c.Args)
	if err == ErrCrossSlot {
		c.Reply(errorLine("%s", err))
		return 0, false
	}
	if n == AnySlot {
		n = c.Command.Home(c.Args, c.Table, c.Server.Scripts())
		if n != AnySlot && c.Owner(n) < 0 {
			n = AnySlot
		}
	}
	return n, true
}

// oneNode forwards commands whose answer speaks of one server, as long as there
// is only one.
func oneNode(c *Call) {
	if c.Masters() == 1 {
		c.Forward(AnySlot)
		return
	}
	c.Reply(refusal(c.Command.Name, " in front of several masters: its answer speaks of one server; ask that server"))
}
