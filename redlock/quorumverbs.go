package redlock

import (
	"context"

	"lockproxy/internal/resp"
	"lockproxy/redlock/scripts"
)

// This file is what quorum does as an engine: it asks all nodes, and answers with what they say together.

// Acquire implements engine. Nobody may overtake those of this proxy who wait for the lock: while there are
// some, only who holds it already may be granted anything.
func (q *quorum) Acquire(by Caller, a *Acquire, to Acquirer) {
	t, err := q.claim(a)
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
			q.waiters.queues.forget(a)
		}
		return to.Acquired(g, ok, err)
	}, to)
}

// claim is the next attempt of a.
func (q *quorum) claim(a *Acquire) (*attempt, error) {
	if a.Wait > 0 {
		q.waiters.queues.expect(a)
	}
	return q.newAttempt(a, q.waiters.overtakes(a))
}

// prepare implements preparer.
func (q *quorum) prepare(a *Acquire) (prepared, error) {
	t, err := q.newAttempt(a, false)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Follows implements engine.
func (q *quorum) Follows(a *Acquire) bool { return q.waiters.follows(a) }

// Wait implements engine. What is left on nodes is taken back when an attempt is lost.
func (q *quorum) Wait(ctx context.Context, a *Acquire) (g Grant, ok bool, err error) {
	if up, why := q.voters(); up < q.need {
		q.waiters.queues.forget(a)
		return g, false, q.noQuorum(up, why)
	}
	return q.waiters.queues.wait(ctx, a)
}

// outcome is what an attempt of a has come to.
func (q *quorum) outcome(a *Acquire, t *attempt) (g Grant, ok bool, err error) {
	switch {
	case t.outcome == won:
		return t.grant, true, nil
	case t.err == nil && a.Wait > 0:
		q.waiters.refused(a, t.refusal)
	}
	return g, false, t.err
}

// Attempt implements engine. It goes on with the attempt that was made for a when the lock was released, if
// there is one.
func (q *quorum) Attempt(ctx context.Context, a *Acquire) (g Grant, ok bool, err error) {
	t, _ := q.waiters.take(a).(*attempt)
	defer q.waiters.took(a)
	if t == nil {
		if t, err = q.claim(a); err != nil {
			return g, false, err
		}
		t.start()
	}
	if err := t.await(ctx); err != nil {
		return g, false, err
	}
	return q.outcome(a, t)
}

// Release implements engine. The first of those who wait here for the lock asks each node for it right behind
// what frees it.
func (q *quorum) Release(by Caller, r *Release, to Releaser) {
	_, c := q.names.eval(&scripts.Release, r.Name, 6)
	at := q.names.place(r.Name)
	made := c.released(q.names, r)
	id := string(made[:])
	next := tellAll
	if q.waiters.goesOn(at, id) {
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
	p.next, _ = q.waiters.next(at, id).(*attempt)
	p.asked = func() { q.waiters.wakeNext(at, id) }
	p.answer(by, func(err error) []byte { return to.Released(done, err) })
}

// Renew implements engine.
func (q *quorum) Renew(by Caller, r *Renew, then func(Renewed, error) []byte) {
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
	p.answer(by, func(err error) []byte { return then(done, err) })
}

// Break implements engine.
func (q *quorum) Break(by Caller, name string, then func(bool, error) []byte) {
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

// Detach implements engine.
func (q *quorum) Detach(ctx context.Context, name, token, keeper string) error {
	_, c := q.names.eval(&scripts.Detach, name, 5)
	c.owner(token)
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

// Keep implements engine.
func (q *quorum) Keep(ctx context.Context, _ int, batch []Renewal) ([]int64, error) {
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

// Inspect implements engine.
func (q *quorum) Inspect(by Caller, name, token string, then func(State, error) []byte) {
	p, s := q.inspection(name, token)
	p.answer(by, func(err error) []byte { return then(*s, err) })
}

// State implements engine.
func (q *quorum) State(ctx context.Context, name string) (State, error) {
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
