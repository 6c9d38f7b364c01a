package redlock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"lockproxy/internal/resp"
)

// The arguments of acquire.lua in a request: EVALSHA, sha, 2, two keys, and then they.
const (
	argLock  = 3
	argToken = 5
	argLease = 6
	argID    = 8
	argWait  = 11
	argMost  = 17 // the candidate

	argRelease = 7 // the id of a release
)

// settleRounds is how often a majority is asked to agree on a fence before an attempt has failed.
const settleRounds = 8

// attempt is one acquire.lua on all nodes, and what follows from it. What it left on nodes is taken back, in the
// background, unless it is granted. Nodes answer on goroutines of their own; whoever
// brings the answer that decides goes on with what follows.
type attempt struct {
	q         *Quorum
	req       []byte
	lock, seq []byte // the keys of the lock and of its slot's fence
	token     []byte
	id        []byte
	lease     time.Duration
	waits     bool
	candidate int64
	began     time.Time
	done      chan struct{}      // closed when reply is
	then      func(reply []byte) // is told the reply, or nil

	mu       sync.Mutex
	ballots  []ballot // by node
	outcome  outcome
	fence    int64 // granted
	count    int64
	proposal *proposal // what is being settled on, or nil
	reply    []byte
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

// newAttempt is an attempt that no node has been asked for yet; nil: it would be in vain, and that is the reply.
func (q *Quorum) newAttempt(args [][]byte, req []byte) (a *attempt, reply []byte, err error) {
	if len(args) <= argMost {
		return nil, nil, fmt.Errorf("redlock: acquire without a candidate: %w", errReply)
	}
	a = &attempt{
		q: q, lock: args[argLock], seq: args[argLock+1], token: args[argToken], id: args[argID],
		lease: ms(number(string(args[argLease]))), waits: len(args[argWait]) > 0, began: time.Now(),
		ballots: make([]ballot, len(q.nodes)), done: make(chan struct{}),
	}
	if a.lease < q.MinLease() {
		return nil, fmt.Appendf(nil, "-ERR a lease of %d ms is too short for RedLock, where a node may take %d ms to answer: it must be at least %d ms\r\n",
			a.lease.Milliseconds(), q.o.NodeTimeout.Milliseconds(), q.MinLease().Milliseconds()), nil
	}
	if up, why := q.voters(); up < q.need {
		return nil, []byte("-" + q.noQuorum(up, why) + "\r\n"), nil
	}
	a.candidate = q.fences.candidate()
	a.req = req
	if without, ok := bytes.CutSuffix(req, []byte("$0\r\n\r\n")); ok {
		a.req = appendNumber(slices.Clip(without), a.candidate)
	}
	return a, nil, nil
}

// await returns the reply once it is decided, or else gives the attempt up when ctx ends.
func (a *attempt) await(ctx context.Context) ([]byte, error) {
	select {
	case <-a.done:
		return a.reply, nil
	case <-ctx.Done():
	}
	if !a.giveUp() {
		return a.reply, nil
	}
	return nil, context.Cause(ctx)
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
func (q *Quorum) voters() (n int, why string) {
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
	a.q.askFor(a.lock, i, a.req, i, a)
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
	if again, lost := lostScript(a.req, reply, err); lost {
		if a.outcome == undecided {
			a.mu.Unlock()
			a.q.ask(i, again, i, a)
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
	if fault == nil && (len(v.Elems) == 4 || len(v.Elems) == 6) {
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
	case len(v.Elems) == 5:
		b.kind, b.fence, b.ttl, b.count, b.fresh = gave, v.Elems[1].Int, v.Elems[2].Int, v.Elems[3].Int, v.Elems[4].Int == 1
	case len(v.Elems) == 3:
		b.kind, b.upgrade, b.pause, b.holder = denied, v.Elems[0].Int < 0, v.Elems[1].Int, v.Elems[2].Text()
	default:
		b.said = errReply.Error()
	}
	return b, votes
}

// decide looks whether it is clear how the attempt ends, and returns what is to be done then, which asks nodes, without
// mu; nil: nothing. mu is held.
func (a *attempt) decide() (follow func()) {
	t := a.poll()
	if fence, count, ttl, ok := a.agreed(t); ok {
		return a.win(fence, count, ttl)
	}
	switch {
	case t.granted >= a.q.need && t.pending > 0 && t.counts:
		return nil // one of them has missed something, and the others know what
	case t.granted >= a.q.need:
		return a.settle()
	case t.granted+t.pending >= a.q.need:
		return nil
	case t.foreign != "":
		return a.lose(false, []byte("-"+t.foreign+"\r\n"))
	case t.refused+t.fresh >= a.q.need:
		return a.lose(false, a.refusal(t, ""))
	case t.granted+t.refused+t.pending < a.q.need:
		return a.lose(false, []byte("-"+a.q.noQuorum(t.granted+t.refused, t.why)+"\r\n"))
	case t.pending > 0:
		return nil
	}
	// Most have answered, and yet the token may hold the lock: some say so, or have not answered. That is not Null.
	doubt := a.q.noQuorum(t.granted, "this token may hold the lock, and others a part of it, and not all nodes have answered")
	if a.waits {
		return a.lose(false, a.refusal(t, doubt))
	}
	return a.lose(false, []byte("-"+doubt+"\r\n"))
}

// returns count the ballots so far, of nodes that vote.
type returns struct {
	granted, refused, pending int
	fresh                     int  // of those that granted
	counts                    bool // those that granted count differently
	foreign, why              string
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
		return a.lose(true, []byte("-"+a.q.noQuorum(0, "they answered when the lease was over")+"\r\n"))
	}
	a.outcome, a.fence, a.count = won, fence, count
	differs := false
	for i, b := range a.ballots {
		if b.kind == gave {
			a.q.fences.learn(i, a.began, a.candidate, b.fence, b.fence == fence)
			differs = differs || b.fence != fence || b.count != count
		}
	}
	reply := make([]byte, 0, len(a.token)+80)
	reply = fmt.Appendf(reply, "*4\r\n$%d\r\n%s\r\n:%d\r\n:%d\r\n:%d\r\n", len(a.token), a.token, fence, left.Milliseconds(), count)
	a.end(reply)
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

// end gives the reply to who waits for it. mu is held.
func (a *attempt) end(reply []byte) {
	a.reply = reply
	close(a.done)
	if a.then != nil {
		a.then(reply)
	}
}

// lose ends an attempt that is not granted. held: a majority may have taken it for one that was. What nodes have made of it, or
// are going to, is taken back: requests to a node run in order. The debts are noted before anybody is told, or the
// next request of the same token could come before what takes this one back. mu is held.
func (a *attempt) lose(held bool, reply []byte) (follow func()) {
	a.outcome = lost
	had := 0
	for i, b := range a.ballots {
		if b.kind == gave {
			had++
			a.q.fences.learn(i, a.began, a.candidate, b.fence, false)
		}
	}
	var undo []byte
	back := make([]*debt, len(a.ballots))
	for i, b := range a.ballots {
		if b.kind == gave || b.kind == unheard || b.kind == unknown {
			if undo == nil {
				undo = a.undo(held || had >= a.q.need)
			}
			back[i] = a.owe(i, undo)
		}
	}
	a.end(reply)
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
	if b.fence != a.fence || b.count != a.count {
		o := &order{q: a.q, req: a.settleRequest(a.fence, a.count, "1")}
		a.q.ask(i, o.req, i, o)
	}
}

func (a *attempt) settleRequest(fence, count int64, agreed string) []byte {
	return resp.AppendCommandStrings(nil, "EVALSHA", settleScript.SHA, "2", string(a.lock), string(a.seq),
		string(a.token), string(a.id), strconv.FormatInt(fence, 10), strconv.FormatInt(count, 10), agreed)
}

// undo is the request that takes back what the attempt makes. tell: who waits for the lock is told.
func (a *attempt) undo(tell bool) []byte {
	flag := "1"
	if tell {
		flag = "2"
	}
	return resp.AppendCommandStrings(nil, "EVALSHA", cancelScript.SHA, "2", string(a.lock), string(a.seq),
		string(a.token), string(a.id), "", "PUBLISH", flag)
}

// owe notes that node i has to run undo, for as long as there may be anything to take back.
func (a *attempt) owe(i int, undo []byte) *debt {
	return a.q.owe(i, string(a.lock), undo, time.Now().Add(a.lease+time.Second))
}

// order is a request whose answer nobody waits for.
type order struct {
	q    *Quorum
	req  []byte
	debt *debt // that it pays, or nil

	failed bool // guarded by the mu of the node's debts
}

// Answer implements Answerer.
func (o *order) Answer(i int, reply []byte, err error) {
	defer o.q.busy.Done()
	if o.q.heal(i, o.req, reply, err, o) || o.debt == nil {
		return
	}
	o.q.settled(i, o, err == nil && len(reply) > 0 && reply[0] != '-')
}

// refusal is what a client is told when others hold the lock; doubt: why that is not sure, or "". mu is held.
func (a *attempt) refusal(t returns, doubt string) []byte {
	if !a.waits {
		return []byte("$-1\r\n")
	}
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
	place, pause := 0, int64(0)
	if upgrades > 0 {
		place = -1
	}
	for holder, n := range holders {
		if holder != "" && n >= a.q.need {
			// The lease that ends first of those that have to.
			slices.Sort(pauses)
			pause = pauses[min(max(a.q.need-t.granted, 1), len(pauses))-1]
		}
	}
	if pause == 0 {
		// Nobody has a majority: attempts met. Not all may try again at the same time.
		window := min(max(8*time.Since(a.began), 4*time.Millisecond), 8*a.q.o.NodeTimeout)
		pause = 1 + rand.Int64N(window.Milliseconds())
	}
	return fmt.Appendf(nil, "*3\r\n:%d\r\n:%d\r\n$%d\r\n%s\r\n", place, pause, len(doubt), doubt)
}
