package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"lockproxy/redlock/scripts"
)

// settleRounds is how often a majority is asked to agree on a fence before an attempt has failed.
const settleRounds = 8

// attempt is one claim.lua on all nodes, and what follows from it. What it left on nodes is taken back, in
// the background, unless it is granted. Nodes answer on goroutines of their own; whoever brings the answer
// that decides goes on with what follows.
type attempt struct {
	q         *quorum
	name      string
	lock      string // its key
	token     string
	id        string // of this attempt alone
	lease     time.Duration
	waits     bool // its client does
	candidate int64
	call      call
	began     time.Time
	done      chan struct{} // closed when it is decided
	then      func()        // is called then, or nil; must not block

	mu       sync.Mutex
	ballots  []ballot // by node
	outcome  outcome
	proposal *proposal // what is being settled on, or nil

	// What it has come to, from done on.
	grant   Grant
	refusal refusal
	err     error
}

// refusal is that others hold the lock.
type refusal struct {
	up    bool          // it is a reader who wants to write, and waits for other readers
	pause time.Duration // until it may get the lock
	doubt string        // why it may have the lock all the same, or ""
}

// ballot is what one node said.
type ballot struct {
	kind         answer
	votes        bool
	voted        error // why it did not vote when it was asked
	fence, count int64
	ttl          int64 // of a grant, ms
	fresh        bool  // the token did not hold it so before
	pause        int64 // of a refusal, ms
	holder       string
	upgrade      bool
	said         string // why there is no answer
}

type answer uint8

const (
	unasked answer = iota
	unheard        // not yet
	gave
	denied
	noLock  // the key holds something else
	unmade  // it has not run
	unknown // nobody knows what it did
)

type outcome uint8

const (
	undecided outcome = iota
	won
	lost
)

// newAttempt is an attempt that no node has been asked for yet; an error: it would be in vain. only: nothing
// may be granted but to the token of a hold.
func (q *quorum) newAttempt(a *Acquire, only bool) (*attempt, error) {
	if a.Lease < q.minLease() {
		return nil, ReplyError(fmt.Sprintf("ERR a lease of %d ms is too short for RedLock, where a node may take %d ms to answer: "+
			"it must be at least %d ms", a.Lease.Milliseconds(), q.o.NodeTimeout.Milliseconds(), q.minLease().Milliseconds()))
	}
	if up, why := q.voters(); up < q.need {
		return nil, q.noQuorum(up, why)
	}
	a.ID = q.names.newID(a) // else what takes the attempt before this one back would take this one too
	t := &attempt{
		q: q, name: a.Name, lock: q.names.place(a.Name).key, token: a.Token, id: a.ID, lease: a.Lease, waits: a.Wait > 0,
		candidate: q.fences.candidate(), began: time.Now(), ballots: make([]ballot, len(q.nodes)), done: make(chan struct{}),
	}
	_, c := q.names.eval(&scripts.Claim, a.Name, 9)
	c.asked(a)
	if only {
		c.empty()
	} else {
		c.number(t.candidate)
	}
	c.number(int64(q.maxReaders))
	c.text(a.Keeper)
	c.text(a.Meta)
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
	if !a.giveUp() {
		return nil
	}
	return context.Cause(ctx)
}

// giveUp makes the attempt a lost one, unless it is decided already.
func (a *attempt) giveUp() bool {
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
func (q *quorum) voters() (n int, why string) {
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
	a.q.askFor(a.lock, i, a.call.req, a)
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
			a.q.ask(i, a.call.withSource(), a)
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
	case a.outcome == won && b.kind == gave:
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
		b.kind, b.fence, b.ttl, b.count, b.fresh = gave, v.Elems[0].Int, v.Elems[1].Int, v.Elems[2].Int, v.Elems[3].Int == 1
	case len(v.Elems) == 3:
		b.kind, b.upgrade, b.pause, b.holder = denied, v.Elems[0].Int < 0, v.Elems[1].Int, v.Elems[2].Text()
	default:
		b.said = errReply.Error()
	}
	return b, votes
}

