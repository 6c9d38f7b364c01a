package connection

import (
	"time"

	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// clientInfo is CLIENT INFO. It is the line of CLIENT LIST for the client itself.
func clientInfo(c *commands.Call) {
	c.Reply(resp.AppendVerbatim(nil, c.Client.Proto,
		string(appendLine(c.Clients().Self(), nil, time.Now(), newFields(c)))))
}

// clientList is CLIENT LIST [TYPE type | ID id ...], and with the filters of CLIENT KILL at Valkey. The
// upstream decides which filters there are (dialectOf), since clients choose by its version.
func clientList(c *commands.Call) {
	f, refusal := newListFilter(c)
	if refusal != nil {
		c.Reply(refusal)
		return
	}
	clients, now, with, proto := c.Clients(), time.Now(), newFields(c), c.Client.Proto
	f.checkUsers(c, func() {
		clients.Each(f.ids, func(p *commands.Peer) []byte {
			if !f.selectsPeer(p, now) {
				return nil
			}
			return appendLine(p, make([]byte, 0, usualLine), now, with)
		}, func(seen []commands.SeenClient) []byte {
			text, ok := joinLines(seen, f.ids)
			if !ok {
				return resp.ErrorLine("ERR the same ids are named too often for one reply")
			}
			return resp.AppendVerbatim(nil, proto, text)
		})
	})
}

// newListFilter reads the arguments of CLIENT LIST. Redis has TYPE and ID only, and not both at once. Its ids
// need not be sorted, may be repeated, and give the order of the lines.
func newListFilter(c *commands.Call) (f filter, refusal []byte) {
	switch args := c.Args[2:]; {
	case c.Server.Upstream().IsValkey(8, 1), len(args) == 0,
		len(args) == 2 && resp.IsWord(args[0], "TYPE"):
		refusal = f.parseFilters(dialectOf(c), args, c.Client.ID)
		return f, refusal
	case len(args) >= 2 && resp.IsWord(args[0], "ID"):
		f.ids = make([]int64, len(args)-1)
		for i, arg := range args[1:] {
			n, ok := resp.Integer(arg)
			if !ok {
				return f, resp.ErrorLine("ERR Invalid client ID")
			}
			f.ids[i] = n
		}
		return f, nil
	}
	return f, resp.ErrSyntax
}

// usualLine is a length that few lines of CLIENT LIST exceed. It is in bytes.
const usualLine = 320

// mostRepeated is how many bytes the lines of ids may have that are named again: a client's name may be a
// megabyte, and thousands of ids fit into one command.
const mostRepeated = 16 << 20

// joinLines joins lines by ID, or in the order in which ids names them. An id without a client has no line;
// an id that is named twice has two. It reports false if the repeated ones are more than mostRepeated.
func joinLines(seen []commands.SeenClient, ids []int64) (_ string, ok bool) {
	size := 0
	for _, s := range seen {
		size += len(s.Text)
	}
	text := make([]byte, 0, size)
	if ids == nil {
		for _, s := range seen {
			text = append(text, s.Text...)
		}
		return string(text), true
	}
	lines := make(map[int64][]byte, len(seen))
	for _, s := range seen {
		lines[s.ID] = s.Text
	}
	for _, id := range ids {
		if text = append(text, lines[id]...); len(text) > size+mostRepeated {
			return "", false
		}
	}
	return string(text), true
}
