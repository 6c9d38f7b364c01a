package scripts

import (
	"fmt"
	"strconv"
	"strings"
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
	body   int    // where the part behind the SHA1 begins
}

// WithSource is the request with the source of the script (EVAL), for a server that has lost it; the server
// then keeps it again.
func (c *Call) WithSource() []byte {
	req := redcon.AppendArray(nil, c.words)
	req = redcon.AppendBulkString(req, "EVAL")
	req = redcon.AppendBulkString(req, c.Script.Source)
	return append(req, c.Req[c.body:]...)
}

// begin begins the EVALSHA of s with so many keys; the keys and args arguments follow. It is appended to
// buf.
func begin(buf []byte, s *Script, keys, args int) Call {
	c := Call{Script: s, Req: buf, words: 3 + keys + args}
	c.Req = redcon.AppendArray(c.Req, c.words)
	c.Req = append(append(append(c.Req, "$7\r\nEVALSHA\r\n$40\r\n"...), s.SHA...), "\r\n"...)
	c.body = len(c.Req)
	c.Req = appendNumber(c.Req, int64(keys))
	return c
}

// Eval begins the EVALSHA of s with the keys of a lock; args arguments follow. at is the slot.
func Eval(n *redlock.Names, s *Script, name string, args int) (at int, c Call) {
	return EvalIn(nil, n, s, name, args)
}