// decide looks whether it is clear how the attempt ends, and returns what is to be done then, which asks
// nodes, without mu; nil: nothing. mu is held.
func (a *attempt) decide() (follow func()) {
	t := a.poll()
	fence, count, ttl, ok := a.agreed(t)
	switch {
	case t.granted >= a.q.need && t.pending > 0 && (t.missed(ok) || ttl < a.promised()):
		return nil // one of them has missed something, and the others know what
	case ok:
		return a.win(fence, count, ttl)
	case t.granted >= a.q.need:
		return a.settle()
	case t.granted+t.pending >= a.q.need:
		return nil
	case t.foreign != "":
		return a.lose(false, ReplyError(t.foreign))
	case t.refused+t.fresh >= a.q.need:
		return a.refuse(t, "")
	case t.granted+t.refused+t.pending < a.q.need:
		return a.lose(false, a.q.noQuorum(t.granted+t.refused, t.why))
	case t.pending > 0:
		return nil
	}
	// Most have answered, and yet the token may hold the lock: some say so, or have not answered. That is not
	// Null.
	doubt := a.q.noQuorum(t.granted, "this token may hold the lock, and others a part of it, and not all nodes have answered")
	if a.waits {
		return a.refuse(t, doubt.Error())
	}
	return a.lose(false, doubt)
}

// returns count the ballots so far, of nodes that vote.
type returns struct {
	granted, refused, pending int
	fresh                     int  // of those that granted
	counts                    bool // those that granted count differently
	foreign, why              string
}

// missed says that some of those that granted know of a hold, or of a count, that others have missed. agreed: a
// majority has the same all the same.
func (t returns) missed(agreed bool) bool {
	return !agreed && (t.counts || t.fresh > 0 && t.fresh < t.granted)
}

// promised is how much of its lease, in ms, the token was told before, by all that is known so far: a little
// less, since the masters did not answer at the same moment. 0: it holds nothing yet.
func (a *attempt) promised() (most int64) {
	for _, b := range a.ballots {
		if b.kind == gave && b.votes && !b.fresh {
			most = max(most, b.ttl)
		}
	}
	return most - (a.q.o.NodeTimeout + drift(ms(most))).Milliseconds()
}

func (a *attempt) poll() (t returns) {
	count := int64(0)
	for _, b := range a.ballots {
		switch {
		case b.kind <= unheard:
			t.pending++
		case b.kind == gave && b.votes:
			t.granted++
			if b.fresh {
				t.fresh++
			}
			t.counts = t.counts || count > 0 && count != b.count
			count = b.count
		case b.kind == denied && b.votes:
			t.refused++
		case b.kind == noLock:
			t.foreign = b.said
		default:
			t.why = b.said
		}
	}
	return t
}

// agreed says that a majority has the same fence and count for it.
func (a *attempt) agreed(t returns) (fence, count, ttl int64, ok bool) {
	if t.granted < a.q.need {
		return 0, 0, 0, false
	}
	for _, b := range a.ballots {
		if b.kind != gave || !b.votes {
			continue
		}
		var space [8]int64
		ttls := space[:0]
		for _, c := range a.ballots {
			if c.kind == gave && c.votes && b.fence == c.fence && b.count == c.count {
				ttls = append(ttls, c.ttl)
			}
		}
		if len(ttls) >= a.q.need {
			return b.fence, b.count, highest(ttls, a.q.need), true
		}
	}
	return 0, 0, 0, false
}

