package commands

import (
	"bytes"
	"math/rand/v2"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

// randomKey asks the masters in random order until one has a key.
func randomKey(c *Call) {
	actions, raw, order := c.Actions, bytes.Clone(c.Raw), rand.Perm(c.Nodes().Masters())
	if len(order) < 2 {
		c.Forward(AnySlot)
		return
	}
	var ask func(i int)
	ask = func(i int) {
		actions.Ask(cluster.ToMaster(order[i]), raw, reread, func(reply []byte) []byte {
			if resp.IsNull(reply) && i+1 < len(order) && order[i+1] < actions.Nodes().Masters() {
				ask(i + 1)
				return nil
			}
			return reply
		})
	}
	ask(0)
}
