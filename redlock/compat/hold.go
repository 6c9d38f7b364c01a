package compat

import (
	"bytes"
	"context"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// Release implements locks.engine. It is sent once: no note is left by which a copy would be known.
func (e *Engine) Release(by redlock.Caller, r *redlock.Release, to redlock.Releaser) {
	c := e.releaseCall(r.Name, r.Token, r.Fence, "", "")
	sendRequest(by, r.Name, c, false, func(reply []byte) []byte {
		done, err := readReleased(reply)
		return to.Released(done, err)
	}, nil)
}

// releaseCall is the call that frees a hold, as CompatRelease has it.
func (e *Engine) releaseCall(name, token string, fence int64, id, keeper string) scripts.Call {
	return scripts.CompatRelease(e.names, name, token, fence, id, keeper, redlock.Publish(e.upstream),
		e.channel(name))
}

// readReleased reads the reply to CompatRelease: the keeper, "" for none, or Null.
func readReleased(reply []byte) (done redlock.Released, err error) {
	v, err := scripts.ReadValue(reply)
	if err == nil && !v.Null() {
		done = redlock.Released{Held: true, Whole: true, Keeper: v.Text()}
	}
	return done, err
}

// freeHold frees the hold of a request or of a keeper. It blocks. One of id and keeper is "". It may be sent
// again, which does no harm then.
func (e *Engine) freeHold(ctx context.Context, name, token, id, keeper string) error {
	c := e.releaseCall(name, token, 0, id, keeper)
	reply, err := e.upstream.Do(ctx, c.Slot, c.Req, true)
	if err == nil {
		_, err = readReleased(reply)
	}
	return err
}

// Detach implements keepalive.Engine. Nobody is granted the lock by it: those who wait ask.
func (e *Engine) Detach(ctx context.Context, name, token, keeper string, _ func()) error {
	return e.freeHold(ctx, name, token, "", keeper)
}

// Renew implements locks.engine.
func (e *Engine) Renew(by redlock.Caller, r *redlock.Renew, then func(redlock.Renewed, error) []byte) {
	refuse := func(err error) []byte { return then(redlock.Renewed{}, err) }
	if e.RefuseUndoing(by, r.Name, r.Token, refuse) {
		return
	}
	of := *r
	of.Keeper = "" // it may have any
	c := scripts.CompatRenew(e.names, []redlock.Renew{of}, r.Keeper)
	sendRequest(by, r.Name, c, true, func(reply []byte) []byte {
		all, err := readRenewed(reply, 1)
		if err != nil {
			return refuse(err)
		}
		return then(all[0], nil)
	}, nil)
}

// Keep implements keepalive.Engine. Each hold must have a keeper of that proxy.
func (e *Engine) Keep(ctx context.Context, slot int, batch []redlock.Renew) ([]int64, error) {
	reply, err := e.upstream.Do(ctx, slot, scripts.CompatRenew(e.names, batch, "").Req, true)
	if err != nil {
		return nil, err
	}
	return readKept(reply, len(batch))
}

// readKept is readRenewed for a keeper. 0: the hold has gone.
func readKept(reply []byte, n int) (left []int64, err error) {
	all, err := readRenewed(reply, n)
	for _, one := range all {
		left = append(left, one.Left.Milliseconds())
	}
	return left, err
}

// readRenewed reads the reply to CompatRenew about n holds. Left is negative for a hold with another
// keeper.
func readRenewed(reply []byte, n int) ([]redlock.Renewed, error) {
	v, err := scripts.ReadValue(reply)
	if err != nil {
		return nil, err
	}
	if len(v.Elems) != n {
		return nil, scripts.ErrReply
	}
	all := make([]redlock.Renewed, n)
	for i, one := range v.Elems {
		if len(one.Elems) != 2 {
			return nil, scripts.ErrReply
		}
		all[i] = redlock.Renewed{Left: ms(one.Elems[0].Int), Fence: one.Elems[1].Int}
	}
	return all, nil
}

// Break implements locks.engine. It is sent once: a copy could break the hold of the next one. Whatever holds
// it goes, also that of a library.
func (e *Engine) Break(by redlock.Caller, name string, then func(bool, error) []byte) {
	sendRequest(by, name, e.releaseCall(name, "", 0, "", ""), false, func(reply []byte) []byte {
		done, err := readReleased(reply)
		return then(done.Held, err)
	}, nil)
}

// Inspect implements locks.engine. A client that relies on the answer has the same token again as its next
// request; so nothing is noted here.
func (e *Engine) Inspect(by redlock.Caller, name, token string, then func(redlock.State, error) []byte) {
	refuse := func(err error) []byte { return then(redlock.State{}, err) }
	if e.RefuseUndoing(by, name, token, refuse) {
		return
	}
	sendRequest(by, name, scripts.CompatLook(e.names, name), true, func(reply []byte) []byte {
		s, err := readLook(bytes.Clone(reply))
		s.Key = name
		return then(s, err)
	}, nil)
}

// readLook reads the reply to CompatLook. The owner of a library's hold is what the library calls it. The
// reply is {value, ms that are left or -1, fence or 0, owner or "", keeper or ""}.
func readLook(reply []byte) (s redlock.State, err error) {
	v, err := scripts.ReadValue(reply)
	switch {
	case err != nil || v.Null():
		return s, err
	case len(v.Elems) != 5:
		return s, scripts.ErrReply
	}
	text, left, fence, owner, keeper := v.Elems[0].Text(), v.Elems[1].Int, v.Elems[2].Int, v.Elems[3].Text(),
		v.Elems[4].Text()
	h := redlock.Holder{Owner: owner, Mode: redlock.Write, Count: 1, Fence: fence,
		Kept: keeper != "" && keeper != "-", TTL: endless}
	if left >= 0 {
		h.TTL = max(ms(left-1), 0)
	}
	if owner == "" {
		h.Owner, h.Meta = otherLibrary+": "+text, otherLibrary
	} else { // a fence is the time of the grant, in µs, unless a clock has stepped back
		h.Age = max(time.Since(time.UnixMicro(fence)), 0)
	}
	s.Holders, s.Fence = []redlock.Holder{h}, fence
	return s, nil
}

// otherLibrary stands in place of the meta of a hold that lockproxy has not made. A library names no owner:
// in place of one stands the value of the key.
const otherLibrary = "held by another library"

// endless is the ttl of a hold without one.
const endless = -time.Millisecond