// win is a grant, if there is any time left. mu is held.
func (a *attempt) win(fence, count, ttl int64) (follow func()) {
	left := ms(ttl) - time.Since(a.began) - drift(ms(ttl))
	if left < time.Millisecond {
		return a.lose(true, a.q.noQuorum(0, "they answered when the lease was over"))
	}
	a.outcome = won
	a.grant = Grant{Token: a.token, Fence: fence, TTL: left.Truncate(time.Millisecond), Count: count, At: a.began}
	differs := false
	for i, b := range a.ballots {
		if b.kind == gave {
			a.q.fences.learn(i, a.began, a.candidate, b.fence, b.fence == fence)
			differs = differs || b.fence != fence || b.count != count
		}
	}
	a.end()
	if !differs {
		return nil
	}
	ballots := slices.Clone(a.ballots)
	return func() {
		for i, b := range ballots {
			if b.kind == gave {
				a.align(i, b)
			}
		}
	}
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
	var undo *call
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

// align gives node i, which granted, what a majority has agreed on, or a minority goes on to differ.
func (a *attempt) align(i int, b ballot) {
	if b.fence != a.grant.Fence || b.count != a.grant.Count {
		o := &mandate{q: a.q, call: a.settleRequest(a.grant.Fence, a.grant.Count, true)}
		a.q.ask(i, o.call.req, o)
	}
}

// settleRequest has the hold be what most have agreed on; agreed: it must not be refused.
func (a *attempt) settleRequest(fence, count int64, agreed bool) *call {
	args := 4
	if agreed {
		args = 5
	}
	_, c := a.q.names.eval(&scripts.Settle, a.name, args)
	c.owner(a.token)
	c.text(a.id)
	c.number(fence)
	c.number(count)
	if agreed {
		c.text("agreed")
	}
	return &c
}

// undo is the request that takes back what the attempt makes. tell: who waits for the lock is told.
func (a *attempt) undo(tell bool) *call {
	return a.q.cancelRequest(a.name, a.token, a.id, tell)
}

func (q *quorum) cancelRequest(name, token, id string, tell bool) *call {
	_, c := q.names.eval(&scripts.Cancel, name, 5)
	c.owner(token)
	c.text(id)
	next := offerNext // which is nobody, without a queue
	if tell {
		next = tellAll
	}
	c.freed("", "PUBLISH", next)
	return &c
}

// undo implements engine. Each node owes it by itself: what else it is asked for the lock comes behind it.
func (q *quorum) undo(a *Acquire) {
	c := q.cancelRequest(a.Name, a.Token, a.ID, true)
	q.takeBack(q.names.place(a.Name).key, a.ID, c, time.Now().Add(a.Lease+time.Second))
}

// undoOnce implements engine: it is left to the debts of the nodes.
func (q *quorum) undoOnce(a *Acquire) error {
	q.undo(a)
	return nil
}

// owe notes that node i has to run undo, for as long as there may be anything to take back.
func (a *attempt) owe(i int, undo *call) *debt {
	return a.q.owe(i, debt{lock: a.lock, id: a.id, call: undo, until: time.Now().Add(a.lease + time.Second)})
}

// mandate is a request whose answer nobody waits for.
type mandate struct {
	q    *quorum
	call *call
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

// refuse ends an attempt because others hold the lock; doubt: why that is not sure, or "". mu is held.
func (a *attempt) refuse(t returns, doubt string) (follow func()) {
	if a.waits {
		a.refusal = refusal{doubt: doubt}
		a.refusal.up, a.refusal.pause = a.prospect(t)
	}
	return a.lose(false, nil)
}

// prospect is when one that was refused may get the lock; up: when other readers have gone. mu is held.
func (a *attempt) prospect(t returns) (up bool, pause time.Duration) {
	upgrades := 0
	var pauses []int64
	holders := make(map[string]int)
	for _, b := range a.ballots {
		if b.kind != denied || !b.votes {
			continue
		}
		if b.upgrade {
			upgrades++
		}
		pauses = append(pauses, b.pause)
		holders[b.holder]++
	}
	for holder, n := range holders {
		if holder != "" && n >= a.q.need {
			// The lease that ends first of those that have to.
			slices.Sort(pauses)
			pause = ms(pauses[min(max(a.q.need-t.granted, 1), len(pauses))-1])
		}
	}
	if pause == 0 {
		// Nobody has a majority: attempts met. Not all may try again at the same time.
		window := min(max(8*time.Since(a.began), 4*time.Millisecond), 8*a.q.o.NodeTimeout)
		pause = ms(1 + rand.Int64N(window.Milliseconds()))
	}
	return upgrades > 0, pause
}
