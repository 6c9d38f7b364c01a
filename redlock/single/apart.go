package single

import (
	"bytes"
	"context"
	"sync"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// This file is how locks go on while their slot moves from one node of a cluster to another. Then Redis
// answers TRYAGAIN to a script of two keys of which one is here and the other there, and a free lock is a key
// that is nowhere. So what needs the lock and the fence of its slot is asked in steps of one key each:
//
//	acquire.lua, the lock:  granted, with what stands for a fence  --.
//	draw.lua, the fence:    the next one of the slot               <-'--.
//	number.lua, the lock:   the hold has that fence                <----'  and now the client is told
//
//	release.lua, the lock:     it is free, and what the client is told stays noted with it for a while
//	answered.lua, the fence:   that is noted, or was
//
// Nobody else has the lock between the grant and its number, so fences rise all the same. Whoever meets a
// hold without a number, because its proxy has died between the steps, gives it one first.

// These have the lock alone as their key. What frees a lock then does not hand it over, which takes a fence.
var (
	acquireAlone = scripts.Alone(scripts.Acquire)
	releaseAlone = scripts.Alone(scripts.Release)
	cancelAlone  = scripts.Alone(scripts.Cancel)
	detachAlone  = scripts.Alone(scripts.Detach)
	breakAlone   = scripts.Alone(scripts.Break)
)

const (
	// movingPulse is how often at least a proxy with waiters asks for a lock whose slot moves: its messages
	// may be sent at another node than the one that this proxy listens to, and who is offered a lock has half
	// a second.
	movingPulse = 100 * time.Millisecond
	// mostRounds is how often one request goes through the steps, each time because another one came between.
	mostRounds = 100
)

// needsSteps is why a request has to go on in steps: what stands for the fence of the hold, or 0: TRYAGAIN.
type needsSteps struct{ stands int64 }

func (needsSteps) Error() string { return "redlock: the slot moves: ask for one key at a time" }

var errRounds = redlock.ReplyError("TRYAGAIN the slot of this lock moves, and other requests of the same token " +
	"came between the steps of this one again and again: ask again")

// parted says that a reply is TRYAGAIN of Redis.
func parted(reply []byte) bool { return bytes.HasPrefix(reply, tryAgain) }

var tryAgain = []byte("-TRYAGAIN Multiple keys ")

// turns has what is asked about one lock in steps happen one after the other, as it came. The zero value is
// ready.
type turns struct {
	mu   sync.Mutex
	last map[string]chan struct{} // by name of the lock; closed when that turn is over
}

// take queues for a turn. The caller waits for before, unless that is nil, and calls over at the end.
func (t *turns) take(name string) (before <-chan struct{}, over func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = make(map[string]chan struct{})
	}
	before = t.last[name]
	mine := make(chan struct{})
	t.last[name] = mine
	return before, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		close(mine)
		if t.last[name] == mine {
			delete(t.last, name)
		}
	}
}

// apart has ask, which may block, run in its turn for the client by, and answers with what then makes of it.
func (e *Engine) apart(by redlock.Caller, name string, lost redlock.Delivery, ask func(), then func() []byte) {
	before, over := e.turns.take(name)
	by.Await(func(done func([]byte)) {
		e.work.Go(func() { // ends with the last answer that it waits for
			if before != nil {
				<-before
			}
			ask()
			over()
			done(nil)
		})
	}, func([]byte) []byte { return then() }, lost)
}

// goOn goes on with an attempt in steps.
func (f firstAttempt) goOn() {
	var g redlock.Grant
	var ok bool
	var err error
	f.e.apart(f.by, f.a.Name, f.to, func() { g, ok, err = f.e.acquireApart(f.a) }, func() []byte {
		f.e.forget(f.a, ok, err)
		return f.to.Acquired(g, ok, err)
	})
}

