package quorum

import (
	"math/rand/v2"

	"lockproxy/redlock/scripts"
)

// proposal is one round in which the nodes that granted are asked to agree on the highest fence and count
// that any of them has. A majority has to accept.
type proposal struct {
	a            *attempt
	round        int
	fence, count int64
	// What a majority of those that granted has left at least, in ms, counted from attempt.began.
	ttl  int64 // ms
	call *scripts.Call

	// Guarded by attempt.mu.
	accepted, pending int
	least             int64  // the highest fence that a node refused it for, 0 for none
	why               string // why a node failed
}

// settleFence asks the nodes that granted to agree. mu is held. Answers that come later do not change what is
// proposed, but the next round goes to those nodes too.
func (a *attempt) settleFence() (follow func()) {
	p := &proposal{a: a, why: "they did not agree on a fence"}
	var space [8]int64
	ttls := space[:0]
	for _, b := range a.ballots {
		if b.grants() {
			ttls = append(ttls, b.ttl)
			p.fence, p.count = max(p.fence, b.fence), max(p.count, b.count)
		}
	}
	p.ttl = highest(ttls, a.q.need)
	return p.putRound()
}

// putRound sends it to the nodes that have granted so far. mu is held. Those that do not vote are asked too:
// they are to have what the others agree on.
func (p *proposal) putRound() (follow func()) {
	a := p.a
	a.proposal = p
	p.accepted, p.pending, p.least = 0, 0, 0
	var asked []int
	for i, b := range a.ballots {
		if b.kind == gave {
			asked = append(asked, i)
		}
	}
	p.pending = len(asked)
	p.call = a.settleRequest(p.fence, p.count, false)
	return func() {
		for _, i := range asked {
			a.q.nodes[i].askNode(p.call.Req, p)
		}
	}
}

// Answer implements NodeAnswerer.
func (p *proposal) Answer(i int, reply []byte, err error) {
	a := p.a
	defer a.q.busy.Done()
	if a.q.nodes[i].heal(p.call, reply, err, p) {
		return
	}
	v, fault := a.q.nodes[i].word(reply, err)
	votes := a.q.nodes[i].Vote() == nil
	a.mu.Lock()
	var follow func()
	if a.outcome == undecided && a.proposal == p {
		p.pending--
		switch {
		case fault != nil:
			p.why = fault.Error()
		// it does not count
		case !a.ballots[i].grants() || !votes || v.Kind != ':':
		case v.Int == 1:
			p.accepted++
		case v.Int > a.q.fences.mostBeside(p.fence):
			p.why = a.q.nodes[i].Addr() + ": " + noFence(v.Int)
			a.q.nodes[i].Distrust(noFence(v.Int))
		case v.Int > 1: // 0 says that the hold has gone there
			p.least = max(p.least, v.Int)
		}
		follow = p.decideRound()
	}
	a.mu.Unlock()
	if follow != nil {
		follow()
	}
}

// decideRound checks whether the round is over. attempt.mu is held.
func (p *proposal) decideRound() (follow func()) {
	a := p.a
	switch {
	case p.accepted >= a.q.need:
		return a.winLock(p.fence, p.count, p.ttl)
	case p.pending > 0:
		return nil
	// If no node wants a higher fence, the next round would end like this one.
	case p.least == 0 || p.round+1 == settleRounds:
		a.unsettled = true
		return a.loseAttempt(true, a.q.noQuorum(p.accepted, p.why))
	}
	next := &proposal{a: a, round: p.round + 1, count: p.count, ttl: p.ttl, why: p.why}
	// random, so as not to collide again with others who settle
	next.fence = max(p.fence, p.least) + 1 + rand.Int64N(1<<p.round)
	return next.putRound()
}