// EvalIn is Eval that appends to buf, or to memory of its own if buf is nil.
func EvalIn(buf []byte, n *redlock.Names, s *Script, name string, args int) (at int, c Call) {
	if buf == nil {
		buf = make([]byte, 0, 384+len(name))
	}
	c = begin(buf, s, s.Keys, args)
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

// FenceKey is the key of the fence of slot at.
func FenceKey(n *redlock.Names, at int) string { return n.Fences + string(slot.Tag(at)) + "}" }

// GuardCall is the call that runs a command if a hold goes on.
func GuardCall(n *redlock.Names, g *redlock.Guard) (at int, c Call) {
	size := 288 + len(g.Name)
	for _, word := range g.Command {
		size += len(word) + 16
	}
	for _, key := range g.Keys {
		size += len(key) + 16
	}
	place := n.Place(g.Name)
	c = begin(make([]byte, 0, size), &Guard, 1+len(g.Keys), 3+len(g.Command))
	c.Text(place.Key)
	for _, key := range g.Keys {
		c.Bytes(key)
	}
	if g.Token == "" {
		c.Empty()
	} else {
		c.Owner(g.Token)
	}
	c.Text(Optional(g.Fence))
	c.Number(int64(g.DB))
	for _, word := range g.Command {
		c.Bytes(word)
	}
	return place.Slot, c
}

// Arguments of a call are appended in their order.

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

// Plain appends the first two arguments of acquire.lua, which are all of a LOCK without options: the value
// of the key if the lock is granted as a plain lock, and the lease. at is now.
func (c *Call) Plain(a *redlock.Acquire, at time.Time) {
	a.Fence = max(at.UnixMicro(), leastClock)
	c.Req = appendPlain(c.Req, a.Fence, a.ID, a.Token)
	c.Number(a.Lease.Milliseconds() + 1)
}

// FreeCall is the call of free.lua for the plain lock that token was granted by the request id.
func FreeCall(
	buf []byte, n *redlock.Names, name, token string, id [redlock.IDBytes]byte,
) (at int, c Call) {
	at, c = EvalIn(buf, n, &Free, name, 1)
	c.Req = append(strconv.AppendInt(append(c.Req, '$'), int64(endingBytes), 10), "\r\n"...)
	c.Req = append(appendEnding(c.Req, id[:], token), "\r\n"...)
	return at, c
}

// DeleteRequest is FreeCall without a script, for servers that have a command for it: DELIFEQ of Valkey, or
// DELEX of Redis. Its fence is that of the grant.
func DeleteRequest(
	buf []byte, n *redlock.Names, command, name, token string, id [redlock.IDBytes]byte, fence int64,
) (at int, req []byte) {
	if buf == nil {
		buf = make([]byte, 0, 192+len(name))
	}
	words := 3
	if command == "DELEX" {
		words = 4
	}
	req = redcon.AppendBulkString(redcon.AppendArray(buf, words), command)
	req = strconv.AppendInt(append(req, '$'), int64(n.KeySize(name)), 10)
	req = append(req, "\r\n"...)
	key := len(req)
	req = n.AppendKey(req, name)
	at = slot.Of(req[key:])
	req = append(req, "\r\n"...)
	if command == "DELEX" {
		req = redcon.AppendBulkString(req, "IFEQ")
	}
	return at, appendPlain(req, fence, id[:], token)
}

// endingBytes is the length of the value of a plain lock behind its fence.
const endingBytes = len(" +") + redlock.IDBytes + len(" ") + redlock.OwnerBytes

// appendEnding appends the value of a plain lock behind its fence.
func appendEnding[ID string | []byte](b []byte, id ID, token string) []byte {
	return redlock.AppendOwner(append(append(append(b, " +"...), id...), ' '), token)
}

// appendPlain appends the value of a plain lock.
func appendPlain[ID string | []byte](req []byte, fence int64, id ID, token string) []byte {
	var digits [20]byte
	number := strconv.AppendInt(digits[:0], fence, 10)
	const head = "lockproxy 1 "
	size := len(head) + len(number) + len(" +") + len(id) + len(" ") + redlock.OwnerBytes
	req = append(strconv.AppendInt(append(req, '$'), int64(size), 10), "\r\n"...)
	return append(appendEnding(append(append(req, head...), number...), id, token), "\r\n"...)
}

// leastClock is the least that a clock may show: 16 digits, from 2001 until 2286.
const leastClock = 1e15

// Asked appends the first five arguments of claim.lua.
func (c *Call) Asked(a *redlock.Acquire) {
	c.Owner(a.Token)
	c.Number(a.Lease.Milliseconds())
	c.Text(string(a.Mode))
	c.Text(a.ID)
	c.Flag(a.Reentrant)
}

// Released appends the first three arguments of release.lua, and returns the id of the request: fresh, a new
// one, unless its client has given it a name.
func (c *Call) Released(r *redlock.Release, fresh [redlock.IDBytes]byte) (id [redlock.IDBytes]byte) {
	c.Owner(r.Token)
	switch {
	case r.Fence != 0:
		c.Number(r.Fence)
	case r.Named != "":
		c.Bytes(fresh[:])
	default:
		c.Empty()
	}
	return c.releaseID(r, fresh)
}

// releaseID appends the id of a release.
func (c *Call) releaseID(r *redlock.Release, fresh [redlock.IDBytes]byte) (id [redlock.IDBytes]byte) {
	id = fresh
	if r.Named != "" {
		copy(id[:], redlock.NameOf(r.Token, r.Named))
	}
	c.Bytes(id[:])
	return id
}

// AnsweredCall is the call that looks for the answer to r, of whose id fresh is as in Released.
func AnsweredCall(n *redlock.Names, r *redlock.Release, fresh [redlock.IDBytes]byte) (at int, c Call) {
	at = n.Place(r.Name).Slot
	c = begin(nil, &Answered, 1, 1)
	c.Text(FenceKey(n, at))
	c.releaseID(r, fresh)
	return at, c
}

// Renewed appends the first three arguments of renew.lua.
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

// After says what becomes of a lock that a script frees. release.lua describes the words.
type After string

const (
	GrantNext  After = "grant"
	OfferNext  After = "offer"
	TellAll    After = "tell"
	TellOthers After = "tell-others"
)

// Freed appends the three arguments that all scripts take which free a lock: this proxy, the command that
// wakes waiters, and what becomes of the lock.
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
		if r.Fence == 0 {
			c.Empty()
		} else {
			c.Number(r.Fence)
		}
		c.Text(r.Keeper)
	}
	return c
}

