package commands

func quit(c *Call) {
	c.Client.Kept.Close(false)
	c.Reply(replyOK)
	c.Close()
}

// reset puts the connection back to how it was accepted. What it kept alive is released,
// as if it had been closed.
func reset(c *Call) {
	c.ResetState()
	c.Client.Kept.Close(false)
	fresh := Client{
		ID: c.Client.ID, Addr: c.Client.Addr, LocalAddr: c.Client.LocalAddr, Unix: c.Client.Unix, Created: c.Client.Created,
		Proto: 2, Authenticated: !c.Server.AuthRequired(),
		LibName: c.Client.LibName, LibVersion: c.Client.LibVersion,
		NoEvict: c.Client.NoEvict && !newerThan7(c.Server), // what RESET of Redis 7.0 forgets
	}
	*c.Client = fresh
	c.EndSubscriptions(replyReset)
}
