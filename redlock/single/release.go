package single

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/index"
	"lockproxy/redlock/scripts"
	"lockproxy/redlock/wait"
)

// releaser frees holds, and hands locks on to those who wait at this proxy. Safe for concurrent use.
type releaser struct {
	*masters
	grants   *index.Index
	waiters  *wait.Redis
	scripted atomic.Bool // plain locks are freed by release.lua, whatever the upstream says of a command
	releases sync.Pool   // of *sentRelease
}

// Release implements locks.engine. The first request is the cheapest that can be right; each that finds
// nothing is followed by one that knows less and looks at more.
func (l *releaser) Release(by redlock.Caller, r *redlock.Release, to redlock.Releaser) {
	s := sentRelease{of: l, by: by, r: r, to: to, fresh: l.names.NewRequest(), plain: l.grants.TakePlain(r)}
	if !s.plain.Ends.IsZero() {
		by.Hold(r.Name) // more may follow, and a LOCK that came between would be freed by that
		if s.plain.Fence != 0 && !l.scripted.Load() {
			s.deletes = l.upstream.DeleteIf()
		}
	}
	l.sendRelease(s)
}

// releaseAny has release.lua free the hold, whatever the lock was when it was granted.
func (l *releaser) releaseAny(by redlock.Caller, r *redlock.Release, to redlock.Releaser) {
	l.sendRelease(sentRelease{of: l, by: by, r: r, to: to, fresh: l.names.NewRequest()})
}

// sendRelease sends the request of s. It copies s into one of the pool.
func (l *releaser) sendRelease(s sentRelease) {
	c := l.releaseCall(s.by.Buffer(), &s)
	sent := l.releases.Get().(*sentRelease)
	s.at, s.slot = time.Now(), c.Slot
	*sent = s
	s.by.SendHome(c.Slot, c.Req, true, sent, nil)
}

// sentRelease is a Release on its way. It is used again as a firstAttempt is.
type sentRelease struct {
	of *releaser
	by redlock.Caller
	r  *redlock.Release
	to redlock.Releaser

	slot     int
	at       time.Time
	fresh    [redlock.IDBytes]byte // its id, unless its client has named it
	plain    index.Plain           // that very grant is meant
	deletes  string                // the command that does it; "": release.lua does
	repeated bool                  // it was sent again, and may have run before
	apart    bool                  // its slot moves: the lock is its only key
}

// Splits implements redlock.Splitter.
func (*sentRelease) Splits() {}

// Repeated implements redlock.Repeater. If the lock was granted meanwhile, that is known now, but not once
// others have it.
func (s *sentRelease) Repeated() {
	s.repeated = true
	if p := &s.plain; p.Fence == 0 && !p.Ends.IsZero() {
		p.Fence = s.of.grants.PlainFence(s.r, p)
	}
}

// Answer implements Exchange. It is called where its Caller is: on the loop of a client, or on the goroutine
// of a Patient.
func (s *sentRelease) Answer(reply []byte) []byte {
	was := *s
	*s = sentRelease{}
	was.of.releases.Put(s)
	if redlock.Parted(reply) {
		was.askBefore()
		return nil
	}
	if was.deletes != "" {
		var unable bool
		if reply, unable = scripts.ReadDeleted(reply); unable {
			was.of.scripted.Store(true) // a script does as well: nobody need be told
		}
	}
	done, to, err := was.of.readRelease(was.slot, was.r.Name, was.at, reply)
	switch {
	case err == nil && !done.Held && !was.plain.Ends.IsZero():
		was.of.releaseAfter(was.by, was.r, was.to, was.plain, was.repeated)
		return nil
	case err == nil && !done.Held && was.apart:
		was.askBefore()
		return nil
	case err == redlock.ErrAgain:
		was.of.releaseAny(was.by, was.r, was.to)
		return nil
	}
	answer := was.to.Released(done, err) // which knows the hold still
	was.of.handOver(to)
	return answer
}

// askBefore asks for the answer that s was given before its slot began to move. If there was none, s is sent
// with the lock alone, unless it was already. It asks before that, because the token may have been granted
// the lock anew since a copy of s has run; and behind it, because a copy may have run in between.
func (s sentRelease) askBefore() {
	sent := s.apart
	s.deletes, s.apart = "", true
	c := s.of.releasing(&s).Answered(s.of.names)
	s.by.SendHome(c.Slot, c.Req, true, redlock.ExchangeFunc(func(reply []byte) []byte {
		done, _, err := scripts.ReadFreed(reply)
		if sent || done.Held || err != nil {
			return s.to.Released(done, err)
		}
		s.of.sendRelease(s)
		return nil
	}), nil)
}

