package quorum

import (
	"cmp"
	"context"
	"errors"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
	"lockproxy/redlock/wait"
)

// This file is the engine's methods: each asks all nodes and combines their answers.

// Acquire implements locks.engine. Nobody may overtake those who wait for the lock at this proxy: while there
// are any, only a token that already holds it may be granted anything.
func (q *Engine) Acquire(by redlock.Caller, a *redlock.Acquire, to redlock.Acquirer) {
	if a.Break {
		q.takeOver(by, a, to)
		return
	}
	t, err := q.newAttempt(a, q.waiters.OthersFirst(a))
	by.Await(func(done func([]byte)) {
		if err != nil {
			done(nil)
			return
		}
		t.then = func() { done(nil) }
		t.startAttempt()
	}, func([]byte) []byte {
		var g redlock.Grant
		ok := false
		if err == nil {
			g, ok, err = q.outcome(a, t)
		}
		if ok || err != nil {
			q.waiters.Forget(a)
		}
		return to.Acquired(g, ok, err)
	}, to)
}

// Prepare implements wait.Preparer. It is called with the lock of the queues held, so it must not ask them
// anything.
func (q *Engine) Prepare(a *redlock.Acquire) (wait.Prepared, error) {
	t, err := q.newAttempt(a, false)
	if err != nil {
		return nil, err
	}
	t.done = make(chan struct{})
	return t, nil
}

// Follows implements locks.engine.
func (q *Engine) Follows(a *redlock.Acquire) bool { return q.waiters.Follows(a) }

// Wait implements locks.engine. A lost attempt takes back what it left on nodes. Nobody is told that the wait
// was in vain before that is known, or is told that it is not.
func (q *Engine) Wait(ctx context.Context, a *redlock.Acquire) (g redlock.Grant, ok bool, err error) {
	if up, why := q.voters(); up < q.need {
		q.waiters.Forget(a)
		return g, false, q.tooFew(a, up, why)
	}
	if g, ok, err = q.waiters.Wait(ctx, a); ok || errors.Is(err, redlock.ErrMayHold) || !q.mayHold(a) {
		return g, ok, err
	}
	if left := q.awaitUndo(a); left != nil {
		err = a.MayHold(cmp.Or(err, left))
	}
	return g, false, err
}

// outcome is the result of an attempt of a. The attempt is decided. A refusal is noted with the waiter of a,
// if a may wait: it says when the next attempt is due.
func (q *Engine) outcome(a *redlock.Acquire, t *attempt) (g redlock.Grant, ok bool, err error) {
	switch {
	case t.outcome == won:
		return t.grant, true, nil
	case t.err == nil && a.Wait > 0:
		q.waiters.Expect(a, t.began)
		q.waiters.Refused(a, t.refusal)
	}
	return g, false, t.err
}

// Attempt implements locks.engine. If a release made an attempt for a already, it continues that one.
func (q *Engine) Attempt(ctx context.Context, a *redlock.Acquire) (g redlock.Grant, ok bool, err error) {
	t, _ := q.waiters.Take(a).(*attempt)
	defer q.waiters.Took(a)
	if t == nil {
		if t, err = q.newAttempt(a, q.waiters.OthersFirst(a)); err != nil {
			return g, false, err
		}
		t.done = make(chan struct{})
		t.startAttempt()
	}
	if err := t.awaitOutcome(ctx); err != nil {
		return g, false, err
	}
	return q.outcome(a, t)
}

// answerClient runs it for a client, whose answer is what then makes of the outcome.
func (p *poll[T]) answerClient(by redlock.Caller, then func(T, error) []byte) {
	answer(by, p.startPoll, then)
}

// answer answers a client with what then makes of the outcome that begin tells.
func answer[T any](by redlock.Caller, begin func(tell func(T, error)), then func(T, error) []byte) {
	var is T
	var err error
	by.Await(func(done func([]byte)) {
		begin(func(one T, failed error) {
			is, err = one, failed
			done(nil)
		})
	}, func([]byte) []byte { return then(is, err) }, nil)
}

// awaitOutcome runs it and waits for the outcome. When ctx ends first, it goes on all the same. The error is
// then the cause of ctx.
func (p *poll[T]) awaitOutcome(ctx context.Context) (T, error) {
	return redlock.Ask(&redlock.Patient{Ctx: ctx}, func(by *redlock.Patient, then func(T, error) []byte) {
		p.answerClient(by, then)
	})
}

