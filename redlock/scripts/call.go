package scripts

import (
	"strconv"

	"github.com/tidwall/redcon"

	"lockproxy/internal/slot"
	"lockproxy/redlock"
)

// Call is a script, or a command in its place, on its way to Redis. Req is not changed any more once it is
// whole.
type Call struct {
	Script *Script // nil: it is a command
	Slot   int     // of its locks, by which their node is found
	Req    []byte  // the whole command
	words  int     // of it
	body   int     // where the part behind the SHA1 begins
}

// WithSource is the request with the source of the script (EVAL), for a server that has lost it; the server
// then keeps it again. The arguments are those of the EVALSHA, so it is the same request.
func (c *Call) WithSource() []byte {
	req := redcon.AppendArray(nil, c.words)
	req = redcon.AppendBulkString(req, "EVAL")
	req = redcon.AppendBulkString(req, c.Script.Source)
	return append(req, c.Req[c.body:]...)
}

// header is the room in front of an EVALSHA for the number of its words, which is known last.
const header = "*1000000\r\n"

// beginCall begins the EVALSHA of s with so many keys; the keys and the arguments follow, then whole. buf
// must be empty.
func beginCall(buf []byte, s *Script, keys int) Call {
	c := Call{Script: s, words: 2, Req: append(append(buf, header...), "$7\r\nEVALSHA\r\n$40\r\n"...)}
	c.Req = append(append(c.Req, s.SHA...), "\r\n"...)
	c.body = len(c.Req)
	c.Number(int64(keys))
	return c
}

// whole is c with all of its words.
func (c Call) whole() Call {
	var space [len(header)]byte
	words := redcon.AppendArray(space[:0], c.words)
	left := len(header) - len(words)
	copy(c.Req[left:], words)
	c.Req, c.body = c.Req[left:], c.body-left
	return c
}

// eval begins the EVALSHA of s with the keys of a lock: the lock, and if s has two the fence of its slot,
// unless the call is to be apart. It writes to buf, or to memory of its own if buf is nil.
func eval(buf []byte, n *redlock.Names, s *Script, apart bool, name string) Call {
	if buf == nil {
		buf = make([]byte, 0, 384+len(name))
	}
	keys := s.Keys
	if apart {
		keys = 1
	}
	c := beginCall(buf, s, keys)
	var req []byte
	req, c.Slot = appendLock(c.Req, n, name)
	c.add(req)
	if keys > 1 {
		c.fenceKey(n)
	}
	return c
}

// appendLock appends the key of a lock as a bulk string. at is its slot.
func appendLock(req []byte, n *redlock.Names, name string) (with []byte, at int) {
	req = strconv.AppendInt(append(req, '$'), int64(n.KeySize(name)), 10)
	req = append(req, "\r\n"...)
	key := len(req)
	req = n.AppendKey(req, name)
	return append(req, "\r\n"...), slot.Of(req[key:])
}

// fenceKey appends the key of the fence of its slot. It allocates nothing but room in the request. A slot has
// a tag of its own (slot.Tag), so that this key lies in it, too.
func (c *Call) fenceKey(n *redlock.Names) {
	tag := slot.Tag(c.Slot)
	req := strconv.AppendInt(append(c.Req, '$'), int64(len(n.Fences)+len(tag)+1), 10)
	req = append(req, "\r\n"...)
	c.add(append(append(append(req, n.Fences...), tag...), "}\r\n"...))
}

// add notes that req is the request with one more word.
func (c *Call) add(req []byte) {
	c.Req = req
	c.words++
}

// Words of a call are appended in their order. "" is what scripts take for what is not given.

func (c *Call) Text(s string)  { c.add(redcon.AppendBulkString(c.Req, s)) }
func (c *Call) Bytes(b []byte) { c.add(redcon.AppendBulk(c.Req, b)) }

// Number appends n.
func (c *Call) Number(n int64) {
	var digits [20]byte
	c.Bytes(strconv.AppendInt(digits[:0], n, 10))
}

// OwnerIf is Owner, but "" stays "".
func (c *Call) OwnerIf(token string) {
	if token == "" {
		c.Text("")
	} else {
		c.Owner(token)
	}
}

// Owner appends the owner that a token becomes. It allocates nothing but room in the request.
func (c *Call) Owner(token string) {
	req := redlock.AppendOwner(append(c.Req, "$33\r\n"...), token)
	c.add(append(req, "\r\n"...))
}

// Flag appends 1 or 0.
func (c *Call) Flag(on bool) {
	if on {
		c.Text("1")
	} else {
		c.Text("0")
	}
}

// Optional is a fence as an argument of scripts; 0 becomes "".
func Optional(fence int64) string {
	if fence == 0 {
		return ""
	}
	return strconv.FormatInt(fence, 10)
}
