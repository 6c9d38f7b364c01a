package single

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// This file lets locks go on while their slot moves from one node of a cluster to another. Then the lock and
// the fence of its slot may be at different nodes, and Redis answers TRYAGAIN to a script with both keys;
// and a lock that is free is a key at no node. So requests go in steps, each with one key:
//
//	acquire.lua, the lock:  granted, with a placeholder for its fence  --.
//	draw.lua, the fence:    the next fence of the slot                 <-'--.
//	number.lua, the lock:   the hold has that fence                    <----'  now the client is told
//
//	release.lua, the lock:     it is free, and the answer stays noted with the lock for a while
//	answered.lua, the fence:   the answer is noted there too
//
// Nobody else has the lock between the grant and its number, so fences rise all the same. If a proxy dies
// between the steps, the next request that meets the placeholder replaces it first.

// These scripts have the lock as their only key. Those that free a lock do not hand it over, because a grant
// needs a fence.
var (
	acquireAlone = scripts.Alone(scripts.Acquire)
	releaseAlone = scripts.Alone(scripts.Release)
	cancelAlone  = scripts.Alone(scripts.Cancel)
	detachAlone  = scripts.Alone(scripts.Detach)
	breakAlone   = scripts.Alone(scripts.Break)
)

const (
	// movingFor is how long a slot counts as moving after a node has said so.
	movingFor = 2 * time.Second
	// movingPulse is the longest pause after which a proxy with waiters asks for a lock whose slot moves.
	// The messages for its waiters may be published at another node than the one that it listens to, and a
	// lock is offered for half a second only.
	movingPulse = 100 * time.Millisecond
	// mostRounds is how often one request goes through the steps, because another request came between them.
	mostRounds = 100
)

// needsSteps is the error of a request that has to go on in steps. stands is the placeholder that it met; 0:
// a node answered TRYAGAIN, or sent it on to the next one.
type needsSteps struct{ stands int64 }

func (needsSteps) Error() string { return "redlock: the slot moves: ask for one key at a time" }

var errRounds = redlock.ReplyError("TRYAGAIN the slot of this lock moves, and other requests of the same " +
	"token came between the steps of this one again and again: ask again")

// parted says that a reply is TRYAGAIN of Redis.
func parted(reply []byte) bool { return bytes.HasPrefix(reply, tryAgain) }

var tryAgain = []byte("-TRYAGAIN Multiple keys ")

// steps has requests go in steps. It is part of an Engine.
type steps struct {
	engine   requests
	upstream Upstream
	names    *redlock.Names
	log      *slog.Logger
	ctx      context.Context
	work     *sync.WaitGroup // that Engine.Close waits for
	turns    turns
}

// requests are what an Engine sends and reads, also when a slot moves.
type requests interface {
	acquireRequest(buf []byte, s *scripts.Script, a *redlock.Acquire) (slot int, req []byte)
	readAcquire(a *redlock.Acquire, at time.Time, reply []byte) (g redlock.Grant, ok bool, err error)
	tidy(a *redlock.Acquire) error
	releaseRequest(buf []byte, s *scripts.Script, r *redlock.Release, fresh [redlock.IDBytes]byte) (
		slot int, req []byte, id [redlock.IDBytes]byte)
	breakRequest(s *scripts.Script, name string, id [redlock.IDBytes]byte) (slot int, req []byte)
	readRelease(slot int, name string, at time.Time, reply []byte) (redlock.Released, error)
	renewRequest(r *redlock.Renew) (slot int, req []byte)
	readAll(ctx context.Context, name, token string) (redlock.State, error)
}

// moving says that a slot is moving from one node to another, as far as requests have shown that lately. Then
// messages of its sharded channels do not reach all subscribers.
func (t *steps) moving(slot int) bool { return time.Since(t.upstream.Parted(slot)) < movingFor }

// turn waits for a turn of that lock. The caller calls over at the end.
func (t *steps) turn(name string) (over func()) {
	before, over := t.turns.take(name)
	if before != nil {
		<-before
	}
	return over
}

// overtook says that an answer may tell too little: a request of one key needs no steps, and may have
// overtaken an earlier command of its client that is in its steps. Then again is called in its turn.
func (t *steps) overtook(by redlock.Caller, slot int, again func()) bool {
	return t.moving(slot) && by.Later(func() []byte {
		again()
		return nil
	}, nil)
}

