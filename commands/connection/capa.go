package connection

import (
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// clientImportSource is CLIENT IMPORT-SOURCE ON | OFF, by which a tool marks the connection over which it
// fills one server of Valkey with the data of another.
func clientImportSource(c *commands.Call) {
	c.Reply(commands.Refusal(c.Command.Name,
		": it marks the connection of a tool that fills one server; connect to that server for it"))
}

// clientCapa is CLIENT CAPA capability ..., by which clients of Valkey say what they understand. It changes
// CLIENT LIST alone. The only word with a meaning, "redirect", is about an error of replicas that the proxy
// never gives; and Valkey accepts any word.
func clientCapa(c *commands.Call) {
	for _, capability := range c.Args[2:] {
		c.Client.Redirectable = c.Client.Redirectable || resp.IsWord(capability, "REDIRECT")
	}
	c.Reply(resp.OK)
}
