package quorum

import (
	"context"
	"math/rand/v2"
	"time"

	"lockproxy/internal/sleep"
	"lockproxy/redlock"
)

// This file is LOCK with BREAK. claim.lua ends on each node what others hold, and takes the lock there.
//
// It ends only holds with lower fences than the candidate, and the fence that it makes is no lower than the
// candidate. So the hold of a later grant, with a higher fence, is safe from an attempt that reaches its
// nodes late: of two clients that break the same lock, the one with the higher fence has it in the end. Why
// fences rise (fence.go) holds as before; only, n may hold H before the lease of G is over.
//
// A hold may have a higher fence because clocks differ, or because somebody else was quicker. Then the
// attempt is lost, and the next one has a higher candidate. It is lost too if others break it before the
// nodes have agreed on its fence.

// breakRounds bounds how often the nodes are asked.
const breakRounds = 10

// takeOver is Acquire for an a with Break.
func (q *Engine) takeOver(by redlock.Caller, a *redlock.Acquire, to redlock.Acquirer) {
	var g redlock.Grant
	var ok bool
	var err error
	by.Await(func(done func([]byte)) {
		q.busy.Go(func() { // ends after breakRounds attempts
			g, ok, err = q.breakIn(q.ctx, a)
			done(nil)
		})
	}, func([]byte) []byte { return to.Acquired(g, ok, err) }, to)
}

// breakIn makes attempts until one is granted or fails. ok is false if others were quicker each time. It
// blocks. Between attempts it pauses at random, for 4 ms more each time, so that two who break the same lock
// do not do so in step. After the last round the error is that of its attempt, nil if others have newer
// holds.
func (q *Engine) breakIn(ctx context.Context, a *redlock.Acquire) (g redlock.Grant, ok bool, err error) {
	for round := range breakRounds {
		var t *attempt
		if t, err = q.newAttempt(a, false); err != nil {
			return g, false, err
		}
		t.done = make(chan struct{})
		t.startAttempt()
		err = t.awaitOutcome(ctx)
		a.Broke = a.Broke || t.hasBroken()
		if err != nil {
			return g, false, err
		}
		if t.outcome == won || t.err != nil && !t.unsettled {
			return t.grant, t.outcome == won, t.err
		}
		err = t.err
		if !sleep.For(ctx, rand.N(time.Duration(round+1)*4*time.Millisecond)) {
			return g, false, context.Cause(ctx)
		}
	}
	return g, false, err
}

// hasBroken says that holds of others have ended by the attempt.
func (a *attempt) hasBroken() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.broke
}
