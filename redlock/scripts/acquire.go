package scripts

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"lockproxy/redlock"
)

// Acquire takes a lock.
var Acquire = loadScript("acquire", 2)

// Waiting is a call of acquire.lua that may wait, or has more options than a plain LOCK. acquire.lua says
// what each of them does: ARGV 3 and those behind it.
type Waiting struct {
	*redlock.Acquire
	Proxy, Publish       string
	Behind               bool          // other requests of the same proxy wait
	Left                 time.Duration // it may wait for so long
	Stood                int64         // the place that it was told; 0: none
	MaxQueue, MaxReaders int
	// More says that there are options behind these, or that only one master may grant, which Granter names.
	More    bool
	Granter string
}

// PlainCall is the call of acquire.lua for a plain lock. buf is as that of eval; now makes the fence. It sets
// a.Fence, for which the reply 1 stands.
func PlainCall(buf []byte, n *redlock.Names, a *redlock.Acquire, now time.Time) Call {
	c := eval(buf, n, &Acquire, false, a.Name)
	c.appendPlainLock(a, now)
	return c.whole()
}

// Call is the call for r. It has as many arguments as are needed: each costs Redis time. BREAK stands behind
// all others.
func (r *Waiting) Call(buf []byte, n *redlock.Names, now time.Time) Call {
	c := eval(buf, n, &Acquire, false, r.Name)
	c.appendPlainLock(r.Acquire, now)
	if r.Behind {
		c.Text("behind")
	} else {
		c.Text(string(r.Mode))
	}
	c.Flag(r.Reentrant)
	if r.Wait > 0 {
		c.Text(r.Proxy)
		c.appendWait(max(r.Left, time.Millisecond), r.Stood)
		c.appendMost(r.Acquire, r.MaxQueue, r.MaxReaders)
	} else {
		c.Text("")
		c.Text("")
		c.appendMost(r.Acquire, 0, r.MaxReaders)
	}
	c.Text(r.Publish)
	if r.More || r.Breaks() {
		c.Text(r.Keeper)
		c.appendSaid(r.Acquire)
		c.Text(r.Granter)
	}
	if r.Breaks() {
		c.Flag(true)
	}
	return c.whole()
}

// appendPlainLock appends the first two arguments of acquire.lua, which are all of a LOCK without options:
// the value of the key if the lock is granted as a plain lock, and the lease. The lease gets a millisecond
// more, since Redis counts the one that runs as a whole one.
func (c *Call) appendPlainLock(a *redlock.Acquire, now time.Time) {
	a.Fence = max(now.UnixMicro(), leastClock)
	c.add(appendPlain(c.Req, a.Fence, a.ID, a.Token))
	c.Number(a.Lease.Milliseconds() + 1)
}

// leastClock is the least that a clock may show: 16 digits, from 2001 until 2286.
const leastClock = 1e15

// appendSaid appends what the hold is to say of itself, as acquire.lua and claim.lua take it: the meta, and
// in front of that AtLeast.
func (c *Call) appendSaid(a *redlock.Acquire) {
	if a.AtLeast == 0 && !strings.HasPrefix(a.Meta, "\t") { // which would be taken for one with AtLeast
		c.Text(a.Meta)
		return
	}
	c.Text(fmt.Sprintf("\t%d %s", a.AtLeast.Milliseconds(), a.Meta))
}

// appendWait appends how long a waits, and the place that it was told, unless that is 0. With its place a
// waiter that was dropped gets it back.
func (c *Call) appendWait(left time.Duration, stood int64) {
	var space [40]byte
	wait := strconv.AppendInt(space[:0], left.Milliseconds(), 10)
	if stood != 0 {
		wait = strconv.AppendInt(append(wait, ' '), stood, 10)
	}
	c.Bytes(wait)
}

// appendMost appends how many clients may wait for the lock, if this one may, and how many may share it, if a
// wants to. Both are one argument, with a blank in front of the second.
func (c *Call) appendMost(a *redlock.Acquire, waiters, readers int) {
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

// AcquireReply is the reply of acquire.lua: granted, queued, or overtaken; if none of these, others hold the
// lock.
type AcquireReply struct {
	Granted bool
	Plain   bool // the lock is a plain one
	Grant   redlock.Grant

	// It stands in the queue.
	Queued bool
	Place  int64         // where it stands; 0: in no place that it keeps
	Pause  time.Duration // until it may try again by itself
	Try    []byte        // ids of waiters that should try now

	// A later request of the same proxy and token has come before it.
	Overtaken bool // it needs a new id
	Broke     bool // what others held has ended by it: all of that if it is granted
}

// ReadAcquire reads the reply of acquire.lua to a. The error is what Redis or the script says, or ErrReply.
// r.Grant.At is not set. Try points into reply.
func ReadAcquire(a *redlock.Acquire, reply []byte) (r AcquireReply, err error) {
	if fence, rest, ok := cutInteger(reply); ok && len(rest) == 0 { // nearly all of them
		if fence == 1 {
			fence = a.Fence
		}
		g := redlock.Grant{Token: a.Token, Fence: fence, TTL: a.Lease, Count: 1}
		return AcquireReply{Granted: true, Plain: true, Grant: g}, nil
	}
	if g, ok := readGrant(a.Token, reply); ok {
		return AcquireReply{Granted: true, Grant: g}, nil
	}
	v, err := ReadValue(reply)
	switch {
	case err != nil, v.Null():
		return r, err
	case v.Kind == ':':
		r.Overtaken, r.Broke = true, v.Int == endedSome
		return r, nil
	case len(v.Elems) == 5 && a.Break:
		g := redlock.Grant{Token: a.Token, Fence: v.Elems[1].Int, TTL: ms(v.Elems[2].Int),
			Count: v.Elems[3].Int}
		return AcquireReply{Granted: true, Grant: g, Broke: true}, nil
	case len(v.Elems) == 3 && a.Wait > 0:
		r.Queued, r.Place, r.Pause, r.Try = true, v.Elems[0].Int, ms(v.Elems[1].Int), v.Elems[2].Str
		return r, nil
	}
	return r, ErrReply
}

// endedSome is the reply of acquire.lua that it has ended some holds and is to be asked again. That bounds
// how long a script with BREAK runs.
const endedSome = -2

// readGrant reads {owner, fence, ttl, count}. It allocates nothing. The owner has 33 bytes. Any other
// reply is not ok.
func readGrant(token string, reply []byte) (g redlock.Grant, ok bool) {
	rest, ok := bytes.CutPrefix(reply, []byte("*4\r\n$33\r\n"))
	if !ok || len(rest) < redlock.OwnerBytes+2 {
		return g, false
	}
	rest = rest[redlock.OwnerBytes+2:]
	var n [3]int64
	for i := range n {
		if n[i], rest, ok = cutInteger(rest); !ok {
			return g, false
		}
	}
	return redlock.Grant{Token: token, Fence: n[0], TTL: time.Duration(n[1]) * time.Millisecond, Count: n[2]},
		len(rest) == 0
}
