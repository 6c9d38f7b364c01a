package scan

import (
	"bytes"
	"math/rand/v2"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// randomKey asks the masters in random order until one has a key. A master with few keys is as likely as one
// with many. Null of all means that there is no key.
func randomKey(c *commands.Call) {
	actions, raw, order := c.Actions, bytes.Clone(c.Raw), rand.Perm(c.Nodes().Masters())
	if len(order) < 2 {
		c.Forward(commands.AnySlot)
		return
	}
	var ask func(i int)
	ask = func(i int) {
		actions.Ask(pipe.ToMaster(order[i]), raw, commands.Reread, func(reply []byte) []byte {
			// There may be fewer masters by now.
			if resp.IsNull(reply) && i+1 < len(order) && order[i+1] < actions.Nodes().Masters() {
				ask(i + 1)
				return nil
			}
			return reply
		})
	}
	ask(0)
}
