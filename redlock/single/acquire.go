package single

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// Acquire implements locks.engine.
func (e *Engine) Acquire(by redlock.Caller, a *redlock.Acquire, to redlock.Acquirer) {
	e.sendAttempt(firstAttempt{e: e, by: by, a: a, to: to})
}

// sendAttempt sends the attempt f. It copies f into one of the pool: nearly all LOCKs are one attempt.
func (e *Engine) sendAttempt(f firstAttempt) {
	f.sent = time.Now()
	c := e.acquireCall(f.by.Buffer(), f.a, f.sent)
	if e.asksPlain(f.a) {
		e.grants.Ask(f.a, f.sent)
	}
	if e.moving(c.Slot) {
		f.by.Hold(f.a.Name) // it may have to wait
	}
	f.slot = c.Slot
	first := e.firsts.Get().(*firstAttempt)
	*first = f
	f.by.SendHome(c.Slot, c.Req, !f.a.Breaks(), first, f.to)
}

// firstAttempt is an Acquire on its way. It is used again once it has its reply, which comes once.
type firstAttempt struct {
	e    *Engine
	by   redlock.Caller
	a    *redlock.Acquire
	to   redlock.Acquirer
	sent time.Time
	slot int

	granted bool // by a request that may have strayed
}

// Answer implements Exchange. f goes back before anything is sent, so the next Acquire may have it while this
// one is still being answered: was is the copy.
func (f *firstAttempt) Answer(reply []byte) []byte {
	was := *f
	*f = firstAttempt{}
	was.e.firsts.Put(f)
	g, ok, err := was.e.readAcquire(was.a, was.sent, reply)
	// The same request once more finds that grant, or is granted the lock by the node that has it now.
	if ok && !was.granted && was.e.mayStray(was.slot, was.sent) {
		was.granted = true
		was.e.sendAttempt(was)
		return nil
	}
	err = strayed(was.a, was.granted, err)
	if err == redlock.ErrAgain {
		was.e.Acquire(was.by, was.a, was.to)
		return nil
	}
	if ok || err != nil { // it need not be told anything any more
		was.e.waiters.Forget(was.a)
	}
	return was.to.Acquired(g, ok, err)
}

// Follows implements locks.engine: the queue is in Redis, and says who is first.
func (e *Engine) Follows(*redlock.Acquire) bool { return false }

// Wait implements locks.engine: the place in the queue, or a grant that was on its way, is taken back before
// the client of a wait in vain is told, or the error says that it is not.
func (e *Engine) Wait(ctx context.Context, a *redlock.Acquire) (g redlock.Grant, ok bool, err error) {
	if g, ok, err = e.waiters.Wait(ctx, a); ok {
		return g, true, nil
	}
	if _, said := errors.AsType[redlock.ReplyError](err); err != nil && !said && ctx.Err() == nil {
		e.Undo(a) // Redis does not answer
		return g, false, a.MayHold(err)
	}
	if left := e.UndoOnce(a); left != nil {
		e.Undo(a)
		err = a.MayHold(cmp.Or(err, left))
	}
	return g, false, err
}

// Attempt implements wait.Engine. Nothing can be taken back before the outcome is known, so it does not end
// with ctx. It blocks.
func (e *Engine) Attempt(_ context.Context, a *redlock.Acquire) (g redlock.Grant, ok bool, err error) {
	return (&redlock.Patient{Ctx: e.Ctx, Home: e.upstream}).Acquire(e.Acquire, a)
}

// needsAll says that the script needs all of its arguments for a.
func (e *Engine) needsAll(a *redlock.Acquire) bool {
	return a.Breaks() || a.Keeper != "" || a.Meta != "" || a.AtLeast > 0 ||
		e.grace.on() || e.upstream.Evicting()
}

// asksPlain says that a is granted as a plain lock, or not at all.
func (e *Engine) asksPlain(a *redlock.Acquire) bool {
	return a.Wait <= 0 && a.Mode == redlock.Write && !a.Reentrant && !e.needsAll(a)
}

// acquireCall is the call that tries to take the lock. It may be sent again. buf is as that of
// scripts.PlainCall; at is now.
func (e *Engine) acquireCall(buf []byte, a *redlock.Acquire, at time.Time) scripts.Call {
	if e.asksPlain(a) { // most of them
		return scripts.PlainCall(buf, e.names, a, at)
	}
	r := scripts.Waiting{Acquire: a, Proxy: e.names.ID, Publish: redlock.Publish(e.upstream),
		MaxQueue: e.o.MaxQueue, MaxReaders: e.o.MaxReaders}
	if r.More = e.needsAll(a); r.More {
		r.Granter = e.granter(e.slot(a.Name))
	}
	if a.Wait > 0 {
		r.Behind = a.Mode == redlock.Write && e.waiters.Waited(a)
		r.Left, r.Stood = e.waiters.Expect(a, at).Sub(at), e.waiters.Stood(a)
	}
	return r.Call(buf, e.names, at)
}

// readAcquire reads the reply to acquireCall, which was sent at that time. After ErrAgain make the request
// again, and send it. It also notes in a what has become of it, for the attempts behind it.
func (e *Engine) readAcquire(
	a *redlock.Acquire, at time.Time, reply []byte,
) (g redlock.Grant, ok bool, err error) {
	r, err := scripts.ReadAcquire(a, reply)
	r.Grant.At = at
	if r.Broke {
		a.Broke = true
		e.grants.Changed(a.Name)
	}
	if r.Granted && a.Break {
		a.Took = true
	}
	switch {
	case err != nil:
		if err = e.readRefusal(a, err); err != redlock.ErrAgain && !redlock.Refused(err) {
			a.Unsure = true
		}
		return g, false, err
	case r.Overtaken:
		if a.Wait <= 0 { // otherwise it is known by its id: that is how it is woken, and handed the lock
			a.ID = e.names.NewID(a)
		}
		return g, false, redlock.ErrAgain
	case r.Queued:
		if e.moving(e.names.Place(a.Name).Slot) {
			r.Pause = min(r.Pause, movingPulse)
		}
		e.grants.Changed(a.Name)
		e.waiters.Queued(a, r.Place, r.Pause, r.Try)
	case r.Granted:
		a.Plain = r.Plain
	case a.Took:
		a.Unsure = true
		return g, false, redlock.ErrTookOver
	}
	return r.Grant, r.Granted, nil
}

// readRefusal is what the error err of acquire.lua means.
func (e *Engine) readRefusal(a *redlock.Acquire, err error) error {
	said, ok := err.(redlock.ReplyError)
	switch {
	case ok && strings.HasPrefix(string(said), "MASTER "):
		slot := e.names.Place(a.Name).Slot
		if err := e.upstream.Evicts(slot); err != nil {
			return redlock.Evicted(err)
		}
		return e.grace.otherMaster(slot, said)
	case ok && strings.HasPrefix(string(said), "TRYAGAIN Multiple keys "):
		return redlock.ErrMoving
	}
	return err
}
