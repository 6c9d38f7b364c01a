package scripts

import (
	"strconv"

	"github.com/tidwall/redcon"

	"lockproxy/internal/slot"
	"lockproxy/redlock"
)

// Call is a script on its way to Redis. Req is not changed any more once it is sent.
type Call struct {
	Script *Script
	Req    []byte // the EVALSHA, whole
	words  int    // of it
	body   int    // where the part behind the SHA1 begins
}

// WithSource is the request with the source of the script (EVAL), for a server that has lost it; the server
// then keeps it again. The arguments are those of the EVALSHA, so it is the same request.
func (c *Call) WithSource() []byte {
	req := redcon.AppendArray(nil, c.words)
	req = redcon.AppendBulkString(req, "EVAL")
	req = redcon.AppendBulkString(req, c.Script.Source)
	return append(req, c.Req[c.body:]...)
}

// beginCall begins the EVALSHA of s with so many keys; the keys and args arguments follow. It is appended to
// buf. Redis wants the number of words in front, so it has to be known here.
func beginCall(buf []byte, s *Script, keys, args int) Call {
	c := Call{Script: s, Req: buf, words: 3 + keys + args}
	c.Req = redcon.AppendArray(c.Req, c.words)
	c.Req = append(append(append(c.Req, "$7\r\nEVALSHA\r\n$40\r\n"...), s.SHA...), "\r\n"...)
	c.body = len(c.Req)
	c.Req = appendNumber(c.Req, int64(keys))
	return c
}

// eval begins the EVALSHA of s with the keys of a lock: the lock, and if s has two the fence of its slot,
// unless the call is to be apart. args arguments follow. at is the slot. It appends to buf, or to memory of
// its own if buf is nil.
func eval(buf []byte, n *redlock.Names, s *Script, apart bool, name string, args int) (at int, c Call) {
	if buf == nil {
		buf = make([]byte, 0, 384+len(name))
	}
	keys := s.Keys
	if apart {
		keys = 1
	}
	c = beginCall(buf, s, keys, args)
	req := strconv.AppendInt(append(c.Req, '$'), int64(n.KeySize(name)), 10)
	req = append(req, "\r\n"...)
	key := len(req)
	req = n.AppendKey(req, name)
	at = slot.Of(req[key:])
	c.Req = append(req, "\r\n"...)
	if keys > 1 {
		c.fenceKey(n, at)
	}
	return at, c
}

// fenceKey appends the key of the fence of slot at. It allocates nothing but room in the request. A slot has
// a tag of its own (slot.Tag), so that this key lies in it, too.
func (c *Call) fenceKey(n *redlock.Names, at int) {
	tag := slot.Tag(at)
	req := strconv.AppendInt(append(c.Req, '$'), int64(len(n.Fences)+len(tag)+1), 10)
	req = append(req, "\r\n"...)
	c.Req = append(append(append(req, n.Fences...), tag...), "}\r\n"...)
}

// Arguments of a call are appended in their order. Owner turns a token into an owner. Empty is "", which
// scripts take for what is not given.

func (c *Call) Owner(token string) { c.Req = appendOwnerOf(c.Req, token) }
func (c *Call) Text(s string)      { c.Req = redcon.AppendBulkString(c.Req, s) }
func (c *Call) Bytes(b []byte)     { c.Req = redcon.AppendBulk(c.Req, b) }
func (c *Call) Number(n int64)     { c.Req = appendNumber(c.Req, n) }
func (c *Call) Empty()             { c.Req = append(c.Req, "$0\r\n\r\n"...) }

// Flag appends 1 or 0.
func (c *Call) Flag(on bool) {
	if on {
		c.Text("1")
	} else {
		c.Text("0")
	}
}

// appendNumber appends n as a bulk string.
func appendNumber(req []byte, n int64) []byte {
	var digits [20]byte
	return redcon.AppendBulk(req, strconv.AppendInt(digits[:0], n, 10))
}

// Optional is a fence as an argument of scripts; 0 becomes "".
func Optional(fence int64) string {
	if fence == 0 {
		return ""
	}
	return strconv.FormatInt(fence, 10)
}

// appendOwnerOf appends OwnerOf(token) as a bulk string. It allocates nothing but room in req.
func appendOwnerOf(req []byte, token string) []byte {
	req = append(req, "$33\r\n"...)
	return append(redlock.AppendOwner(req, token), "\r\n"...)
}