// releasing is the call for s.
func (l *releaser) releasing(s *sentRelease) scripts.Releasing {
	c := scripts.Releasing{Release: s.r, Fresh: s.fresh, Plain: s.plain.ID,
		Freeing: l.freeing(s.r.Name, s.apart)}
	if s.plain.Ends.IsZero() {
		c.Known = l.grants.Granting(s.r.Name, s.r.Token)
	}
	return c
}

// releaseCall may be sent again. buf is as that of scripts.PlainCall.
func (l *releaser) releaseCall(buf []byte, s *sentRelease) scripts.Call {
	if s.deletes != "" {
		return scripts.DeleteCall(buf, l.names, s.deletes, s.r.Name, s.r.Token, s.plain.ID, s.plain.Fence)
	}
	releasing := l.releasing(s)
	return releasing.Call(buf, l.names)
}

// readRelease reads the reply to releaseCall, and that of all who free a lock: at is when the request was
// sent. Whoever got the lock by it is to be told (handOver). After ErrAgain make the request again, and send
// it.
func (l *releaser) readRelease(slot int, name string, at time.Time, reply []byte) (
	r redlock.Released, to scripts.HandedOn, err error) {
	r, to, err = scripts.ReadFreed(reply)
	if to.Grant.At = at; r.Held && to.Waiter == "" {
		l.tellMoved(slot, name)
	}
	return r, to, err
}

// tellMoved makes those who wait for a freed lock, at any proxy, ask again if its slot moves: the script has
// published its message at the node that has the lock, while they listen at the one that has the slot.
func (l *releaser) tellMoved(slot int, name string) {
	if !l.moving(slot) || !l.upstream.Sharded() {
		return
	}
	l.Work.Go(func() { // ends with the answer
		req := resp.AppendCommandStrings(nil, "SPUBLISH", l.names.Place(name).Key, "?")
		if _, err := l.upstream.Do(l.Ctx, slot, req, true); err != nil {
			l.o.Log.Debug("those who wait for a lock were not told that it is free", "err", err)
		}
	})
}

// handOver tells a waiter of this proxy that it got the lock, if one did.
func (l *releaser) handOver(to scripts.HandedOn) {
	if to.Waiter != "" {
		l.waiters.HandOver(to.Waiter, to.Grant)
	}
}

// Break implements locks.engine. The request is not to be sent again: that could break the hold of the next
// one, if another proxy has asked for that.
func (l *releaser) Break(by redlock.Caller, name string, then func(bool, error) []byte) {
	l.breakSome(by, name, l.names.NewRequest(), false, false, then)
}

// breakSome breaks as many holds as one script may, and then the others. apart: the lock is the only key.
// broken: some are already.
func (l *releaser) breakSome(by redlock.Caller, name string, id [redlock.IDBytes]byte, apart, broken bool,
	then func(bool, error) []byte) {
	l.grants.Changed(name)
	c := scripts.BreakCall(l.names, l.freeing(name, apart), name, id)
	at := time.Now()
	by.SendHome(c.Slot, c.Req, false, splitting{func(reply []byte) []byte {
		if redlock.Parted(reply) {
			l.breakSome(by, name, id, true, broken, then)
			return nil
		}
		r, to, err := l.readRelease(c.Slot, name, at, reply)
		l.handOver(to)
		if err == redlock.ErrAgain {
			l.breakSome(by, name, id, apart, true, then)
			return nil
		}
		return then(broken || r.Whole, err)
	}}, nil)
}

// splitting is an exchange that asks for the lock alone after TRYAGAIN.
type splitting struct{ redlock.ExchangeFunc }

// Splits implements redlock.Splitter.
func (splitting) Splits() {}

// Detach implements locks.engine.
func (l *releaser) Detach(ctx context.Context, name, token, keeper string, freed func()) error {
	return l.freeLock(ctx, name, freed, func(apart bool) scripts.Call {
		r := scripts.Releasing{Release: &redlock.Release{Name: name, Token: token}, Keeper: keeper,
			Freeing: l.freeing(name, apart)}
		return r.Call(nil, l.names)
	})
}

// freeLock runs a script that frees a lock, with the lock alone as its key if the slot moves. freed is as in
// keepalive.Engine. It blocks. A grant that it brings is handed over on this goroutine.
func (l *releaser) freeLock(
	ctx context.Context, name string, freed func(), request func(apart bool) scripts.Call,
) error {
	at, c := time.Now(), request(false)
	reply, err := l.upstream.Do(ctx, c.Slot, c.Req, true)
	if err == nil && redlock.Parted(reply) {
		at, c = time.Now(), request(true)
		reply, err = l.upstream.Do(ctx, c.Slot, c.Req, true)
	}
	if err == nil {
		var to scripts.HandedOn
		if _, to, err = l.readRelease(c.Slot, name, at, reply); to.Waiter != "" {
			freed()
		}
		l.handOver(to)
	}
	return err
}
