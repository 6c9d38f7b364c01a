package scripts

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
)

// This file reads what the scripts reply on one Redis.

// ErrReply is the error for a reply that no script gives.
var ErrReply = errors.New("redlock: the script's reply makes no sense")

// parse reads a reply that may be an error.
func parse(reply []byte) (resp.Value, error) {
	v, _, err := resp.Parse(reply)
	switch {
	case err != nil:
		return v, fmt.Errorf("%w: %w", ErrReply, err)
	case v.Err() != "":
		return v, redlock.Said(v.Err())
	}
	return v, nil
}

// AcquireReply is the reply of acquire.lua: granted, queued, or overtaken; if none of these, others hold the
// lock.
type AcquireReply struct {
	Granted bool
	Plain   bool // the lock is a plain one
	Grant   redlock.Grant

	Queued bool
	Place  int64         // where it stands; 0: in no place that it keeps
	Pause  time.Duration // until it may try again by itself
	Try    []byte        // ids of waiters that should try now

	Overtaken bool // it needs a new id
	Broke     bool // what others held has ended by it: all of that if it is granted
}

// ReadAcquire reads the reply of acquire.lua to a.
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
	v, err := parse(reply)
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

// endedSome is the reply of acquire.lua that it has ended some holds and is to be asked again.
const endedSome = -2

// readGrant reads {owner, fence, ttl, count}. It allocates nothing.
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

// HandedOn says who got a lock that was freed: a waiter of this proxy, "" for nobody.
type HandedOn struct {
	Waiter string
	Grant  redlock.Grant // At is not known here
}

// notDeleted are the replies to a DeleteRequest that say that the key has another value, or is no string: of
// both commands, of DELIFEQ, and of DELEX.
var notDeleted = [][]byte{[]byte(":0"), []byte("-WRONGTYPE "), []byte("-ERR Key should be of string type")}

// ReadDeleted makes the reply to a DeleteRequest that of free.lua: 1, or nil. unable says that the server
// cannot, or may not, run that command. Then nothing was deleted.
func ReadDeleted(reply []byte) (asFreed []byte, unable bool) {
	unable = resp.Forbidden(reply)
	says := func(words []byte) bool { return bytes.HasPrefix(reply, words) }
	if unable || slices.ContainsFunc(notDeleted, says) {
		return resp.Null(2), unable
	}
	return reply, false
}

// ReadFreed reads the reply of a script that frees a lock and may hand it on: release, break, detach,
// cancel. Released.Held says that there was something to free.
func ReadFreed(reply []byte) (r redlock.Released, to HandedOn, err error) {
	if n, rest, ok := cutInteger(reply); ok && len(rest) == 0 { // nearly all of them
		return redlock.Released{Held: true, Whole: n == 1}, to, nil
	}
	v, err := parse(reply)
	switch {
	case err != nil, v.Null():
		return r, to, err
	case v.Kind == ':': // it was overtaken
		return r, to, redlock.ErrAgain
	case len(v.Elems) == 2:
		return redlock.Released{Held: true, Whole: true, Keeper: v.Elems[1].Text()}, to, nil
	case len(v.Elems) == 4, len(v.Elems) == 5:
		r = redlock.Released{Held: true, Whole: true}
		if len(v.Elems) == 5 {
			r.Keeper = v.Elems[4].Text()
		}
		g := redlock.Grant{Fence: v.Elems[2].Int, TTL: ms(v.Elems[3].Int), Count: 1}
		return r, HandedOn{v.Elems[1].Text(), g}, nil
	}
	return r, to, ErrReply
}

// ReadRenewed reads the reply of renew.lua.
func ReadRenewed(reply []byte) (r redlock.Renewed, err error) {
	v, err := parse(reply)
	switch {
	case err != nil:
		return r, err
	case v.Kind == ':':
		return redlock.Renewed{Left: ms(v.Int)}, nil
	case len(v.Elems) == 2:
		return redlock.Renewed{Left: ms(v.Elems[0].Int), Fence: v.Elems[1].Int}, nil
	}
	return r, ErrReply
}

// ReadTidied reads the reply of tidy.lua.
func ReadTidied(reply []byte) error {
	_, err := parse(reply)
	return err
}

// ReadKept reads the reply of keep.lua about n holds.
func ReadKept(reply []byte, n int) (left []int64, err error) {
	v, err := parse(reply)
	if err != nil {
		return nil, err
	}
	if len(v.Elems) != n {
		return nil, ErrReply
	}
	for _, e := range v.Elems {
		if e.Kind != ':' {
			return nil, ErrReply
		}
		left = append(left, e.Int)
	}
	return left, nil
}

// ReadMlock reads the reply of mlock.lua about n locks: their fences, or which of them others hold, counted
// from 1; 0: they are to be asked for one after the other.
func ReadMlock(reply []byte, n int) (fences []int64, held int, err error) {
	v, err := parse(reply)
	switch {
	case err != nil:
		return nil, 0, err
	case v.Kind == ':' && v.Int >= 0 && v.Int <= int64(n):
		return nil, int(v.Int), nil
	case len(v.Elems) != n:
		return nil, 0, ErrReply
	}
	for _, e := range v.Elems {
		if e.Kind != ':' {
			return nil, 0, ErrReply
		}
		fences = append(fences, e.Int)
	}
	return fences, 0, nil
}

// ReadLock reads the reply of inspect.lua.
func ReadLock(reply []byte, p *Pages) (s redlock.State, err error) {
	v, err := parse(reply)
	if err != nil || v.Null() {
		return s, err
	}
	v, more := p.Add(v)
	if more {
		return s, redlock.ErrAgain
	}
	s, err = ReadState(v)
	s.SetRest()
	return s, err
}

// ReadKeys reads a page of SCAN.
func ReadKeys(reply []byte) (keys []string, next string, err error) {
	v, err := parse(reply)
	switch {
	case err != nil:
		return nil, "", err
	case len(v.Elems) != 2:
		return nil, "", ErrReply
	}
	for _, key := range v.Elems[1].Elems {
		keys = append(keys, key.Text())
	}
	return keys, v.Elems[0].Text(), nil
}

// ReadValue reads a reply of any kind but an error.
func ReadValue(reply []byte) (resp.Value, error) { return parse(reply) }

// ReadNumbers reads a reply that is an array of numbers.
func ReadNumbers(reply []byte) (all []int64, err error) {
	v, err := parse(reply)
	for _, e := range v.Elems {
		if e.Kind != ':' {
			return nil, ErrReply
		}
		all = append(all, e.Int)
	}
	return all, err
}

// ReadNumber reads the reply of a script that is a number and never Null.
func ReadNumber(reply []byte) (int64, error) {
	v, err := parse(reply)
	if err == nil && v.Kind != ':' {
		err = ErrReply
	}
	return v.Int, err
}
