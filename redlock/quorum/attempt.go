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

// settleRounds bounds how often a majority is asked to agree on a fence before the attempt fails.
const settleRounds = 8

// attempt sends claim.lua to all nodes and acts on their answers. Unless it is granted, what it left on nodes
// is taken back in the background. Nodes answer on goroutines of their own; the one with the deciding answer
// carries on.
type attempt struct {
	q    *Engine
	by   redlock.Acquire // a copy: nodes answer late, when another LOCK may have its place in memory
	lock string          // the key of the lock
	id   string          // of this attempt alone; each one has another
	// The fence that the nodes are asked to make, and the claim.lua that asks for it. All nodes get the same
	// bytes, so nobody changes them.
	candidate int64
	call      scripts.Call
	// When it was made. No node can have granted it before, so its lease counts from here.
	began time.Time
	done  chan struct{} // closed when it is decided; nil: nobody waits for that
	then  func()        // called when it is decided, or nil; must not block

	mu       sync.Mutex
	ballots  []ballot  // by node
	space    [5]ballot // of ballots, for most
	broke    bool      // holds of others have ended by it
	outcome  voteOutcome
	proposal *proposal // what the nodes are asked to agree on, or nil

	// The outcome, valid once it is decided.
	grant     redlock.Grant
	refusal   wait.Refused
	err       error
	unsettled bool // err is that the nodes did not agree on a fence
}

// voteOutcome is what has become of an attempt. It changes once, from undecided to one of the others.
type voteOutcome uint8

const (
	undecided voteOutcome = iota
	won
	lost
)

// newAttempt returns an attempt that has not been sent yet. An error means that it would be in vain. only: no
// new hold may be granted, the token must have one. a gets a new ID. The caller sets done or then, if anybody
// waits, before startAttempt.
func (q *Engine) newAttempt(a *redlock.Acquire, only bool) (*attempt, error) {
	if least := LeastLeases * q.o.NodeTimeout; a.Lease < least {
		return nil, redlock.ReplyError(fmt.Sprintf("ERR a lease of %d ms is too short for RedLock, "+
			"where a node may take %d ms to answer: it must be at least %d ms",
			a.Lease.Milliseconds(), q.o.NodeTimeout.Milliseconds(), least.Milliseconds()))
	}
	if up, why := q.voters(); up < q.need {
		return nil, q.tooFew(a, up, why)
	}
	a.ID = q.names.NewID(a) // otherwise taking back the last attempt would take back this one too
	t := &attempt{
		q: q, by: *a, lock: q.names.Place(a.Name).Key, id: a.ID, candidate: q.fences.candidate(),
		began: time.Now(),
	}
	// Up to five nodes have room in the attempt itself.
	t.ballots = append(t.space[:0], make([]ballot, len(q.nodes))...)
	fence := t.candidate
	if only {
		fence = 0
	}
	t.call = scripts.ClaimCall(q.names, a, fence, q.o.MaxReaders)
	return t, nil
}

// startAttempt sends it to all nodes. Nodes may answer before it returns, and decide it: then the others are
// not asked any more.
func (a *attempt) startAttempt() {
	for i := range a.q.nodes {
		a.askVote(i)
	}
}

// awaitOutcome waits until it is decided. If ctx ends first, it gives the attempt up and returns the cause.
// done must have been set before the start. The outcome may be read without mu after nil.
func (a *attempt) awaitOutcome(ctx context.Context) error {
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
	}
	if !a.GiveUp() {
		<-a.done // within the time of a node
		return nil
	}
	return context.Cause(ctx)
}

// GiveUp ends the attempt as lost, unless it is decided already. It says whether it did. If not, the attempt
// is decided already, if perhaps nobody was told yet (loseAttempt).
func (a *attempt) GiveUp() bool {
	a.mu.Lock()
	if a.outcome != undecided {
		a.mu.Unlock()
		return false
	}
	follow := a.loseAttempt(true, nil) // others may have been refused because of this attempt
	a.mu.Unlock()
	follow()
	return true
}

// voters returns how many nodes vote, and why one of the others does not.
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

// tooFew is noQuorum for an a that is not asked for. What it was asked for before may be left.
func (q *Engine) tooFew(a *redlock.Acquire, up int, why string) error {
	err := q.noQuorum(up, why)
	if q.mayHold(a) {
		err = a.MayHold(err)
	}
	return err
}

// askVote sends it to node i, unless it is over already. An answer counts only if the node votes both now and
// when it answers: in between it may have lost its memory and come back.
func (a *attempt) askVote(i int) {
	voted := a.q.nodes[i].Vote()
	a.mu.Lock()
	over := a.outcome != undecided
	a.ballots[i].voted = voted
	a.mu.Unlock()
	if over {
		return
	}
	a.q.nodes[i].askFor(a.lock, a.call.Req, a)
	a.takeBack(i, func(b *ballot) bool {
		sent := b.kind == unasked
		if sent {
			b.kind = unheard
		}
		return sent && a.outcome == lost // meanwhile: nothing could be taken back before it was sent
	})
}

