package redlock

import (
	"context"

	"lockproxy/internal/resp"
	"lockproxy/redlock/scripts"
)

// This file is what quorum does as an engine: it asks all nodes, and answers with what they say together.

// acquire implements engine. Nobody may overtake those of this proxy who wait for the lock: while there are
// some, only who holds it already may be granted anything.
func (q *quorum) acquire(by Caller, a *Acquire, to Acquirer) {
	t, err := q.prepare(a)
	by.Await(func(done func([]byte)) {
		if err != nil {
			done(nil)
			return
		}
		t.then = func() { done(nil) }
		t.start()
	}, func([]byte) []byte {
		var g Grant
		ok := false
		if err == nil {
			g, ok, err = q.outcome(a, t)
		}
		if ok || err != nil {
			q.queues.forget(a.w)
		}
		return to.Acquired(g, ok, err)
	}, to.Lost)
}

// prepare is the next attempt of a.
func (q *quorum) prepare(a *Acquire) (*attempt, error) {
	p := q.names.place(a.Name)
	if a.Wait > 0 && a.w == nil {
		a.w = q.queues.expect(a, p)
	}
	return q.newAttempt(a, q.order.overtakes(p, a.w))
}

// outcome is what an attempt of a has come to.
func (q *quorum) outcome(a *Acquire, t *attempt) (g Grant, ok bool, err error) {
	switch {
	case t.outcome == won:
		return t.grant, true, nil
	case t.err == nil && a.w != nil:
		q.order.refused(a.w, t.refusal)
	}
	return g, false, t.err
}

// attempt implements engine. It goes on with the attempt that was made for a when the lock was released, if
// there is one.
func (q *quorum) attempt(ctx context.Context, a *Acquire) (g Grant, ok bool, err error) {
	var t *attempt
	if a.w != nil {
		t = q.order.take(a.w)
		defer q.order.took(a.w)
		limited, cancel := context.WithDeadlineCause(ctx, a.w.deadline, errOverdue)
		defer cancel()
		ctx = limited
	}
	if t == nil {
		if t, err = q.prepare(a); err != nil {
			return g, false, err
		}
		t.start()
	}
	if err := t.await(ctx); err != nil {
		return g, false, err
	}
	return q.outcome(a, t)
}

// release implements engine. The first of those who wait here for the lock asks each node for it right behind
// what frees it.
func (q *quorum) release(by Caller, r *Release, to Releaser) {
	_, c := q.names.eval(&scripts.Release, r.Name, 6)
	at := q.names.place(r.Name)
	made := c.released(q.names, r)
	id := string(made[:])
	next := tellAll
	if q.order.goesOn(at, id) {
		next = tellOthers
	}
	c.freed(q.names.id, "PUBLISH", next)
	p := q.newPoll(c)
	p.lock = at.key
	var done Released
	p.combine = func() (clear bool) {
		done, clear = p.released()
		return clear
	}
	p.next, p.asked = q.order.next(at, id), func() { q.order.wakeNext(at, id) }
	p.answer(by, func(err error) []byte {
		q.stats.release(done, err)
		return to.Released(done, err)
	})
}

// renew implements engine.
func (q *quorum) renew(by Caller, r *Renew, then func(Renewed, error) []byte) {
	_, c := q.names.eval(&scripts.Renew, r.Name, 5)
	c.renewed(q.names, r)
	c.text(r.Keeper)
	c.text(withClock)
	p := q.newPoll(c)
	p.clocked = true
	var done Renewed
	p.combine = func() (clear bool) {
		done, clear = p.renewed()
		return clear
	}
	p.answer(by, func(err error) []byte {
		q.stats.renew(done, err)
		return then(done, err)
	})
}

// breakLock implements engine.
func (q *quorum) breakLock(by Caller, name string, then func(bool, error) []byte) {
	_, c := q.names.eval(&scripts.Break, name, 4)
	c.freed(q.names.id, "PUBLISH", tellAll)
	id := q.names.ids.next()
	c.bytes(id[:])
	p, broken := q.freeing(c)
	some := make([]bool, len(q.nodes))
	p.more = func(i int, v resp.Value) (resp.Value, *call) {
		switch {
		case v.Kind == ':' && v.Int < 0:
			some[i] = true
			return v, &p.call
		case some[i]:
			v.Int = 1
		}
		return v, nil
	}
	p.answer(by, func(err error) []byte { return then(*broken, err) })
}

// detach implements engine.
func (q *quorum) detach(ctx context.Context, h holdName, keeper string) error {
	_, c := q.names.eval(&scripts.Detach, h.name, 5)
	c.owner(h.token)
	c.text(keeper)
	c.freed(q.names.id, "PUBLISH", tellAll)
	p, _ := q.freeing(c)
	return p.await(ctx)
}

// freeing is a poll of a script that takes holds away.
func (q *quorum) freeing(c call) (p *poll, broken *bool) {
	p, broken = q.newPoll(c), new(bool)
	p.combine = func() (clear bool) {
		*broken, clear = p.broken()
		return clear
	}
	return p, broken
}

// keep implements engine.
func (q *quorum) keep(ctx context.Context, _ int, batch []question) ([]int64, error) {
	c := q.names.kept(batch, 1)
	c.text(withClock)
	p := q.newPoll(c)
	p.clocked = true
	var left []int64
	p.combine = func() (clear bool) {
		left, clear = p.kept(len(batch))
		return clear
	}
	if err := p.await(ctx); err != nil {
		return nil, err
	}
	return left, nil
}

// inspect implements engine.
func (q *quorum) inspect(by Caller, name, token string, then func(State, error) []byte) {
	p, s := q.inspection(name, token)
	p.answer(by, func(err error) []byte { return then(*s, err) })
}

// state implements engine.
func (q *quorum) state(ctx context.Context, name string) (State, error) {
	p, s := q.inspection(name, "")
	if err := p.await(ctx); err != nil {
		return State{}, err
	}
	return *s, nil
}

// inspection is a poll about how a lock is.
func (q *quorum) inspection(name, token string) (p *poll, s *State) {
	_, c := q.names.inspected(name, token, &pages{})
	p, s = q.newPoll(c), new(State)
	read := make([]pages, len(q.nodes))
	p.more = func(i int, v resp.Value) (resp.Value, *call) {
		v, more := read[i].add(v)
		if !more {
			return v, nil
		}
		_, next := q.names.inspected(name, token, &read[i])
		return v, &next
	}
	key := q.names.place(name).key
	p.combine = func() (clear bool) {
		*s, clear = p.state()
		s.Key = key
		return clear
	}
	return p, s
}
