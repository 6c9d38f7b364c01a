package scripts

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
	"lockproxy/redlock"
)

// Call is a script on its way to Redis.
type Call struct {
	Script *Script
	Req    []byte // the EVALSHA, whole
	words  int    // of it
	body   int    // where what follows the SHA1 begins
}

// WithSource is the same with the source of the script, for a server that has lost it and remembers it from
// then on.
func (c *Call) WithSource() []byte {
	req := redcon.AppendArray(nil, c.words)
	req = redcon.AppendBulkString(req, "EVAL")
	req = redcon.AppendBulkString(req, c.Script.Source)
	return append(req, c.Req[c.body:]...)
}

// begin begins the EVALSHA of s on so many keys; they and args arguments follow. It is appended to room.
func begin(room []byte, s *Script, keys, args int) Call {
	c := Call{Script: s, Req: room, words: 3 + keys + args}
	c.Req = redcon.AppendArray(c.Req, c.words)
	c.Req = redcon.AppendBulkString(c.Req, "EVALSHA")
	c.Req = redcon.AppendBulkString(c.Req, s.SHA)
	c.body = len(c.Req)
	c.Req = appendNumber(c.Req, int64(keys))
	return c
}

// Eval begins the EVALSHA of s on the keys of a lock, as n names them; args arguments follow.
func Eval(n *redlock.Names, s *Script, name string, args int) (at int, c Call) {
	return EvalIn(nil, n, s, name, args)
}

// EvalIn is eval that appends to room, or to memory of its own if that is nil.
func EvalIn(room []byte, n *redlock.Names, s *Script, name string, args int) (at int, c Call) {
	if room == nil {
		room = make([]byte, 0, 288+len(name))
	}
	c = begin(room, s, s.Keys, args)
	req := strconv.AppendInt(append(c.Req, '$'), int64(n.KeySize(name)), 10)
	req = append(req, "\r\n"...)
	key := len(req)
	req = n.AppendKey(req, name)
	at = slot.Of(req[key:])
	req = append(req, "\r\n"...)
	if s.Keys > 1 {
		tag := slot.Tag(at)
		req = append(strconv.AppendInt(append(req, '$'), int64(len(n.Fences)+len(tag)+1), 10), "\r\n"...)
		req = append(append(append(req, n.Fences...), tag...), "}\r\n"...)
	}
	c.Req = req
	return at, c
}

// OfFence begins the EVALSHA of s on the fence of slot at; args arguments follow.
func OfFence(n *redlock.Names, s *Script, at, args int) Call {
	c := begin(nil, s, 1, args)
	c.Text(FenceKey(n, at))
	return c
}

// FenceKey is the key of the fence of slot at.
func FenceKey(n *redlock.Names, at int) string { return n.Fences + string(slot.Tag(at)) + "}" }

// NumberCall is the call that gives the hold of owner the fence that it was granted without.
func NumberCall(n *redlock.Names, name, owner string, stands, fence int64) (at int, c Call) {
	at, c = Eval(n, &Number, name, 3)
	c.Text(owner)
	c.Text(fmt.Sprintf("%0*d", clockDigits, stands))
	c.Number(fence)
	return at, c
}

// Unnumbered says that a fence stands for one that the hold is still to get, by draw.lua and number.lua.
func Unnumbered(fence int64) bool { return fence >= stands && fence < 2*stands }

// The arguments of a call are appended in their order.

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

// Plain appends the two arguments of acquire.lua that are all of a LOCK that nothing more is said of: the
// lock as it is going to be, and for how long.
func (c *Call) Plain(a *redlock.Acquire) {
	const head = "lockproxy 1 "
	size := len(head) + clockDigits + len(" +") + len(a.ID) + len(" ") + redlock.OwnerBytes
	req := append(strconv.AppendInt(append(c.Req, '$'), int64(size), 10), "\r\n"...)
	req = append(req, head...)
	a.Fence = max(time.Now().UnixMicro(), leastClock)
	req = strconv.AppendInt(req, a.Fence, 10)
	req = append(append(append(req, " +"...), a.ID...), ' ')
	c.Req = append(redlock.AppendOwner(req, a.Token), "\r\n"...)
	c.Number(a.Lease.Milliseconds() + 1)
}

