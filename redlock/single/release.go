package single

import (
	"context"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/index"
	"lockproxy/redlock/scripts"
)

// Release implements locks.engine.
func (e *Engine) Release(by redlock.Caller, r *redlock.Release, to redlock.Releaser) {
	p := e.grants.TakePlain(r)
	if !p.Ends.IsZero() {
		by.Hold(r.Name) // more may follow, and a LOCK that came between would be freed by that
		if e.deletePlain(by, r, to, p) {
			return
		}
	}
	e.sendRelease(sentRelease{e: e, by: by, r: r, to: to, fresh: e.names.NewRequest(), plain: p})
}

// release has release.lua free the hold, whatever the lock was when it was granted.
func (e *Engine) release(by redlock.Caller, r *redlock.Release, to redlock.Releaser) {
	e.sendRelease(sentRelease{e: e, by: by, r: r, to: to, fresh: e.names.NewRequest()})
}

// sendRelease sends release.lua.
func (e *Engine) sendRelease(s sentRelease) {
	var req []byte
	s.slot, req = e.releaseRequest(s.by.Buffer(), &s)
	sent, _ := e.releases.Get().(*sentRelease)
	if sent == nil {
		sent = new(sentRelease)
	}
	s.at = time.Now()
	*sent = s
	s.by.SendHome(s.slot, req, true, sent, nil)
}

// sentRelease is a Release on its way. It is used again as a firstAttempt is.
type sentRelease struct {
	e  *Engine
	by redlock.Caller
	r  *redlock.Release
	to redlock.Releaser

	slot     int
	at       time.Time
	fresh    [redlock.IDBytes]byte // its id, unless its client has named it
	plain    index.Plain           // that very grant is meant
	repeated bool                  // it was sent again, and may have run before
	apart    bool                  // it cannot look whether it was answered before
}

// Splits implements redlock.Splitter.
func (*sentRelease) Splits() {}

// Repeated implements redlock.Repeater. If the lock was granted meanwhile, that is known now, but not once
// others have it.
func (s *sentRelease) Repeated() {
	s.repeated = true
	if p := &s.plain; p.Fence == 0 && !p.Ends.IsZero() {
		p.Fence = s.e.grants.PlainFence(s.r, p)
	}
}

// Answer implements Exchange.
func (s *sentRelease) Answer(reply []byte) []byte {
	was := *s
	*s = sentRelease{}
	was.e.releases.Put(s)
	if parted(reply) {
		was.apart = true
		was.e.sendRelease(was)
		return nil
	}
	done, to, err := was.e.readRelease(was.slot, was.r.Name, was.at, reply)
	switch {
	case err == nil && !done.Held && !was.plain.Ends.IsZero():
		was.e.releaseAfter(was.by, was.r, was.to, was.plain, was.repeated)
		return nil
	case err == nil && !done.Held && was.apart:
		was.askAgain()
		return nil
	case err == redlock.ErrAgain:
		was.e.release(was.by, was.r, was.to)
		return nil
	}
	answer := was.to.Released(done, err) // which knows the hold still
	was.e.handOver(to)
	return answer
}

// askAgain asks for the answer that s was given before its slot began to move.
func (s sentRelease) askAgain() {
	releasing := s.e.releasing(&s)
	slot, c := releasing.Answered(s.e.names)
	s.by.SendHome(slot, c.Req, true, exchange(func(reply []byte) []byte {
		done, _, err := scripts.ReadFreed(reply)
		return s.to.Released(done, err)
	}), nil)
}

// releasing is the call for s.
func (e *Engine) releasing(s *sentRelease) scripts.Releasing {
	c := scripts.Releasing{Release: s.r, Fresh: s.fresh, Plain: s.plain.ID,
		Freeing: e.freeing(s.r.Name, s.apart)}
	if s.plain.Ends.IsZero() {
		c.Known = e.grants.Granting(s.r.Name, s.r.Token)
	}
	return c
}

// releaseRequest may be sent again. buf is as that of EvalIn.
func (e *Engine) releaseRequest(buf []byte, s *sentRelease) (slot int, req []byte) {
	releasing := e.releasing(s)
	slot, c := releasing.Call(buf, e.names)
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
	e.breakSome(by, name, e.names.NewRequest(), false, false, then)
}

// breakSome breaks as many holds as one script may, and then the others. apart: the lock is the only key.
// broken: some are already.
func (e *Engine) breakSome(by redlock.Caller, name string, id [redlock.IDBytes]byte, apart, broken bool,
	then func(bool, error) []byte) {
	e.grants.Changed(name)
	slot, c := scripts.BreakCall(e.names, e.freeing(name, apart), name, id)
	at := time.Now()
	by.SendHome(slot, c.Req, false, splitting{func(reply []byte) []byte {
		if parted(reply) {
			e.breakSome(by, name, id, true, broken, then)
			return nil
		}
		r, to, err := e.readRelease(slot, name, at, reply)
		e.handOver(to)
		if err == redlock.ErrAgain {
			e.breakSome(by, name, id, apart, true, then)
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
		r := scripts.Releasing{Release: &redlock.Release{Name: name, Token: token}, Keeper: keeper,
			Freeing: e.freeing(name, apart)}
		slot, c := r.Call(nil, e.names)
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
