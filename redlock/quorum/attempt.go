package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
	"lockproxy/redlock/wait"
)

// settleRounds is how often a majority is asked to agree on a fence before an attempt has failed.
const settleRounds = 8

// attempt is one claim.lua on all nodes, and what follows from it. What it left on nodes is taken back, in
// the background, unless it is granted. Nodes answer on goroutines of their own; whoever brings the answer
// that decides goes on with what follows.
type attempt struct {
	q         *Engine
	name      string
	lock      string // its key
	token     string
	id        string // of this attempt alone
	lease     time.Duration
	waits     bool // its client does
	candidate int64
	call      scripts.Call
	began     time.Time
	done      chan struct{} // closed when it is decided
	then      func()        // is called then, or nil; must not block

	mu       sync.Mutex
	ballots  []ballot // by node
	outcome  outcome
	proposal *proposal // what is being settled on, or nil

	// What it has come to, from done on.
	grant   redlock.Grant
	refusal wait.Refusal
	err     error
}

type outcome uint8

const (
	undecided outcome = iota
	won
	lost
)

// newAttempt is an attempt that no node has been asked for yet; an error: it would be in vain. only: nothing
// may be granted but to the token of a hold.
func (q *Engine) newAttempt(a *redlock.Acquire, only bool) (*attempt, error) {
	if a.Lease < q.minLease() {
		return nil, redlock.ReplyError(fmt.Sprintf("ERR a lease of %d ms is too short for RedLock, "+
			"where a node may take %d ms to answer: it must be at least %d ms",
			a.Lease.Milliseconds(), q.o.NodeTimeout.Milliseconds(), q.minLease().Milliseconds()))
	}
	if up, why := q.voters(); up < q.need {
		return nil, q.noQuorum(up, why)
	}
	a.ID = q.names.NewID(a) // else what takes the attempt before this one back would take this one too
	t := &attempt{
		q: q, name: a.Name, lock: q.names.Place(a.Name).Key, token: a.Token, id: a.ID, lease: a.Lease,
		waits: a.Wait > 0, candidate: q.fences.candidate(), began: time.Now(),
		ballots: make([]ballot, len(q.nodes)), done: make(chan struct{}),
	}
	_, c := scripts.Eval(q.names, &scripts.Claim, a.Name, 9)
	c.Asked(a)
	if only {
		c.Empty()
	} else {
		c.Number(t.candidate)
	}
	c.Number(int64(q.o.MaxReaders))
	c.Text(a.Keeper)
	c.Text(a.Meta)
	t.call = c
	return t, nil
}

// start asks all nodes.
func (a *attempt) start() {
	for i := range a.q.nodes {
		a.ask(i)
	}
}

// await returns when it is decided, or else gives the attempt up when ctx ends, and says why.
func (a *attempt) await(ctx context.Context) error {
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
	}
	if !a.GiveUp() {
		return nil
	}
	return context.Cause(ctx)
}

// GiveUp makes the attempt a lost one, unless it is decided already.
func (a *attempt) GiveUp() bool {
	a.mu.Lock()
	if a.outcome != undecided {
		a.mu.Unlock()
		return false
	}
	follow := a.lose(true, nil) // others may have been refused because of it meanwhile
	a.mu.Unlock()
	follow()
	return true
}

// voters is how many nodes vote, and why one of the others does not.
func (q *Engine) voters() (n int, why string) {
	for _, node := range q.nodes {
		if err := node.Vote(); err != nil {
			why = node.Addr() + ": " + err.Error()
		} else {
			n++
		}
	}
	return n, why
}

// ask has node i say what it says, unless the attempt is over already.
func (a *attempt) ask(i int) {
	voted := a.q.nodes[i].Vote()
	a.mu.Lock()
	over := a.outcome != undecided
	a.ballots[i].voted = voted
	a.mu.Unlock()
	if over {
		return
	}
	a.q.askFor(a.lock, i, a.call.Req, a)
	var back *debt
	a.mu.Lock()
	if a.ballots[i].kind == unasked {
		a.ballots[i].kind = unheard
		if a.outcome == lost { // meanwhile, and nothing could be taken back before it was asked for
			back = a.owe(i, a.undo(false))
		}
	}
	a.mu.Unlock()
	if back != nil {
		a.q.demand(i, back)
	}
}

// Answer implements Answerer.
func (a *attempt) Answer(i int, reply []byte, err error) {
	defer a.q.busy.Done()
	b, votes := a.read(i, reply, err)
	a.mu.Lock()
	if lostScript(&a.call, reply, err) {
		if a.outcome == undecided {
			a.mu.Unlock()
			a.q.ask(i, a.call.WithSource(), a)
			return
		}
		b = ballot{kind: unmade} // and shall not be made behind what undid it
	}
	switch voted := a.ballots[i].voted; {
	case voted == nil && votes == nil:
		b.votes = true
	case b.said == "":
		b.said = a.q.nodes[i].Addr() + ": " + errors.Join(voted, votes).Error()
	}
	a.ballots[i] = b
	var follow func()
	switch {
	case a.outcome == undecided && a.proposal == nil:
		follow = a.decide()
	case a.outcome == won:
		follow = func() { a.align(i, b) }
	}
	a.mu.Unlock()
	if follow != nil {
		follow()
	}
}

// read is what node i has said, and whether it votes.
func (a *attempt) read(i int, reply []byte, err error) (b ballot, votes error) {
	v, fault := a.q.word(i, reply, err)
	b = ballot{kind: unknown}
	if fault == nil && (len(v.Elems) == 4 || len(v.Elems) == 5) {
		v.Elems, votes = a.q.clocked(i, v.Elems, a.began)
	} else {
		votes = a.q.nodes[i].Vote()
	}
	switch {
	case fault != nil:
		b.said = fault.Error()
		if err != nil && (err == errIndebted || a.q.o.NotRun(err)) {
			b.kind = unmade
		}
	case v.Err() != "":
		b.kind, b.said = noLock, v.Err()
	case len(v.Elems) == 4:
		b.kind, b.fence, b.ttl = gave, v.Elems[0].Int, v.Elems[1].Int
		b.count, b.fresh = v.Elems[2].Int, v.Elems[3].Int == 1
	case len(v.Elems) == 3:
		b.kind, b.upgrade, b.pause, b.holder = denied, v.Elems[0].Int < 0, v.Elems[1].Int, v.Elems[2].Text()
	default:
		b.said = scripts.ErrReply.Error()
	}
	return b, votes
}