// inTurn has ask, which may block, run for the client by, in its turn and behind its earlier commands, and
// answers with what then makes of it.
func (t *steps) inTurn(
	by redlock.Caller, name string, lost redlock.Delivery, ask func(), then func() []byte,
) {
	begin := func() []byte {
		before, over := t.turns.take(name)
		by.Await(func(done func([]byte)) {
			t.work.Go(func() { // ends with the last answer that it waits for
				if before != nil {
					<-before
				}
				ask()
				over()
				done(nil)
			})
		}, func([]byte) []byte { return then() }, lost)
		return nil
	}
	if !by.Later(begin, lost) {
		begin()
	}
}

// goOn continues an attempt in steps.
func (f firstAttempt) goOn() {
	var g redlock.Grant
	var ok bool
	var err error
	f.e.steps.inTurn(f.by, f.a.Name, f.to, func() { g, ok, err = f.e.steps.acquire(f.a) }, func() []byte {
		f.e.forget(f.a, ok, err)
		return f.to.Acquired(g, ok, err)
	})
}

// acquire is an attempt in steps.
func (t *steps) acquire(a *redlock.Acquire) (g redlock.Grant, ok bool, err error) {
	for range mostRounds {
		at := time.Now()
		slot, req := t.engine.acquireRequest(nil, acquireAlone, a)
		reply, err := t.upstream.Do(t.ctx, slot, req, !a.Breaks())
		if err != nil {
			a.Unsure = true
			return g, false, err
		}
		g, ok, err = t.engine.readAcquire(a, at, reply)
		steps, is := err.(needsSteps)
		switch {
		case err == redlock.ErrAgain:
			continue
		case err == errTidy:
			if err = t.engine.tidy(a); err != nil {
				return g, false, err
			}
			continue
		case !is:
			return g, ok, err
		}
		fence, err := t.number(t.ctx, slot, a.Name, redlock.OwnerOf(a.Token), steps.stands)
		if err != nil {
			a.Unsure = true
			return g, false, err
		}
		took := time.Since(at) // the lease has begun with the first step; less than 1 ms is told as none
		if fence != 0 && g.Fence == steps.stands && g.TTL-took >= time.Millisecond {
			g.Fence, g.TTL, g.At = fence, g.TTL-took, at.Add(took)
			return g, true, nil
		}
	}
	a.Unsure = true
	return g, false, errRounds
}

// number gives a hold its fence. 0: the hold has gone, or has a fence by now.
func (t *steps) number(ctx context.Context, slot int, name, owner string, stands int64) (
	fence int64, err error,
) {
	c := scripts.OfFence(t.names, &scripts.Draw, slot, 0)
	reply, err := t.upstream.Do(ctx, slot, c.Req, true)
	if err == nil {
		fence, err = scripts.ReadNumber(reply)
	}
	if err != nil {
		return 0, err
	}
	_, c = scripts.NumberCall(t.names, name, owner, stands, fence)
	var done int64
	if reply, err = t.upstream.Do(ctx, slot, c.Req, true); err == nil {
		done, err = scripts.ReadNumber(reply)
	}
	if err != nil || done == 0 {
		return 0, err
	}
	return fence, nil
}

// goOn continues a release in steps.
func (s sentRelease) goOn() {
	var done redlock.Released
	var err error
	s.e.steps.inTurn(s.by, s.r.Name, nil, func() { done, err = s.e.steps.release(s.r, s.fresh) },
		func() []byte { return s.to.Released(done, err) })
}

// release is a release in steps. fresh is the id that it was sent with first.
func (t *steps) release(r *redlock.Release, fresh [redlock.IDBytes]byte) (redlock.Released, error) {
	for range mostRounds {
		at := time.Now()
		slot, req, id := t.engine.releaseRequest(nil, releaseAlone, r, fresh)
		reply, err := t.upstream.Do(t.ctx, slot, req, true)
		if err != nil {
			return redlock.Released{}, err
		}
		done, err := t.engine.readRelease(slot, r.Name, at, reply)
		switch {
		case err == redlock.ErrAgain:
			fresh = t.names.NewRequest()
			continue
		case err != nil:
			return done, err
		case done.Held:
			if _, err := t.answered(slot, id, done); err != nil {
				t.log.Debug("an UNLOCK could not be noted", "err", err)
			}
			return done, nil
		}
		return t.answered(slot, id, done)
	}
	return redlock.Released{}, errRounds
}

