package connection

import (
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// clientCapa is CLIENT CAPA capability ..., by which clients of Valkey say what they understand. It changes
// nothing: "redirect" means an error of replicas that the proxy never answers, and Valkey takes any word.
func clientCapa(c *commands.Call) {
	if !c.Server.Upstream().IsValkey(8, 0) {
		commands.NoSubcommand(c)
		return
	}
	c.Reply(resp.OK)
}
