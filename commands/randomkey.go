package commands

import (
	"bytes"
	"math/rand/v2"
)

// randomKey asks the masters in random order until one has a key.
func randomKey(c *Call) {
	actions, raw, order := c.Actions, bytes.Clone(c.Raw), rand.Perm(c.Masters())
	if len(order) < 2 {
		c.Forward(AnySlot)
		return
	}
	var ask func(i int)
	ask = func(i int) {
		actions.SendMaster(order[i], raw, true, func(reply []byte) []byte {
			if isNull(reply) && i+1 < len(order) && order[i+1] < actions.Masters() {
				ask(i + 1)
				return nil
			}
			return reply
		}, nil)
	}
	ask(0)
}