// CompatRenewCall is the call of compatrenew.lua for holds of one slot. gets is the keeper that they get, or
// ""; then their Keeper is the one that they must have.
func CompatRenewCall(n *redlock.Names, batch []redlock.Renewal, gets string) Call {
	c := begin(make([]byte, 0, 80+200*len(batch)), &CompatRenew, len(batch), 1+5*len(batch))
	for _, r := range batch {
		c.Text(n.Place(r.Name).Key)
	}
	c.Text(FenceKey(n, n.Place(batch[0].Name).Slot))
	for _, r := range batch {
		c.Owner(r.Token)
		c.Number(r.Lease.Milliseconds())
		c.Text(Optional(r.Fence))
		c.Text(r.Keeper)
		c.Text(gets)
	}
	return c
}

// MlockCall is the call that takes the locks of all, which are at one node, and of one token and lease.
// granter is the replication id of the master that may grant, "" if any may.
func MlockCall(n *redlock.Names, all []*redlock.Acquire, granter string) (at int, c Call) {
	c = begin(make([]byte, 0, 256+192*len(all)), &Mlock, 2*len(all), 4+2*len(all))
	for _, a := range all {
		c.Text(n.Place(a.Name).Key)
	}
	for _, a := range all {
		at = n.Place(a.Name).Slot
		c.Text(FenceKey(n, at))
	}
	c.Owner(all[0].Token)
	c.Number(all[0].Lease.Milliseconds())
	c.Text(all[0].Meta)
	c.Text(granter)
	for _, a := range all {
		c.Text(a.ID)
		c.Text(a.Keeper)
	}
	return at, c
}

// WithClock is the last argument of a call whose reply should end with the time of the clock.
const WithClock = "clock"

// InspectCall is the call that reads a lock, or goes on behind the pages p; if token is not "", only its
// hold.
func InspectCall(n *redlock.Names, name, token string, p *Pages) (at int, c Call) {
	switch {
	case token != "":
		at, c = Eval(n, &Inspect, name, 1)
		c.Owner(token)
	case p.next == "":
		at, c = Eval(n, &Inspect, name, 0)
	default:
		at, c = Eval(n, &Inspect, name, 2)
		c.Empty()
		c.Text(p.next)
	}
	return at, c
}

// Said appends what the hold is to say of itself, as acquire.lua and claim.lua take it: the meta, and in
// front of that AtLeast.
func (c *Call) Said(a *redlock.Acquire) {
	if a.AtLeast == 0 && !strings.HasPrefix(a.Meta, "\t") { // which would be taken for one with AtLeast
		c.Text(a.Meta)
		return
	}
	c.Text(fmt.Sprintf("\t%d %s", a.AtLeast.Milliseconds(), a.Meta))
}

// Wait appends how long a waits, and the place that it was told, unless that is 0.
func (c *Call) Wait(left time.Duration, stood int64) {
	var space [40]byte
	wait := strconv.AppendInt(space[:0], left.Milliseconds(), 10)
	if stood != 0 {
		wait = strconv.AppendInt(append(wait, ' '), stood, 10)
	}
	c.Bytes(wait)
}

// Most appends how many clients may wait for the lock, if this one may, and how many may share it, if a wants
// to.
func (c *Call) Most(a *redlock.Acquire, waiters, readers int) {
	var space [40]byte
	most := space[:0]
	if waiters > 0 {
		most = strconv.AppendInt(most, int64(waiters), 10)
	}
	switch a.Mode {
	case redlock.Read:
		most = strconv.AppendInt(append(most, ' '), int64(readers), 10)
	case redlock.Permit:
		most = strconv.AppendInt(append(most, ' '), int64(a.Permits), 10)
	}
	c.Bytes(most)
}

// scanStep is how many keys a node looks at in one SCAN, which takes it about 0.1 ms.
const scanStep = 1000

// ScanRequest is the command for one page of keys.
func ScanRequest(cursor, glob string) []byte {
	return resp.AppendCommandStrings(nil, "SCAN", cursor, "MATCH", glob, "COUNT", strconv.Itoa(scanStep))
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