// acquireApart is an attempt in steps.
func (e *Engine) acquireApart(a *redlock.Acquire) (g redlock.Grant, ok bool, err error) {
	for range mostRounds {
		at := time.Now()
		slot, req := e.acquireRequest(nil, acquireAlone, a)
		reply, err := e.upstream.Do(e.ctx, slot, req, true)
		if err != nil {
			a.Unsure = true
			return g, false, err
		}
		g, ok, err = e.readAcquire(a, reply)
		g.At = at
		steps, is := err.(needsSteps)
		switch {
		case err == redlock.ErrAgain:
			continue
		case err == errTidy:
			if err = e.tidy(a); err != nil {
				return g, false, err
			}
			continue
		case !is:
			return g, ok, err
		}
		fence, err := e.number(e.ctx, slot, a.Name, redlock.OwnerOf(a.Token), steps.stands)
		if err != nil {
			a.Unsure = true
			return g, false, err
		}
		if fence != 0 && g.Fence == steps.stands {
			g.Fence = fence
			e.noteFence(a, g)
			return g, true, nil
		}
	}
	a.Unsure = true
	return g, false, errRounds
}

// number gives a hold its fence. 0: the hold has gone, or has one by now.
func (e *Engine) number(ctx context.Context, slot int, name, owner string, stands int64) (fence int64, err error) {
	c := scripts.OfFence(e.names, &scripts.Draw, slot, 0)
	reply, err := e.upstream.Do(ctx, slot, c.Req, true)
	if err == nil {
		fence, err = scripts.ReadNumber(reply)
	}
	if err != nil {
		return 0, err
	}
	_, c = scripts.NumberCall(e.names, name, owner, stands, fence)
	var done int64
	if reply, err = e.upstream.Do(ctx, slot, c.Req, true); err == nil {
		done, err = scripts.ReadNumber(reply)
	}
	if err != nil || done == 0 {
		return 0, err
	}
	return fence, nil
}

// goOn goes on with a release in steps.
func (s sentRelease) goOn() {
	var done redlock.Released
	var err error
	s.e.apart(s.by, s.r.Name, nil, func() { done, err = s.e.releaseApart(s.r, s.fresh) },
		func() []byte { return s.to.Released(done, err) })
}

// releaseApart is a release in steps. fresh is the id that it was sent with before.
func (e *Engine) releaseApart(r *redlock.Release, fresh [redlock.IDBytes]byte) (redlock.Released, error) {
	for range mostRounds {
		slot, req, id := e.releaseRequest(nil, releaseAlone, r, fresh)
		reply, err := e.upstream.Do(e.ctx, slot, req, true)
		if err != nil {
			return redlock.Released{}, err
		}
		done, err := e.readRelease(slot, r.Name, reply)
		switch {
		case err == redlock.ErrAgain:
			fresh = e.names.NewRequest()
			continue
		case err != nil:
			return done, err
		case done.Held:
			if _, err := e.answered(slot, id, done); err != nil {
				e.o.Log.Debug("an UNLOCK could not be noted", "err", err)
			}
			return done, nil
		}
		return e.answered(slot, id, done)
	}
	return redlock.Released{}, errRounds
}

// answered notes what the release of that id has done, or returns what it was known to have done before.
func (e *Engine) answered(slot int, id [redlock.IDBytes]byte, done redlock.Released) (redlock.Released, error) {
	args, mark := 1, ""
	switch {
	case done.Whole:
		args, mark = 2, " "
	case done.Held:
		args, mark = 2, "-"
	}
	c := scripts.OfFence(e.names, &scripts.Answered, slot, args)
	c.Bytes(id[:])
	if mark != "" {
		c.Text(mark)
	}
	reply, err := e.upstream.Do(e.ctx, slot, c.Req, true)
	if err != nil {
		return redlock.Released{}, err
	}
	done, _, err = scripts.ReadFreed(reply)
	return done, err
}

