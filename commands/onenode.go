package commands

// oneNode forwards commands whose answer speaks of one server, as long as there
// is only one.
func oneNode(c *Call) {
	if c.Nodes().Masters() == 1 {
		c.Forward(AnySlot)
		return
	}
	c.Reply(refusal(c.Command.Name, " in front of several masters: its answer speaks of one server; ask that server"))
}

func migrateSecrets(args [][]byte) []bool {
	return secretBehind(args, 6, secretWord{"AUTH", 1}, secretWord{"AUTH2", 2})
}
