package commands

import (
	"bytes"

	"lockproxy/internal/resp"
)

// eval remembers the script on its way to the keys' node, so that an EVALSHA of
// it can be healed.
func eval(c *Call) {
	c.Server.Scripts().Add(c.Args[1])
	c.byKeys()
}

// scriptLoad loads the script on all masters.
func scriptLoad(c *Call) {
	c.Server.Scripts().Add(c.Args[2])
	c.Broadcast(c.Raw, true, mergeFirst)
}

// scriptFlush has the nodes and the proxy forget: what was flushed must not come
// back by being healed.
func scriptFlush(c *Call) {
	c.Server.Scripts().Flush()
	c.Broadcast(c.Raw, true, mergeFirst)
}

// scriptExists says of which scripts EVALSHA will work: those that all masters
// have, and those that the proxy can give them.
func scriptExists(c *Call) {
	scripts := c.Server.Scripts()
	known := make([]bool, len(c.Args)-2)
	for i, sha := range c.Args[2:] {
		_, known[i] = scripts.Get(bytes.ToLower(sha))
	}
	c.Broadcast(c.Raw, true, func(proto int, replies [][]byte) []byte {
		v, _, err := resp.Parse(mergeAnd(proto, replies))
		if err != nil || v.Kind != '*' || len(v.Elems) != len(known) {
			return mergeFirst(proto, replies)
		}
		for i := range known {
			if known[i] {
				v.Elems[i].Int = 1
			}
		}
		return resp.AppendValue(nil, v)
	})
}
