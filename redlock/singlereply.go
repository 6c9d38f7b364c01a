package redlock

import (
	"bytes"
	"fmt"
	"time"

	"lockproxy/internal/resp"
)

// This file reads what the scripts reply on one Redis.

// parse reads a reply that may be an error.
func parse(reply []byte) (resp.Value, error) {
	v, _, err := resp.Parse(reply)
	switch {
	case err != nil:
		return v, fmt.Errorf("%w: %w", errReply, err)
	case v.Err() != "":
		return v, ReplyError(v.Err())
	}
	return v, nil
}

// acquireReply is what acquire.lua said: granted, or queued, or overtaken, or none of these: others hold it.
type acquireReply struct {
	granted bool
	grant   Grant

	queued bool
	pause  time.Duration // until it may try again by itself
	try    []byte        // ids of waiters that should try now

	overtaken bool // it needs a new id
}

// readAcquire reads the reply of acquire.lua to a.
func readAcquire(a *Acquire, reply []byte) (r acquireReply, err error) {
	if fence, rest, ok := cutInteger(reply); ok && len(rest) == 0 { // nearly all of them
		if fence == 1 {
			fence = a.fence
		}
		return acquireReply{granted: true, grant: Grant{Token: a.Token, Fence: fence, TTL: a.Lease, Count: 1}}, nil
	}
	if g, ok := readGrant(a.Token, reply); ok {
		return acquireReply{granted: true, grant: g}, nil
	}
	v, err := parse(reply)
	switch {
	case err != nil, v.Null():
		return r, err
	case v.Kind == ':':
		r.overtaken = true
		return r, nil
	case len(v.Elems) == 3 && a.Wait > 0:
		r.queued, r.pause, r.try = true, ms(v.Elems[1].Int), v.Elems[2].Str
		return r, nil
	}
	return r, errReply
}

// readGrant reads {owner, fence, ttl, count}. It allocates nothing.
func readGrant(token string, reply []byte) (g Grant, ok bool) {
	rest, ok := bytes.CutPrefix(reply, []byte("*4\r\n$33\r\n"))
	if !ok || len(rest) < ownerBytes+2 {
		return g, false
	}
	rest = rest[ownerBytes+2:]
	var n [3]int64
	for i := range n {
		if n[i], rest, ok = cutInteger(rest); !ok {
			return g, false
		}
	}
	return Grant{Token: token, Fence: n[0], TTL: time.Duration(n[1]) * time.Millisecond, Count: n[2]},
		len(rest) == 0
}

// cutInteger takes ":123\r\n" from b.
func cutInteger(b []byte) (n int64, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != ':' {
		return 0, b, false
	}
	for i, c := range b[1:] {
		if c == '\r' {
			return n, b[min(i+3, len(b)):], i > 0
		}
		if c-'0' > 9 {
			break
		}
		n = n*10 + int64(c-'0')
	}
	return 0, b, false
}

// handedOn is to whom a lock went that was freed: the waiter of this proxy who got it, "" for nobody.
type handedOn struct {
	waiter string
	grant  Grant
}

// readFreed reads the reply of a script that frees a lock and may hand it on: release, break, detach, cancel.
// held: there was something to free.
func readFreed(reply []byte) (r Released, to handedOn, err error) {
	if n, rest, ok := cutInteger(reply); ok && len(rest) == 0 { // nearly all of them
		return Released{Held: true, Whole: n == 1}, to, nil
	}
	v, err := parse(reply)
	switch {
	case err != nil, v.Null():
		return r, to, err
	case v.Kind == ':': // it was overtaken
		return r, to, ErrAgain
	case len(v.Elems) == 2:
		return Released{Held: true, Whole: true, Keeper: v.Elems[1].Text()}, to, nil
	case len(v.Elems) == 4, len(v.Elems) == 5:
		r = Released{Held: true, Whole: true}
		if len(v.Elems) == 5 {
			r.Keeper = v.Elems[4].Text()
		}
		g := Grant{Fence: v.Elems[2].Int, TTL: ms(v.Elems[3].Int), Count: 1, At: time.Now()}
		return r, handedOn{v.Elems[1].Text(), g}, nil
	}
	return r, to, errReply
}

// readRenewed reads the reply of renew.lua.
func readRenewed(reply []byte) (r Renewed, err error) {
	v, err := parse(reply)
	switch {
	case err != nil:
		return r, err
	case v.Kind == ':':
		return Renewed{Left: ms(v.Int)}, nil
	case len(v.Elems) == 2:
		return Renewed{Left: ms(v.Elems[0].Int), Fence: v.Elems[1].Int}, nil
	}
	return r, errReply
}

// readKept reads the reply of keep.lua about n holds.
func readKept(reply []byte, n int) (left []int64, err error) {
	v, err := parse(reply)
	if err != nil {
		return nil, err
	}
	if len(v.Elems) != n {
		return nil, errReply
	}
	for _, e := range v.Elems {
		if e.Kind != ':' {
			return nil, errReply
		}
		left = append(left, e.Int)
	}
	return left, nil
}

// readConfirmed reads the reply of confirm.lua.
func readConfirmed(reply []byte) (left time.Duration, err error) {
	v, err := parse(reply)
	switch {
	case err != nil:
		return 0, err
	case len(v.Elems) != 1:
		return 0, errReply
	}
	return ms(v.Elems[0].Int), nil
}

// readLock reads the reply of inspect.lua.
func readLock(reply []byte, p *pages) (s State, err error) {
	v, err := parse(reply)
	if err != nil || v.Null() {
		return s, err
	}
	v, more := p.add(v)
	if more {
		return s, ErrAgain
	}
	return readState(v)
}

// readKeys reads a page of SCAN.
func readKeys(reply []byte) (keys []string, next string, err error) {
	v, err := parse(reply)
	switch {
	case err != nil:
		return nil, "", err
	case len(v.Elems) != 2:
		return nil, "", errReply
	}
	for _, key := range v.Elems[1].Elems {
		keys = append(keys, key.Text())
	}
	return keys, v.Elems[0].Text(), nil
}
