package connection

import (
	"time"

	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// clientInfo is CLIENT INFO.
func clientInfo(c *commands.Call) {
	c.Reply(resp.AppendVerbatim(nil, c.Client.Proto, "txt",
		string(appendLine(c.Clients().Self(), nil, time.Now(), c.Server.Upstream().AtLeast(7, 2)))))
}

// clientList is CLIENT LIST [TYPE type | ID id ...].
func clientList(c *commands.Call) {
	var ids []int64
	kind := anyType
	switch args := c.Args[2:]; {
	case len(args) == 0:
	case len(args) == 2 && resp.IsWord(args[0], "TYPE"):
		var refusal []byte
		if kind, refusal = newPeerType(args[1]); refusal != nil {
			c.Reply(refusal)
			return
		}
	case len(args) >= 2 && resp.IsWord(args[0], "ID"):
		ids = make([]int64, len(args)-1)
		for i, arg := range args[1:] {
			n, ok := resp.Integer(arg)
			if !ok {
				c.Reply(resp.ErrorLine("ERR Invalid client ID"))
				return
			}
			ids[i] = n
		}
	default:
		c.Reply(resp.ErrSyntax)
		return
	}
	now, libs, proto := time.Now(), c.Server.Upstream().AtLeast(7, 2), c.Client.Proto
	c.Clients().Each(ids, func(p *commands.Peer) []byte {
		if kind != anyType && kindOf(p) != kind {
			return nil
		}
		return appendLine(p, make([]byte, 0, usualLine), now, libs)
	}, func(seen []commands.Seen) []byte {
		return resp.AppendVerbatim(nil, proto, "txt", joinLines(seen, ids))
	})
}

// usualLine is how long few lines of CLIENT LIST are.
const usualLine = 320

// joinLines joins lines by ID, or in the order in which ids names them.
func joinLines(seen []commands.Seen, ids []int64) string {
	size := 0
	for _, s := range seen {
		size += len(s.Text)
	}
	text := make([]byte, 0, size)
	if ids == nil {
		for _, s := range seen {
			text = append(text, s.Text...)
		}
		return string(text)
	}
	lines := make(map[int64][]byte, len(seen))
	for _, s := range seen {
		lines[s.ID] = s.Text
	}
	for _, id := range ids {
		text = append(text, lines[id]...)
	}
	return string(text)
}
