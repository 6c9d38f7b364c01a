package quorum

import (
	"slices"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// This file is what follows when an attempt is decided: those that differ are told what was agreed on, and
// what a lost one has left is taken back.

// win is a grant, if there is any time left. mu is held.
func (a *attempt) win(fence, count, ttl int64) (follow func()) {
	left := ms(ttl) - time.Since(a.began) - drift(ms(ttl))
	if left < time.Millisecond {
		return a.lose(true, a.q.noQuorum(0, "they answered when the lease was over"))
	}
	a.outcome = won
	a.grant = redlock.Grant{Token: a.token, Fence: fence, TTL: left.Truncate(time.Millisecond), Count: count,
		At: a.began}
	differs := false
	for i, b := range a.ballots {
		if b.kind == gave {
			a.q.fences.learn(i, a.began, a.candidate, b.fence, b.fence == fence)
		}
		differs = differs || a.mayDiffer(b)
	}
	a.end()
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

// mayDiffer says that a node may have another fence or count for the grant than a majority has: it said so,
// or its answer was lost.
func (a *attempt) mayDiffer(b ballot) bool {
	return b.kind == unknown || b.kind == gave && (b.fence != a.grant.Fence || b.count != a.grant.Count)
}

// end tells who waits for it. mu is held.
func (a *attempt) end() {
	close(a.done)
	if a.then != nil {
		a.then()
	}
}

// lose ends an attempt that is not granted. held: a majority may have taken it for one that was. What nodes
// have made of it, or are going to, is taken back: requests to a node run in order. The debts are noted
// before anybody is told, or the next request of the same token could come before what takes this one back.
// mu is held.
func (a *attempt) lose(held bool, err error) (follow func()) {
	a.outcome, a.err = lost, err
	had := 0
	for i, b := range a.ballots {
		if b.kind == gave {
			had++
			a.q.fences.learn(i, a.began, a.candidate, b.fence, false)
		}
	}
	var undo *scripts.Call
	back := make([]*debt, len(a.ballots))
	for i, b := range a.ballots {
		if b.kind == gave || b.kind == unheard || b.kind == unknown {
			if undo == nil {
				undo = a.undo(held || had >= a.q.need)
			}
			back[i] = a.owe(i, undo)
		}
	}
	a.end()
	return func() {
		for i, d := range back {
			if d != nil {
				a.q.demand(i, d)
			}
		}
	}
}

// align gives node i, which granted or may have, what a majority has agreed on. The node owes it: else a
// minority goes on to differ, and would be believed with one more node when the others are silent.
func (a *attempt) align(i int, b ballot) {
	if !a.mayDiffer(b) {
		return
	}
	a.q.demand(i, a.q.owe(i, debt{
		lock: a.lock, call: a.settleRequest(a.grant.Fence, a.grant.Count, true),
		until: time.Now().Add(a.lease + time.Second),
	}))
}

// settleRequest has the hold be what most have agreed on; agreed: it must not be refused.
func (a *attempt) settleRequest(fence, count int64, agreed bool) *scripts.Call {
	args := 4
	if agreed {
		args = 5
	}
	_, c := scripts.Eval(a.q.names, &scripts.Settle, a.name, args)
	c.Owner(a.token)
	c.Text(a.id)
	c.Number(fence)
	c.Number(count)
	if agreed {
		c.Text("agreed")
	}
	return &c
}

// undo is the request that takes back what the attempt makes. tell: who waits for the lock is told.
func (a *attempt) undo(tell bool) *scripts.Call {
	return a.q.cancelRequest(a.name, a.token, a.id, tell)
}

func (q *Engine) cancelRequest(name, token, id string, tell bool) *scripts.Call {
	_, c := scripts.Eval(q.names, &scripts.Cancel, name, 5)
	c.Owner(token)
	c.Text(id)
	next := scripts.OfferNext // which is nobody, without a queue
	if tell {
		next = scripts.TellAll
	}
	c.Freed("", "PUBLISH", next)
	return &c
}

// Undo implements locks.engine. Each node owes it by itself: what else it is asked for the lock comes behind
// it.
func (q *Engine) Undo(a *redlock.Acquire) {
	q.waiters.Forget(a)
	c := q.cancelRequest(a.Name, a.Token, a.ID, true)
	q.takeBack(q.names.Place(a.Name).Key, a.ID, c, time.Now().Add(a.Lease+time.Second))
}

// UndoOnce implements locks.engine: it is left to the debts of the nodes.
func (q *Engine) UndoOnce(a *redlock.Acquire) error {
	q.Undo(a)
	return nil
}

// owe notes that node i has to run undo, for as long as there may be anything to take back.
func (a *attempt) owe(i int, undo *scripts.Call) *debt {
	return a.q.owe(i, debt{lock: a.lock, id: a.id, call: undo, until: time.Now().Add(a.lease + time.Second)})
}

// mandate is a request whose answer nobody waits for.
type mandate struct {
	q    *Engine
	call *scripts.Call
	debt *debt // that it pays, or nil

	failed bool // guarded by the mu of the node's debts
}

// Answer implements Answerer.
func (o *mandate) Answer(i int, reply []byte, err error) {
	defer o.q.busy.Done()
	if o.q.heal(i, o.call, reply, err, o) || o.debt == nil {
		return
	}
	o.q.settled(i, o, err == nil && len(reply) > 0 && reply[0] != '-')
}