// takeBack has node i take back what it makes of the attempt, if that is to be: which gets its ballot, with
// mu held. It notes the cancel with mu held and sends it without, because a node may answer at once, on this
// goroutine.
func (a *attempt) takeBack(i int, which func(b *ballot) bool) {
	var back *pending
	a.mu.Lock()
	if which(&a.ballots[i]) {
		back = a.q.nodes[i].notePending(a.lock, &a.by, a.id, a.undoRequest(false))
	}
	a.mu.Unlock()
	if back != nil {
		a.q.nodes[i].sendPending(back)
	}
}

// Answer implements NodeAnswerer. It runs on a goroutine of the node, or within askNode of one that is away.
// Whoever asked has counted busy up.
func (a *attempt) Answer(i int, reply []byte, err error) {
	defer a.q.busy.Done()
	b, votes := a.readBallot(i, reply, err)
	a.mu.Lock()
	if lostScript(&a.call, reply, err) {
		if a.outcome == undecided {
			a.mu.Unlock()
			a.askVoteAgain(i, a.call.WithSource())
			return
		}
		b = ballot{kind: unmade} // it must not run after what undid it
	}
	a.broke = a.broke || b.broke
	if b.kind == someEnded {
		if a.outcome == undecided {
			a.mu.Unlock()
			a.askVoteAgain(i, a.call.Req)
			return
		}
		b.kind = unmade
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
	// While a proposal is open, its answers decide. A ballot that comes meanwhile is kept: the next round
	// asks that node too.
	case a.outcome == undecided && a.proposal == nil:
		follow = a.decideOutcome()
	// It comes too late to decide anything, but what it has may differ from what was granted.
	case a.outcome == won:
		follow = func() { a.align(i, b) }
	}
	a.mu.Unlock()
	if follow != nil {
		follow()
	}
}

// askVoteAgain sends it to node i once more. If it was decided without that answer, its client may have asked
// that node for something else already, such as to free the lock: what it makes there now is taken back.
func (a *attempt) askVoteAgain(i int, req []byte) {
	a.q.nodes[i].askNode(req, a)
	a.takeBack(i, func(b *ballot) bool { return a.outcome != undecided && b.kind <= unheard })
}

// Answers of claim.lua to BREAK.
const (
	newerHold = -2 // a hold is newer than the attempt
	moreHolds = -3 // some holds have ended, and some more are to
)

// readBallot turns the answer of node i into a ballot, and says whether the node votes.
func (a *attempt) readBallot(i int, reply []byte, err error) (b ballot, votes error) {
	// claim.lua replies the clock alone, for a new plain lock; otherwise five elements for a grant and four
	// for a refusal, of which the last is the clock.
	v, fault := a.q.nodes[i].word(reply, err)
	b = ballot{kind: unknown}
	switch {
	case fault == nil && v.Kind == ':':
		votes = a.q.nodes[i].heardClock(v.Int, a.began)
	case fault == nil && (len(v.Elems) == 4 || len(v.Elems) == 5):
		v.Elems, votes = a.q.nodes[i].clocked(v.Elems, a.began)
	default:
		votes = a.q.nodes[i].Vote()
	}
	switch {
	case fault != nil:
		b.said = fault.Error()
		if err != nil && (err == errPending || a.q.o.NotRun(err)) || redlock.Refused(fault) {
			b.kind = unmade
		}
	case v.Err() != "":
		b.kind, b.said = noLock, v.Err()
	case v.Kind == ':': // granted as it was asked for
		b.kind, b.fence, b.ttl, b.count, b.fresh = gave, a.candidate, a.by.Lease.Milliseconds(), 1, true
	case len(v.Elems) == 4:
		b.kind, b.fence, b.ttl = gave, v.Elems[0].Int, v.Elems[1].Int
		b.count, b.fresh, b.broke = v.Elems[2].Int, v.Elems[3].Int > 0, v.Elems[3].Int == 2
	case len(v.Elems) == 3 && v.Elems[0].Int <= newerHold:
		b.kind, b.newer, b.broke = denied, v.Elems[1].Int, v.Elems[2].Int == 1
		if v.Elems[0].Int == moreHolds {
			b.kind = someEnded
		}
	case len(v.Elems) == 3:
		b.kind, b.upgrade, b.pause, b.holder = denied, v.Elems[0].Int < 0, v.Elems[1].Int, v.Elems[2].Text()
	default:
		b.said = scripts.ErrReply.Error()
	}
	return b, votes
}
