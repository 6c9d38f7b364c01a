package compat

import (
	"context"
	"time"

	"lockproxy/internal/slot"
	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
	"lockproxy/redlock/wait"
)

// taken is the reply to CompatTake. Without ok, and with left 0, the request is not let in: see takeCall.
type taken struct {
	grant redlock.Grant
	ok    bool
	left  time.Duration // until others hold the lock no more; below 0: they hold it without end
}

// Acquire implements locks.engine. A grant that a node of a moving slot may have made aside is looked at once
// more.
func (e *Engine) Acquire(by redlock.Caller, a *redlock.Acquire, to redlock.Acquirer) {
	sent := time.Now()
	c := e.takeCall(a)
	sendRequest(by, a.Name, c, !a.Breaks(), func(reply []byte) []byte {
		t, err := e.readTaken(a, c.Slot, sent, reply)
		if t.ok && !e.upstream.Parted(c.Slot).Before(sent) {
			e.checkGrant(by, a, t.grant, to)
			return nil
		}
		return e.tellOutcome(a, sent, t, err, to)
	}, to)
}

// checkGrant asks the lock itself whether it was granted. A node may have sent the request on to the next one
// of a slot that moves, where it made a lock that nobody else can see, because the slot had moved back. If it
// was not, the same request is sent once more.
func (e *Engine) checkGrant(by redlock.Caller, a *redlock.Acquire, g redlock.Grant, to redlock.Acquirer) {
	c := scripts.CompatLook(e.names, a.Name)
	by.SendHome(c.Slot, c.Req, true, redlock.ExchangeFunc(func(reply []byte) []byte {
		s, err := readLook(reply)
		switch h := s.Held(a.Token); {
		case err != nil:
			a.Unsure = true
			return e.tellOutcome(a, g.At, taken{}, a.MayHold(err), to) // it was granted
		case h == nil || h.Fence != g.Fence:
			e.Acquire(by, a, to)
			return nil
		}
		return e.tellOutcome(a, g.At, taken{grant: g, ok: true}, nil, to)
	}), to)
}

// tellOutcome makes the answer to the first attempt of a, which was sent at that time.
func (e *Engine) tellOutcome(
	a *redlock.Acquire, sent time.Time, t taken, err error, to redlock.Acquirer,
) []byte {
	switch {
	case t.ok || err != nil:
		e.waiters.Forget(a)
	case a.Wait > 0:
		e.waiters.Expect(a, sent)
		e.noteRefused(a, t)
	}
	return to.Acquired(t.grant, t.ok, err)
}

// noteRefused notes that others hold the lock that a waits for. It asks again when the lease is over, and
// after look at the latest.
func (e *Engine) noteRefused(a *redlock.Acquire, t taken) {
	pause := look
	if t.left >= 0 {
		pause = min(pause, t.left)
	}
	e.waiters.Refused(a, wait.Refused{Pause: pause})
}

// Follows implements locks.engine.
func (e *Engine) Follows(a *redlock.Acquire) bool { return e.waiters.Follows(a) }

// Wait implements locks.engine.
func (e *Engine) Wait(ctx context.Context, a *redlock.Acquire) (g redlock.Grant, ok bool, err error) {
	if g, ok, err = e.waiters.Wait(ctx, a); err != nil && a.Unsure {
		e.Undo(a)
		err = a.MayHold(err)
	}
	return g, ok, err
}

// Attempt implements wait.Engine. Nothing can be taken back before the outcome is known, so it does not end
// with ctx.
func (e *Engine) Attempt(_ context.Context, a *redlock.Acquire) (g redlock.Grant, ok bool, err error) {
	return (&redlock.Patient{Ctx: e.Ctx, Home: e.upstream}).Acquire(e.Acquire, a)
}

// takeCall is the call that takes the lock. Nobody may overtake those who wait at this proxy, but with BREAK.
// At a master that evicts nobody is granted anything new.
func (e *Engine) takeCall(a *redlock.Acquire) scripts.Call {
	var space [128]byte
	at := slot.Of(e.names.AppendKey(space[:0], a.Name))
	kept := !a.Breaks() && e.waiters.OthersFirst(a) || e.upstream.Evicts(at) != nil
	return scripts.CompatTake(e.names, a, kept)
}

// readTaken reads the reply to takeCall, which was sent at that time. It notes in a what has become of it.
// Without an error and a grant it is refused.
func (e *Engine) readTaken(a *redlock.Acquire, at int, sent time.Time, reply []byte) (t taken, err error) {
	if redlock.Parted(reply) && a.Wait > 0 {
		return taken{left: -1}, nil
	}
	n, err := scripts.ReadNumbers(reply)
	switch {
	case err != nil:
		a.Unsure = a.Unsure || !redlock.Refused(err)
		return t, err
	case len(n) == 3, len(n) == 4: // granted
		t.ok, a.Broke, a.Took = true, a.Broke || len(n) == 4, a.Break
		t.grant = redlock.Grant{Token: a.Token, Fence: n[1], TTL: ms(n[2]), Count: 1, At: sent}
		return t, nil
	case a.Took:
		a.Unsure = true
		return t, redlock.ErrTookOver
	case len(n) == 2: // held by others
		t.left = ms(n[1])
		return t, nil
	case len(n) != 1:
		a.Unsure = true
		return t, scripts.ErrReply
	}
	if why := e.upstream.Evicts(at); why != nil {
		return t, redlock.Evicted(why)
	}
	return t, nil
}

// Confirm implements locks.engine.
func (e *Engine) Confirm(ctx context.Context, a *redlock.Acquire, g redlock.Grant, timeout time.Duration) (
	left time.Duration, acked int, err error) {
	// A write that changes nothing, so that the replicas have it once they have the grant.
	c := scripts.CompatRenew(e.names, []redlock.Renew{{
		Name: a.Name, Token: a.Token, Lease: a.Lease, Fence: g.Fence}}, a.Keeper)
	return redlock.Confirmed(ctx, e.upstream, c.Slot, c.Req, a.Sync, timeout, g.TTL,
		func(reply []byte) ([]int64, error) { return readKept(reply, 1) })
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
