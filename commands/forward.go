package commands

// byKeys sends the command on as it stands, to where its keys are.
func (c *Call) byKeys() {
	if c.Masters() == 1 {
		c.Forward(AnySlot)
		return
	}
	n, err := c.Command.Slot(c.Args)
	if err == ErrCrossSlot {
		c.Reply(errorLine("%s", err))
		return
	}
	if n == AnySlot {
		n = c.Command.Home(c.Args, c.Table, c.Server.Scripts())
		if n != AnySlot && c.Owner(n) < 0 {
			n = AnySlot
		}
	}
	c.Forward(n)
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
