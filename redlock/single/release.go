package single

import (
	"context"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// Release implements locks.engine.
func (e *Engine) Release(by redlock.Caller, r *redlock.Release, to redlock.Releaser) {
	if p := e.grants.TakePlain(r); !p.Ends.IsZero() {
		e.freePlain(by, r, to, p)
		return
	}
	e.release(by, r, to)
}

// release has release.lua free the hold.
func (e *Engine) release(by redlock.Caller, r *redlock.Release, to redlock.Releaser) {
	e.sendRelease(by, r, to, &scripts.Release, e.names.NewRequest())
}

// sendRelease sends release.lua with that id, unless the client of r has named it. s is scripts.Release or
// releaseAlone.
func (e *Engine) sendRelease(by redlock.Caller, r *redlock.Release, to redlock.Releaser, s *scripts.Script,
	fresh [redlock.IDBytes]byte) {
	slot, req := e.releaseRequest(by.Buffer(), s, r, fresh)
	sent, _ := e.releases.Get().(*sentRelease)
	if sent == nil {
		sent = new(sentRelease)
	}
	*sent = sentRelease{e, by, r, to, slot, time.Now(), fresh, s == releaseAlone}
	by.SendHome(slot, req, true, sent, nil)
}

// sentRelease is a Release on its way. It is used again as a firstAttempt is.
type sentRelease struct {
	e  *Engine
	by redlock.Caller
	r  *redlock.Release
	to redlock.Releaser

	slot  int
	at    time.Time
	fresh [redlock.IDBytes]byte // its id, unless its client has named it
	alone bool                  // it cannot look whether it was answered before
}

// Splits implements redlock.Splitter.
func (*sentRelease) Splits() {}

// Answer implements Exchange.
func (s *sentRelease) Answer(reply []byte) []byte {
	was := *s
	*s = sentRelease{}
	was.e.releases.Put(s)
	if parted(reply) {
		was.e.sendRelease(was.by, was.r, was.to, releaseAlone, was.fresh)
		return nil
	}
	done, to, err := was.e.readRelease(was.slot, was.r.Name, was.at, reply)
	if was.alone && err == nil && !done.Held {
		slot, c := scripts.AnsweredCall(was.e.names, was.r, was.fresh)
		was.by.SendHome(slot, c.Req, true, exchange(func(reply []byte) []byte {
			done, _, err := scripts.ReadFreed(reply)
			return was.to.Released(done, err)
		}), nil)
		return nil
	}
	if err == redlock.ErrAgain {
		was.e.release(was.by, was.r, was.to)
		return nil
	}
	answer := was.to.Released(done, err) // which knows the hold still
	was.e.handOver(to)
	return answer
}

// releaseRequest may be sent again.
func (e *Engine) releaseRequest(
	buf []byte, s *scripts.Script, r *redlock.Release, fresh [redlock.IDBytes]byte,
) (slot int, req []byte) {
	slot, c := scripts.EvalIn(buf, e.names, s, r.Name, 9-s.Keys)
	c.Released(r, fresh)
	e.frees(&c, slot)
	switch {
	case s == releaseAlone:
		c.Empty()
		c.Text(scripts.FenceKey(e.names, slot))
	case r.Named != "":
		c.Empty()
	case r.Fence != 0:
		c.Number(r.Fence)
	default:
		c.Number(e.grants.Granting(r.Name, r.Token))
	}
	return slot, c.Req
}

// readRelease reads the reply to releaseRequest, and that of all who free a lock: at is when the request was
// sent. Whoever got the lock by it is to be told (handOver). After ErrAgain make the request again, and send
// it.
func (e *Engine) readRelease(slot int, name string, at time.Time, reply []byte) (
	r redlock.Released, to scripts.HandedOn, err error) {
	r, to, err = scripts.ReadFreed(reply)
	if to.Grant.At = at; r.Held && to.Waiter == "" {
		e.tell(slot, name)
	}
	return r, to, err
}

// handOver tells a waiter of this proxy that it got the lock, if one did.
func (e *Engine) handOver(to scripts.HandedOn) {
	if to.Waiter != "" {
		e.waiters.HandOver(to.Waiter, to.Grant)
	}
}

// Break implements locks.engine. The request is not to be sent again: that could break the hold of the next
// one, if another proxy has asked for that.
func (e *Engine) Break(by redlock.Caller, name string, then func(bool, error) []byte) {
	e.breakSome(by, name, &scripts.Break, e.names.NewRequest(), false, then)
}

// breakSome breaks as many holds as one script may, and then the others. s is scripts.Break or breakAlone.
// broken: some are already.
func (e *Engine) breakSome(by redlock.Caller, name string, s *scripts.Script, id [redlock.IDBytes]byte,
	broken bool, then func(bool, error) []byte) {
	e.grants.Changed(name)
	slot, c := scripts.Eval(e.names, s, name, 6-s.Keys)
	e.frees(&c, slot)
	c.Bytes(id[:])
	if s == breakAlone {
		c.Text(scripts.FenceKey(e.names, slot))
	}
	at := time.Now()
	by.SendHome(slot, c.Req, false, splitting{func(reply []byte) []byte {
		if parted(reply) {
			e.breakSome(by, name, breakAlone, id, broken, then)
			return nil
		}
		r, to, err := e.readRelease(slot, name, at, reply)
		e.handOver(to)
		if err == redlock.ErrAgain {
			e.breakSome(by, name, s, id, true, then)
			return nil
		}
		return then(broken || r.Whole, err)
	}}, nil)
}

// splitting is an exchange that asks for the lock alone after TRYAGAIN.
type splitting struct{ exchange }

// Splits implements redlock.Splitter.
func (splitting) Splits() {}

// Detach implements locks.engine.
func (e *Engine) Detach(ctx context.Context, name, token, keeper string, freed func()) error {
	return e.free(ctx, name, freed, func(apart bool) (slot int, req []byte) {
		s := &scripts.Detach
		if apart {
			s = detachAlone
		}
		slot, c := scripts.Eval(e.names, s, name, 5)
		c.Owner(token)
		c.Text(keeper)
		e.frees(&c, slot)
		return slot, c.Req
	})
}

// free runs a script that frees a lock, with the lock alone as its key if the slot moves. freed is as in
// keepalive.Engine.
func (e *Engine) free(
	ctx context.Context, name string, freed func(), request func(apart bool) (slot int, req []byte),
) error {
	at := time.Now()
	slot, req := request(false)
	reply, err := e.upstream.Do(ctx, slot, req, true)
	if err == nil && parted(reply) {
		at = time.Now()
		slot, req = request(true)
		reply, err = e.upstream.Do(ctx, slot, req, true)
	}
	if err == nil {
		var to scripts.HandedOn
		if _, to, err = e.readRelease(slot, name, at, reply); to.Waiter != "" {
			freed()
		}
		e.handOver(to)
	}
	return err
}
