package server

import (
	"slices"

	"github.com/tidwall/redcon"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/commands/merge"
	"lockproxy/internal/resp"
)

// The users of ACL are those of the upstream's servers. Clients of the proxy log in with its own password, or
// as one of these users. A change of users goes to all servers, so that each node judges alike.

// lockCategory is the ACL category of the lock verbs. No server knows it: COMMAND LIST and ACL CAT name the
// verbs for it themselves, and rules of users cannot have it.
const lockCategory = "lock"

// aclWhoAmI is ACL WHOAMI: as whom the client has authenticated at the proxy, not who the proxy is at the
// nodes.
func aclWhoAmI(c *commands.Call) { c.Reply(redcon.AppendBulkString(nil, c.Client.UserName())) }

// aclCat is ACL CAT [category] with the verbs and their category.
func aclCat(c *commands.Call) {
	switch {
	case len(c.Args) == 2:
		c.Ask(pipe.Target{}, c.Raw, commands.Reread, func(reply []byte) []byte {
			return resp.AppendElements(reply, 1, resp.AppendBulks(nil, lockCategory))
		})
	case len(c.Args) == 3 && resp.IsWord(c.Args[2], "LOCK"):
		out := redcon.AppendArray(nil, len(c.Table.Verbs()))
		for _, verb := range c.Table.Verbs() {
			out = resp.AppendBulks(out, verb.Name)
		}
		c.Reply(out)
	default:
		c.Forward(commands.AnySlot)
	}
}

// everyServer runs a command on all masters. Once they have accepted it, it runs on their replicas too,
// which must be ready to take over. Replicas that cannot be reached are passed over, and nobody waits for any
// of them. The masters' part is done also when the client has gone (Asking.Always), for it may have run at
// some of them.
func everyServer(c *commands.Call) {
	actions, req := c.Actions, slices.Clone(c.Raw)
	c.AskAll(c.Raw, commands.Asking{Resend: true, Always: true}, func(proto int, replies [][]byte) []byte {
		if merge.FirstError(replies) == nil {
			actions.Nodes().TellReplicas(req)
		}
		return merge.First(proto, replies)
	})
}

// aclLog is ACL LOG [count | RESET]. Each server has a log of its own. Its entries have numbers and clients
// of that server, so several logs cannot be shown as one.
func aclLog(c *commands.Call) {
	if len(c.Args) == 3 && resp.IsWord(c.Args[2], "RESET") {
		c.AskAll(c.Raw, commands.Reread, merge.First)
		return
	}
	commands.OneNode(c)
}
