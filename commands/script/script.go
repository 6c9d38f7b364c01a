package script

import (
	"bytes"
	"slices"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/commands/merge"
	"lockproxy/internal/resp"
)

// eval remembers the script on its way to the node of the keys, so that a later EVALSHA of it works at any
// node. If the client is a user of the upstream it does so only once the node has run the script: the user
// may not have the right to.
func eval(c *commands.Call) {
	scripts, source := c.Server.Scripts(), c.Args[1]
	if c.AsProxy() {
		scripts.Add(source)
		c.ByKeys()
		return
	}
	// not ok: Target has answered
	n, ok := c.Target()
	switch {
	case !ok:
	// nothing to remember
	case len(source) > commands.MaxSource || scripts.Knows(source):
		c.Forward(n)
	default:
		source = bytes.Clone(source)
		c.Ask(pipe.ToSlot(n), c.Raw, commands.Asking{Resend: c.Command.Flags&commands.ReadOnly != 0},
			func(reply []byte) []byte {
				if !resp.IsError(reply) {
					scripts.Add(source)
				}
				return reply
			})
	}
}

// scriptLoad loads the script on all masters. The proxy remembers it when one has taken it. The masters
// answer with the SHA1.
func scriptLoad(c *commands.Call) {
	// longer ones are not remembered
	scripts, source := c.Server.Scripts(), bytes.Clone(c.Args[2][:min(len(c.Args[2]), commands.MaxSource+1)])
	askMasters(c, func() { scripts.Add(source) })
}

// scriptFlush makes the nodes forget all scripts, and the proxy too when one node has: a flushed script must
// not come back, and a client without the right to flush must change nothing.
func scriptFlush(c *commands.Call) { askMasters(c, c.Server.Scripts().Flush) }

// askMasters runs the command on all masters, and taken here when one of them has taken it. Asking.Always:
// the proxy must know it also if the client has gone.
func askMasters(c *commands.Call, taken func()) {
	c.AskAll(c.Raw, commands.Asking{Resend: true, Always: true}, func(proto int, replies [][]byte) []byte {
		if slices.ContainsFunc(replies, func(reply []byte) bool { return !resp.IsError(reply) }) {
			taken()
		}
		return merge.First(proto, replies)
	})
}

// scriptExists says for which scripts EVALSHA will work: those that all masters have, and those that the
// proxy can give them. A client that is told 0 loads the script again, which does no harm.
func scriptExists(c *commands.Call) {
	scripts := c.Server.Scripts()
	known := make([]bool, len(c.Args)-2)
	for i, sha := range c.Args[2:] {
		_, known[i] = scripts.Get(bytes.ToLower(sha))
	}
	c.AskAll(c.Raw, commands.Reread, func(proto int, replies [][]byte) []byte {
		v, _, err := resp.Parse(merge.And(proto, replies))
		if err != nil || v.Kind != '*' || len(v.Elems) != len(known) {
			return merge.First(proto, replies)
		}
		for i := range known {
			if known[i] {
				v.Elems[i].Int = 1
			}
		}
		return resp.AppendValue(nil, v)
	})
}

// loadsScript is for SCRIPT LOAD in a transaction: an EVALSHA behind it may run that source.
func loadsScript(args [][]byte) commands.Queued { return commands.Queued{DB: -1, Source: args[2]} }