// Release implements locks.engine. If somebody waits here for the lock, the attempt of the first goes to each
// node right behind the release.
func (q *Engine) Release(by redlock.Caller, r *redlock.Release, to redlock.Releaser) {
	at := q.names.Place(r.Name)
	request := scripts.Releasing{Release: r, Fresh: q.names.NewRequest()}
	made := request.ID()
	id := string(made[:])
	request.Freeing = q.freeing(scripts.TellAll)
	next, passed := q.waiters.PassOn(at, id)
	if passed {
		request.Next = scripts.TellOthers
	}
	p := newPoll(q, request.Call(nil, q.names), (*nodeReplies).released)
	p.lock = at.Key
	p.next, _ = next.(*attempt)
	p.asked = func() { q.waiters.WakeNext(at, id) }
	p.answerClient(by, to.Released)
}

// freeing says what becomes of a lock that the scripts free. Nobody waits for it there.
func (q *Engine) freeing(next scripts.After) scripts.Freeing {
	return scripts.Freeing{Proxy: q.names.ID, Publish: "PUBLISH", Next: next}
}

// Renew implements locks.engine. The replies end with the clocks of the nodes, as those of Keep do.
func (q *Engine) Renew(by redlock.Caller, r *redlock.Renew, then func(redlock.Renewed, error) []byte) {
	p := newPoll(q, scripts.RenewCall(q.names, scripts.Client, *r), (*nodeReplies).renewed)
	p.clocked = true
	p.answerClient(by, then)
}

// Break implements locks.engine.
func (q *Engine) Break(by redlock.Caller, name string, then func(bool, error) []byte) {
	p := newPoll(q, scripts.BreakCall(q.names, q.freeing(scripts.TellAll), name, q.names.NewRequest()),
		(*nodeReplies).broken)
	// By node: one script has ended some holds there, but not all. Then it is asked again, and its last
	// answer may be that there was nothing more.
	some := make([]bool, len(q.nodes))
	p.more = func(i int, v resp.Value) (resp.Value, *scripts.Call) {
		switch {
		case v.Kind == ':' && v.Int < 0:
			some[i] = true
			return v, &p.call
		case some[i]:
			v.Int = 1
		}
		return v, nil
	}
	p.answerClient(by, then)
}

// Detach implements locks.engine. freed is not called: a release here grants nothing to anybody, waiters are
// only woken.
func (q *Engine) Detach(ctx context.Context, name, token, keeper string, _ func()) error {
	r := scripts.Releasing{Release: &redlock.Release{Name: name, Token: token}, Keeper: keeper,
		Freeing: q.freeing(scripts.TellAll)}
	_, err := newPoll(q, r.Call(nil, q.names), (*nodeReplies).broken).awaitOutcome(ctx)
	return err
}

// Keep implements locks.engine.
func (q *Engine) Keep(ctx context.Context, _ int, batch []redlock.Renew) ([]int64, error) {
	return q.keeping(batch...).awaitOutcome(ctx)
}

// keeping asks about holds of one slot.
func (q *Engine) keeping(batch ...redlock.Renew) *poll[[]int64] {
	p := newPoll(q, scripts.RenewCall(q.names, scripts.Keeper, batch...),
		func(p *nodeReplies) ([]int64, bool) { return p.kept(len(batch)) })
	p.clocked = true
	return p
}

// Inspect implements locks.engine. A client that asks for its own hold relies on the answer, so what it is
// told of is not taken back any more. So it is asked behind what is to be taken back, and of what too few
// nodes have nothing is told.
func (q *Engine) Inspect(by redlock.Caller, name, token string, then func(redlock.State, error) []byte) {
	p := newPoll(q, scripts.InspectCall(q.names, name, token, &scripts.Pages{}), (*nodeReplies).state)
	key := q.names.Place(name).Key
	// By node, since long lists of readers come in pages, of any number.
	read := make([]scripts.Pages, len(q.nodes))
	p.more = func(i int, v resp.Value) (resp.Value, *scripts.Call) {
		v, more := read[i].Add(v)
		if !more {
			return v, nil
		}
		next := scripts.InspectCall(q.names, name, token, &read[i])
		return v, &next
	}
	told := func(s redlock.State, err error) []byte {
		s.Key = key
		return then(s, err)
	}
	if token == "" {
		p.answerClient(by, told)
		return
	}
	first := q.keeping(redlock.Renew{Name: name, Token: token})
	first.lock = key
	answer(by, func(tell func(redlock.State, error)) {
		first.startPoll(func(left []int64, err error) {
			if err != nil || left[0] == 0 {
				tell(redlock.State{}, err)
				return
			}
			p.startPoll(tell)
		})
	}, told)
}
