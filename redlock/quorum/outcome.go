package quorum

import (
	"slices"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// This file acts on a decided attempt: nodes that differ are told what the majority agreed on, and what a
// lost attempt left is taken back.

// winLock grants the lock, if any time is left. mu is held. fence and count are those of a majority, and ttl
// is what a majority has left at least, in ms, counted from began: so what has passed since is taken off, and
// the drift of clocks.
func (a *attempt) winLock(fence, count, ttl int64) (follow func()) {
	now := time.Now()
	left := ms(ttl) - now.Sub(a.began) - drift(ms(ttl))
	if left < time.Millisecond {
		return a.loseAttempt(true, a.q.noQuorum(0, "they answered when the lease was over"))
	}
	a.outcome = won
	a.grant = redlock.Grant{Token: a.by.Token, Fence: fence, TTL: left.Truncate(time.Millisecond),
		Count: count, At: now}
	differs := false
	a.distrust()
	for i, b := range a.ballots {
		if b.kind == gave && !b.odd {
			a.q.fences.learnFence(i, a.began, a.candidate, b.fence, b.fence == fence)
		}
		differs = differs || a.mayDiffer(b)
	}
	a.endAttempt()
	if !differs {
		return nil
	}
	ballots := slices.Clone(a.ballots)
	return func() {
		for i, b := range ballots {
			a.align(i, b)
		}
	}
}

// mayDiffer says that a node may have another fence or count for the grant than the majority: it said so, or
// its answer was lost.
func (a *attempt) mayDiffer(b ballot) bool {
	return b.kind == unknown || b.kind == gave && (b.fence != a.grant.Fence || b.count != a.grant.Count)
}

// endAttempt wakes whoever waits for the outcome, which does not change any more. It is called once, with mu
// held unless loseAttempt has waited for the undoing.
func (a *attempt) endAttempt() {
	if a.done != nil {
		close(a.done)
	}
	if a.then != nil {
		a.then()
	}
}

// loseAttempt ends an attempt that is not granted. held: a majority may have taken it for granted. What nodes
// made of it, or still may, is taken back by cancel.lua; a node runs its requests in order. The cancels are
// noted as pending before anybody is told: otherwise the next request of the same token could be sent ahead
// of them.
//
// As long as a majority may have it, the token may hold the lock. An error says so, and Null waits until a
// majority is known to have it no more. A WAIT goes on meanwhile: see Engine.Wait. mu is held.
func (a *attempt) loseAttempt(held bool, err error) (follow func()) {
	a.outcome, a.err = lost, err
	a.distrust()
	had := 0
	for i, b := range a.ballots {
		if b.kind == gave {
			had++
			if !b.odd {
				a.q.fences.learnFence(i, a.began, a.candidate, b.fence, false)
			}
		}
		if b.newer > 0 {
			a.q.fences.learnFence(i, a.began, a.candidate, b.newer+1, false)
		}
	}
	var undo *scripts.Call
	back, left := make([]*pending, len(a.ballots)), 0
	for i, b := range a.ballots {
		switch {
		case b.kind == gave || b.kind == unheard || b.kind == unknown:
			if undo == nil {
				undo = a.undoRequest(held || had >= a.q.need)
			}
			back[i] = a.q.nodes[i].notePending(a.lock, &a.by, a.id, undo)
			left++
		// It may be asked at this very moment (askVote), or has something of an earlier attempt.
		case b.kind == unasked || a.q.nodes[i].owesUndo(a.lock, a.by.Token):
			left++
		}
	}
	mayHold := left >= a.q.need
	// Only Null is held back. An error says itself that the token may hold the lock, a WAIT goes on, and a
	// token that nobody was told of is no use to anybody.
	awaited := mayHold && err == nil && a.by.Wait <= 0 && !a.by.Fresh
	if mayHold && err != nil {
		a.err = a.by.MayHold(err)
	}
	if !awaited {
		a.endAttempt()
	}
	return func() {
		for i, d := range back {
			if d != nil {
				a.q.nodes[i].sendPending(d)
			}
		}
		if awaited {
			a.q.undoing(a.lock, a.undoRequest(held)).startPoll(func(_ bool, err error) {
				if err != nil {
					a.err = a.by.MayHold(err)
				}
				a.endAttempt()
			})
		}
	}
}

// align gives node i, which granted or may have granted, what the majority agreed on. That is pending: a
// minority that differs would be believed as soon as one more node sides with it while the others are silent.
// mu is not held. It is called for each ballot that comes behind the decision, too.
func (a *attempt) align(i int, b ballot) {
	if !a.mayDiffer(b) {
		return
	}
	n := a.q.nodes[i]
	n.sendPending(n.notePending(a.lock, &a.by, "", a.settleRequest(a.grant.Fence, a.grant.Count, true)))
}

// settleRequest gives the hold this fence and count. agreed: the majority has them already, so the node must
// not refuse.
func (a *attempt) settleRequest(fence, count int64, agreed bool) *scripts.Call {
	c := scripts.SettleCall(a.q.names, a.by.Name, a.by.Token, a.id, fence, count, agreed)
	return &c
}

// undoRequest is the request that takes back what the attempt left. tell: wake those who wait for the lock.
func (a *attempt) undoRequest(tell bool) *scripts.Call {
	return a.q.cancelRequest(&a.by, a.id, tell)
}

// cancelRequest takes back what the attempt id of a left. Nobody queues at the nodes, so waiters here and at
// other proxies are told by a message, if they are to be told.
func (q *Engine) cancelRequest(a *redlock.Acquire, id string, tell bool) *scripts.Call {
	next := scripts.OfferNext // without a queue there is nobody to offer it to
	if tell {
		next = scripts.TellAll
	}
	c := scripts.CancelCall(q.names, q.freeing(next), a.Name, a.Token, id)
	return &c
}

// Undo implements locks.engine. It is pending at each node: later requests for the lock go behind it. a may
// be used again by its owner: what is pending has copies of all that it needs.
func (q *Engine) Undo(a *redlock.Acquire) {
	q.waiters.Forget(a)
	lock, undo := q.names.Place(a.Name).Key, q.cancelRequest(a, a.ID, true)
	for _, n := range q.nodes {
		if !n.hasPending(lock, func(d *pending) bool { return d.id == a.ID }) {
			n.sendPending(n.notePending(lock, a, a.ID, undo))
		}
	}
}

// UndoOnce implements locks.engine. If too few nodes answer, it is left to the pending requests.
func (q *Engine) UndoOnce(a *redlock.Acquire) error {
	q.Undo(a)
	return q.awaitUndo(a)
}

// awaitUndo returns nil once a majority has nothing left of a, to which that is known to be pending. An error
// is that too few nodes have answered, or that the Engine is closed.
func (q *Engine) awaitUndo(a *redlock.Acquire) error {
	_, err := q.undoing(q.names.Place(a.Name).Key, q.cancelRequest(a, a.ID, true)).awaitOutcome(q.ctx)
	return err
}
