package scripts

import (
	"cmp"
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

// DeleteRequest deletes a plain lock without a script, on servers that have a command for it: DELIFEQ of
// Valkey, or DELEX of Redis. It was granted to the request id, with that fence.
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

// Releasing is a call of release.lua.
type Releasing struct {
	*redlock.Release
	Fresh          [redlock.IDBytes]byte // its id, unless its client has named it
	Plain          [redlock.IDBytes]byte // the request whose grant of a plain lock is meant; zero: any
	Known          int64                 // the fence that the token had; 0: not known
	Keeper         string                // for that keeper, which has no other id; "": for a client
	Proxy, Publish string
	Apart          bool // the lock is the only key
}

// Call is the call of r. buf is as that of EvalIn. next says what becomes of a lock of a slot.
func (r *Releasing) Call(
	buf []byte, n *redlock.Names, next func(slot int) After,
) (at int, c Call) {
	s, args, plain := &Release, 3, r.Plain[0] != 0
	switch {
	case plain:
		s, args = releaseAlone, 2
	case r.Apart && r.Keeper != "":
		s = releaseAlone
	case r.Apart:
		s, args = releaseAlone, 4
	case r.Fence == 0 && r.Named == "" && r.Keeper == "":
		args = 2
	}
	at, c = EvalIn(buf, n, s, r.Name, args)
	if plain {
		c.Req = append(strconv.AppendInt(append(c.Req, '$'), int64(endingBytes), 10), "\r\n"...)
		c.Req = append(appendEnding(c.Req, r.Plain[:], r.Token), "\r\n"...)
	} else {
		c.Owner(r.Token)
	}
	var space [128]byte
	id, after := r.ID(), OfferNext
	if s.Keys > 1 {
		after = next(at)
	}
	request := append(space[:0], r.Keeper...)
	if r.Keeper == "" {
		request = append(request, id[:]...)
	}
	request = append(append(append(request, ' '), r.Proxy...), ' ')
	request = append(append(append(append(request, r.Publish...), ' '), after...), ' ')
	switch known := cmp.Or(r.Fence, r.Known); {
	case plain, r.Apart, r.Named != "", known == 0:
	default:
		request = strconv.AppendInt(request, known, 10)
	}
	c.Bytes(request)
	switch {
	case args == 2:
	case r.Keeper != "":
		c.Text(r.Keeper)
	case r.Fence != 0:
		c.Number(r.Fence)
	case r.Named != "":
		c.Bytes(r.Fresh[:])
	default:
		c.Empty()
	}
	if args == 4 {
		c.Text(FenceKey(n, at))
	}
	return at, c
}

// ID is the id of the request: Fresh, unless its client has given it a name.
func (r *Releasing) ID() (id [redlock.IDBytes]byte) {
	if id = r.Fresh; r.Named != "" {
		copy(id[:], redlock.NameOf(r.Token, r.Named))
	}
	return id
}

// Answered is the call that looks for the answer that r was given before.
func (r *Releasing) Answered(n *redlock.Names) (at int, c Call) {
	at = n.Place(r.Name).Slot
	c = begin(nil, &Release, 1, 2)
	c.Text(FenceKey(n, at))
	c.Empty()
	id := r.ID()
	c.Text(string(id[:]) + " - - -")
	return at, c
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

// Asks says who asks renew.lua for holds, which describes the words.
type Asks string

const (
	Client Asks = "client"
	Keeper Asks = "keeper"
)

// RenewCall is the call of renew.lua for the holds of batch, all of one slot. A client asks for one. If it
// names no fence, the hold is meant that its token has now.
func RenewCall(n *redlock.Names, who Asks, batch ...redlock.Renewal) Call {
	c := begin(make([]byte, 0, 160+200*len(batch)), &Renew, len(batch), 2+4*len(batch))
	for _, r := range batch {
		c.Text(n.Place(r.Name).Key)
	}
	c.Text(string(who))
	c.Text(FenceKey(n, n.Place(batch[0].Name).Slot))
	for _, r := range batch {
		c.Owner(r.Token)
		c.Number(r.Lease.Milliseconds())
		if r.Fence == 0 && who == Client {
			id := n.NewRequest()
			c.Bytes(id[:])
		} else {
			c.Text(Optional(r.Fence))
		}
		c.Text(r.Keeper)
	}
	return c
}

// CompatTake begins the call of compat.lua that takes a lock; six arguments follow.
func CompatTake(n *redlock.Names, name string) (at int, c Call) {
	at, c = Eval(n, &Compat, name, 8)
	c.Text("take")
	c.Text(FenceKey(n, at))
	return at, c
}

// CompatRelease begins the call that frees a lock; six arguments follow.
func CompatRelease(n *redlock.Names, name string) (at int, c Call) {
	at, c = Eval(n, compatAlone, name, 8)
	c.Text("release")
	c.Text(FenceKey(n, at))
	return at, c
}

// CompatLook is the call that says who holds a lock.
func CompatLook(n *redlock.Names, name string) (at int, c Call) {
	at, c = Eval(n, compatAlone, name, 1)
	c.Text("look")
	return at, c
}

// CompatRenew is the call that renews holds of one slot. gets is the keeper that they get, or ""; then their
// Keeper is the one that they must have.
func CompatRenew(n *redlock.Names, batch []redlock.Renewal, gets string) Call {
	c := begin(make([]byte, 0, 80+200*len(batch)), &Compat, len(batch), 2+5*len(batch))
	for _, r := range batch {
		c.Text(n.Place(r.Name).Key)
	}
	c.Text("renew")
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