// A clock shows 16 digits from 2001 until 2286.
const (
	clockDigits = 16
	leastClock  = 1e15
	stands      = 1e12 // the least number that stands for a fence: 0001 in front of 12 digits, see fence.lua
)

// Asked appends the five arguments of claim.lua that say what a asks for.
func (c *Call) Asked(a *redlock.Acquire) {
	c.Owner(a.Token)
	c.Number(a.Lease.Milliseconds())
	c.Text(string(a.Mode))
	c.Text(a.ID)
	c.Flag(a.Reentrant)
}

// Released appends the three that say what r releases, and returns the id of the request: fresh, which is a
// new one, unless its client has named it.
func (c *Call) Released(r *redlock.Release, fresh [redlock.IDBytes]byte) (id [redlock.IDBytes]byte) {
	c.Owner(r.Token)
	id = fresh
	switch {
	case r.Fence != 0:
		c.Number(r.Fence)
	case r.Named != "":
		c.Bytes(id[:])
	default:
		c.Empty()
	}
	if r.Named != "" {
		copy(id[:], redlock.NameOf(r.Token, r.Named))
	}
	c.Bytes(id[:])
	return id
}

// Renewed appends the three that say what r renews.
func (c *Call) Renewed(n *redlock.Names, r *redlock.Renew) {
	c.Owner(r.Token)
	c.Number(r.Lease.Milliseconds())
	if r.Fence != 0 {
		c.Number(r.Fence)
		return
	}
	id := n.NewRequest()
	c.Bytes(id[:])
}

// After is what becomes of a lock that a script frees. release.lua says what the words mean.
type After string

const (
	GrantNext  After = "grant"
	OfferNext  After = "offer"
	TellAll    After = "tell"
	TellOthers After = "tell-others"
)

// Freed appends the three that all take who free a lock: this proxy, the command that wakes others, and what
// becomes of the lock.
func (c *Call) Freed(proxy, publish string, next After) {
	c.Text(proxy)
	c.Text(publish)
	c.Text(string(next))
}

// KeepCall is the call that renews the holds of batch, all of one slot; more arguments follow.
func KeepCall(n *redlock.Names, batch []redlock.Renewal, more int) Call {
	c := begin(make([]byte, 0, 80+200*len(batch)), &Keep, len(batch), 4*len(batch)+more)
	for _, r := range batch {
		c.Text(n.Place(r.Name).Key)
	}
	for _, r := range batch {
		c.Owner(r.Token)
		c.Number(r.Lease.Milliseconds())
		c.Number(r.Fence)
		c.Text(r.Keeper)
	}
	return c
}

// WithClock is the last argument of a call that is answered with what the clock shows, behind all else.
const WithClock = "clock"

// InspectCall is the call that reads a lock, or goes on after some pages of it; for the owner of token if
// that is not "".
func InspectCall(n *redlock.Names, name, token string, p *Pages) (at int, c Call) {
	switch {
	case token != "":
		at, c = Eval(n, &Inspect, name, 1)
		c.Owner(token)
	case p.next == "":
		at, c = Eval(n, &Inspect, name, 0)
	default:
		at, c = Eval(n, &Inspect, name, 3)
		c.Empty()
		c.Text(p.next)
		c.Number(int64(p.readers))
	}
	return at, c
}

// Most appends how many may wait for the lock, if any may, and how many may read it, if one of them asks.
func (c *Call) Most(m redlock.Mode, waiters, readers int) {
	var space [40]byte
	most := space[:0]
	if waiters > 0 {
		most = strconv.AppendInt(most, int64(waiters), 10)
	}
	if m == redlock.Read {
		most = strconv.AppendInt(append(most, ' '), int64(readers), 10)
	}
	c.Bytes(most)
}

// scanStep is how many keys a node looks at in one SCAN: some 0.1 ms of its time.
const scanStep = 1000

// ScanRequest is the command that looks for keys, a page of them.
func ScanRequest(cursor, glob string) []byte {
	return resp.AppendCommandStrings(nil, "SCAN", cursor, "MATCH", glob, "COUNT", strconv.Itoa(scanStep))
}

// appendNumber appends n as a bulk string.
func appendNumber(req []byte, n int64) []byte {
	var digits [20]byte
	return redcon.AppendBulk(req, strconv.AppendInt(digits[:0], n, 10))
}

// Optional is a fence as the scripts take it: 0 is none.
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