// breakOn goes on with a break in steps. broken: some holds are already.
func (e *Engine) breakOn(
	by redlock.Caller, name string, id [redlock.IDBytes]byte, broken bool, then func(bool, error) []byte,
) {
	var more bool
	var err error
	e.apart(by, name, nil, func() { more, err = e.breakApart(name, id) },
		func() []byte { return then(broken || more, err) })
}

// breakApart is a break in steps.
func (e *Engine) breakApart(name string, id [redlock.IDBytes]byte) (broken bool, err error) {
	for range mostRounds {
		slot, req := e.breakRequest(breakAlone, name, id)
		reply, err := e.upstream.Do(e.ctx, slot, req, false)
		if err != nil {
			return broken, err
		}
		r, err := e.readRelease(slot, name, reply)
		broken = broken || r.Whole || err == redlock.ErrAgain
		if err != redlock.ErrAgain {
			return broken, err
		}
	}
	return broken, errRounds
}

// renewOn answers a renewal when its hold has a fence, which done has met without.
func (e *Engine) renewOn(
	by redlock.Caller, r *redlock.Renew, done redlock.Renewed, then func(redlock.Renewed, error) []byte,
) {
	var err error
	e.apart(by, r.Name, nil, func() { done, err = e.renewApart(r, done) }, func() []byte { return then(done, err) })
}

// renewApart gives the hold of r its fence, which the renewal done has met without.
func (e *Engine) renewApart(r *redlock.Renew, done redlock.Renewed) (redlock.Renewed, error) {
	for range mostRounds {
		slot, req := e.renewRequest(r)
		fence, err := e.number(e.ctx, slot, r.Name, redlock.OwnerOf(r.Token), done.Fence)
		if fence != 0 || err != nil {
			done.Fence = fence
			return done, err
		}
		reply, err := e.upstream.Do(e.ctx, slot, req, true)
		if err != nil {
			return redlock.Renewed{}, err
		}
		if done, err = scripts.ReadRenewed(reply); err != nil || !scripts.Unnumbered(done.Fence) {
			return done, err
		}
	}
	return redlock.Renewed{}, errRounds
}

// unnumbered says that a hold of s has no fence yet.
func unnumbered(s redlock.State) bool {
	for _, h := range s.Holders {
		if scripts.Unnumbered(h.Fence) {
			return true
		}
	}
	return false
}

// inspectOn answers with s when all of its holds have fences.
func (e *Engine) inspectOn(
	by redlock.Caller, name, token string, s redlock.State, then func(redlock.State, error) []byte,
) {
	var err error
	e.apart(by, name, nil, func() { s, err = e.numbered(e.ctx, name, token, s) },
		func() []byte { return then(s, err) })
}

// numbered is s, with a fence for each hold. token is as in Inspect.
func (e *Engine) numbered(ctx context.Context, name, token string, s redlock.State) (redlock.State, error) {
	slot := e.names.Place(name).Slot
	for n := 0; unnumbered(s); n++ {
		if n == mostRounds {
			return s, errRounds
		}
		for _, h := range s.Holders {
			if !scripts.Unnumbered(h.Fence) {
				continue
			}
			if _, err := e.number(ctx, slot, name, h.Owner, h.Fence); err != nil {
				return s, err
			}
		}
		var err error
		if s, err = e.readAll(ctx, name, token); err != nil {
			return s, err
		}
	}
	return s, nil
}

// tell has those who wait for a lock that was freed at any proxy ask, if its slot moves: what the script told
// them was said at the node that has the lock, while they listen at the one that has the slot.
func (e *Engine) tell(slot int, name string) {
	if !e.upstream.Moving(slot) || !e.upstream.Sharded() {
		return
	}
	e.work.Go(func() { // ends with the answer
		req := resp.AppendCommandStrings(nil, "SPUBLISH", e.names.Place(name).Key, "?")
		if _, err := e.upstream.Do(e.ctx, slot, req, true); err != nil {
			e.o.Log.Debug("those who wait for a lock were not told that it is free", "err", err)
		}
	})
}
