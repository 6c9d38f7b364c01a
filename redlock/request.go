package redlock

import (
	"strconv"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/internal/slot"
	"lockproxy/redlock/scripts"
)

// call is a script on its way to Redis.
type call struct {
	script *scripts.Script
	req    []byte // the EVALSHA, whole
	words  int    // of it
	body   int    // where what follows the SHA1 begins
}

// withSource is the same with the source of the script, for a server that has lost it and remembers it from
// then on.
func (c *call) withSource() []byte {
	req := redcon.AppendArray(nil, c.words)
	req = redcon.AppendBulkString(req, "EVAL")
	req = redcon.AppendBulkString(req, c.script.Source)
	return append(req, c.req[c.body:]...)
}

// begin begins the EVALSHA of s on so many keys; they and args arguments follow. It is appended to room.
func begin(room []byte, s *scripts.Script, keys, args int) call {
	c := call{script: s, req: room, words: 3 + keys + args}
	c.req = redcon.AppendArray(c.req, c.words)
	c.req = redcon.AppendBulkString(c.req, "EVALSHA")
	c.req = redcon.AppendBulkString(c.req, s.SHA)
	c.body = len(c.req)
	c.req = appendNumber(c.req, int64(keys))
	return c
}

// eval begins the EVALSHA of s on the keys of a lock; args arguments follow.
func (n *naming) eval(s *scripts.Script, name string, args int) (at int, c call) {
	return n.evalIn(nil, s, name, args)
}

// evalIn is eval that appends to room, or to memory of its own if that is nil.
func (n *naming) evalIn(room []byte, s *scripts.Script, name string, args int) (at int, c call) {
	if room == nil {
		room = make([]byte, 0, 288+len(name))
	}
	c = begin(room, s, s.Keys, args)
	req := c.req
	tagged := hasTag(name)
	size := len(n.prefix) + len(name)
	if !tagged {
		size += 2
	}
	req = append(strconv.AppendInt(append(req, '$'), int64(size), 10), "\r\n"...)
	key := len(req)
	req = append(req, n.prefix...)
	if tagged {
		req = append(req, name...)
	} else {
		req = append(append(append(req, '{'), name...), '}')
	}
	at = slot.Of(req[key:])
	req = append(req, "\r\n"...)
	if s.Keys > 1 {
		tag := slot.Tag(at)
		req = append(strconv.AppendInt(append(req, '$'), int64(len(n.fences)+len(tag)+1), 10), "\r\n"...)
		req = append(append(append(req, n.fences...), tag...), "}\r\n"...)
	}
	c.req = req
	return at, c
}

// The arguments of a call are appended in their order.

func (c *call) owner(token string) { c.req = appendOwnerOf(c.req, token) }
func (c *call) text(s string)      { c.req = redcon.AppendBulkString(c.req, s) }
func (c *call) bytes(b []byte)     { c.req = redcon.AppendBulk(c.req, b) }
func (c *call) number(n int64)     { c.req = appendNumber(c.req, n) }
func (c *call) empty()             { c.req = append(c.req, "$0\r\n\r\n"...) }

// flag appends 1 or 0.
func (c *call) flag(on bool) {
	if on {
		c.text("1")
	} else {
		c.text("0")
	}
}

// plain appends the two arguments of acquire.lua that are all of a LOCK that nothing more is said of: the lock as
// it is going to be, and for how long.
func (c *call) plain(a *Acquire) {
	const head = "lockproxy 1 "
	size := len(head) + clockDigits + len(" +") + len(a.ID) + len(" ") + ownerBytes
	req := append(strconv.AppendInt(append(c.req, '$'), int64(size), 10), "\r\n"...)
	req = append(req, head...)
	a.fence = max(time.Now().UnixMicro(), leastClock)
	req = strconv.AppendInt(req, a.fence, 10)
	req = append(append(append(req, " +"...), a.ID...), ' ')
	c.req = append(appendOwner(req, a.Token), "\r\n"...)
	c.number(a.Lease.Milliseconds() + 1)
}

// A clock shows 16 digits from 2001 until 2286.
const (
	clockDigits = 16
	leastClock  = 1e15
)

// asked appends the five arguments of claim.lua that say what a asks for.
func (c *call) asked(a *Acquire) {
	c.owner(a.Token)
	c.number(a.Lease.Milliseconds())
	c.text(string(a.Mode))
	c.text(a.ID)
	c.flag(a.Reentrant)
}

// released appends the three that say what r releases, and returns the id of the request.
func (c *call) released(n *naming, r *Release) (id [idBytes]byte) {
	c.owner(r.Token)
	id = n.ids.next()
	switch {
	case r.Fence != 0:
		c.number(r.Fence)
	case r.Named != "":
		c.bytes(id[:])
	default:
		c.empty()
	}
	if r.Named != "" {
		copy(id[:], nameOf(r.Token, r.Named))
	}
	c.bytes(id[:])
	return id
}

// renewed appends the three that say what r renews.
func (c *call) renewed(n *naming, r *Renew) {
	c.owner(r.Token)
	c.number(r.Lease.Milliseconds())
	if r.Fence != 0 {
		c.number(r.Fence)
		return
	}
	id := n.ids.next()
	c.bytes(id[:])
}

// after is what becomes of a lock that a script frees. release.lua says what the words mean.
type after string

const (
	grantNext  after = "grant"
	offerNext  after = "offer"
	tellAll    after = "tell"
	tellOthers after = "tell-others"
)

// freed appends the three that all take who free a lock: this proxy, the command that wakes others, and what
// becomes of the lock.
func (c *call) freed(proxy, publish string, next after) {
	c.text(proxy)
	c.text(publish)
	c.text(string(next))
}

// kept is the call that renews the holds of batch, all of one slot; more arguments follow.
func (n *naming) kept(batch []Renewal, more int) call {
	c := begin(make([]byte, 0, 80+200*len(batch)), &scripts.Keep, len(batch), 4*len(batch)+more)
	for _, r := range batch {
		c.text(n.place(r.Name).key)
	}
	for _, r := range batch {
		c.owner(r.Token)
		c.number(r.Lease.Milliseconds())
		c.number(r.Fence)
		c.text(r.Keeper)
	}
	return c
}

// withClock is the last argument of a call that is answered with what the clock shows, behind all else.
const withClock = "clock"

// inspected is the call that reads a lock, or goes on after some pages of it; for the owner of token if that
// is not "".
func (n *naming) inspected(name, token string, p *pages) (at int, c call) {
	switch {
	case token != "":
		at, c = n.eval(&scripts.Inspect, name, 1)
		c.owner(token)
	case p.next == "":
		at, c = n.eval(&scripts.Inspect, name, 0)
	default:
		at, c = n.eval(&scripts.Inspect, name, 3)
		c.empty()
		c.text(p.next)
		c.number(int64(p.readers))
	}
	return at, c
}

// appendNumber appends n as a bulk string.
func appendNumber(req []byte, n int64) []byte {
	var digits [20]byte
	return redcon.AppendBulk(req, strconv.AppendInt(digits[:0], n, 10))
}

// optional is a fence as the scripts take it: 0 is none.
func optional(fence int64) string {
	if fence == 0 {
		return ""
	}
	return strconv.FormatInt(fence, 10)
}