// answered notes the answer to the release with that id, or returns the answer that it got before.
func (t *steps) answered(slot int, id [redlock.IDBytes]byte, done redlock.Released) (
	redlock.Released, error,
) {
	args, mark := 1, ""
	switch {
	case done.Whole:
		args, mark = 2, " "
	case done.Held:
		args, mark = 2, "-"
	}
	c := scripts.OfFence(t.names, &scripts.Answered, slot, args)
	c.Bytes(id[:])
	if mark != "" {
		c.Text(mark)
	}
	reply, err := t.upstream.Do(t.ctx, slot, c.Req, true)
	if err != nil {
		return redlock.Released{}, err
	}
	done, _, err = scripts.ReadFreed(reply)
	return done, err
}

// breakOn continues a break in steps. broken says that some holds have ended already.
func (t *steps) breakOn(
	by redlock.Caller, name string, id [redlock.IDBytes]byte, broken bool, then func(bool, error) []byte,
) {
	var more bool
	var err error
	t.inTurn(by, name, nil, func() { more, err = t.breakHolds(name, id) },
		func() []byte { return then(broken || more, err) })
}

// breakHolds is a break in steps.
func (t *steps) breakHolds(name string, id [redlock.IDBytes]byte) (broken bool, err error) {
	for range mostRounds {
		at := time.Now()
		slot, req := t.engine.breakRequest(breakAlone, name, id)
		reply, err := t.upstream.Do(t.ctx, slot, req, false)
		if err != nil {
			return broken, err
		}
		r, err := t.engine.readRelease(slot, name, at, reply)
		broken = broken || r.Whole || err == redlock.ErrAgain
		if err != redlock.ErrAgain {
			return broken, err
		}
	}
	return broken, errRounds
}

// renewOn renews once more in its turn, and answers when the hold has a fence.
func (t *steps) renewOn(by redlock.Caller, r *redlock.Renew, then func(redlock.Renewed, error) []byte) {
	var done redlock.Renewed
	var err error
	t.inTurn(by, r.Name, nil, func() { done, err = t.renew(r) },
		func() []byte { return then(done, err) })
}

// renew is a renewal that gives its hold a fence if it has none.
func (t *steps) renew(r *redlock.Renew) (redlock.Renewed, error) {
	for range mostRounds {
		slot, req := t.engine.renewRequest(r)
		reply, err := t.upstream.Do(t.ctx, slot, req, true)
		if err != nil {
			return redlock.Renewed{}, err
		}
		done, err := scripts.ReadRenewed(reply)
		if err != nil || !scripts.Unnumbered(done.Fence) {
			return done, err
		}
		fence, err := t.number(t.ctx, slot, r.Name, redlock.OwnerOf(r.Token), done.Fence)
		if fence != 0 || err != nil {
			done.Fence = fence
			return done, err
		}
	}
	return redlock.Renewed{}, errRounds
}

// unnumbered says that a hold of s still has a placeholder.
func unnumbered(s redlock.State) bool {
	for _, h := range s.Holders {
		if scripts.Unnumbered(h.Fence) {
			return true
		}
	}
	return false
}

// inspectOn reads a lock once more in its turn, and answers when all of its holds have fences.
func (t *steps) inspectOn(by redlock.Caller, name, token string, then func(redlock.State, error) []byte) {
	var s redlock.State
	var err error
	t.inTurn(by, name, nil, func() {
		if s, err = t.engine.readAll(t.ctx, name, token); err == nil {
			s, err = t.numbered(t.ctx, name, token, s)
		}
	}, func() []byte { return then(s, err) })
}

// numbered returns s with a fence for each hold. token is as in Inspect.
func (t *steps) numbered(ctx context.Context, name, token string, s redlock.State) (redlock.State, error) {
	slot := t.names.Place(name).Slot
	for n := 0; unnumbered(s); n++ {
		if n == mostRounds {
			return s, errRounds
		}
		for _, h := range s.Holders {
			if !scripts.Unnumbered(h.Fence) {
				continue
			}
			if _, err := t.number(ctx, slot, name, h.Owner, h.Fence); err != nil {
				return s, err
			}
		}
		var err error
		if s, err = t.engine.readAll(ctx, name, token); err != nil {
			return s, err
		}
	}
	return s, nil
}

// tell makes those who wait for a freed lock, at any proxy, ask again if its slot moves: the script has
// published its message at the node that has the lock, while they listen at the one that has the slot.
func (t *steps) tell(slot int, name string) {
	if !t.moving(slot) || !t.upstream.Sharded() {
		return
	}
	t.work.Go(func() { // ends with the answer
		req := resp.AppendCommandStrings(nil, "SPUBLISH", t.names.Place(name).Key, "?")
		if _, err := t.upstream.Do(t.ctx, slot, req, true); err != nil {
			t.log.Debug("those who wait for a lock were not told that it is free", "err", err)
		}
	})
}
