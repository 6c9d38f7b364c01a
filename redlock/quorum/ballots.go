package quorum

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/wait"
)

// This file counts the nodes' ballots on an attempt and decides.

// ballot is the answer of one node to an attempt.
type ballot struct {
	kind ballotAnswer
	// The node voted when it was asked, and when it answered. Otherwise the ballot only says what may be left
	// there.
	votes bool
	voted error // why the node did not vote when it was asked
	// Of a grant: what this node has. Others may have made another fence, or missed a re-entry.
	fence, count int64
	ttl          int64 // of a grant: ms that are left
	fresh        bool  // the token had no such hold before
	pause        int64 // of a refusal: ms until it may be worth another try
	// Of a refusal: the id of the request that made the holder the writer, r for readers, or "". Nodes that
	// name the same one agree on who has the lock.
	holder string
	newer  int64 // of a refusal of BREAK: a fence that the next candidate has to be close to
	broke  bool  // holds of others have ended
	// Of a refusal: the token is a reader that is to become the writer.
	upgrade bool
	odd     bool   // of a grant: this cannot be its fence
	said    string // why there is no answer
}

// grants says that it is a vote for the token.
func (b *ballot) grants() bool { return b.kind == gave && b.votes && !b.odd }

// ballotAnswer is the kind of a ballot. Those up to unheard are no answers.
type ballotAnswer uint8

const (
	unasked ballotAnswer = iota
	unheard              // no answer yet
	gave
	denied
	noLock  // the key holds something that is no lock
	unmade  // it did not run
	unknown // it may have run
	// someEnded: some holds of others have ended, and it is asked again for the rest
	someEnded
)

// decideOutcome checks whether the outcome is clear. It returns what is then left to do, to be called without
// mu because it asks nodes, or nil. mu is held.
func (a *attempt) decideOutcome() (follow func()) {
	t := a.countBallots()
	fence, count, ttl, ok := a.agreed(t)
	switch {
	case t.granted >= a.q.need && t.pending > 0 && (t.missed(ok) || ttl < a.promised()):
		return nil // one of these nodes missed something, and the remaining ones know what
	case ok:
		return a.winLock(fence, count, ttl)
	case t.granted >= a.q.need:
		return a.settleFence()
	// the nodes that have not answered may still make it a majority
	case t.granted+t.pending >= a.q.need:
		return nil
	case t.foreign != "":
		return a.loseAttempt(false, redlock.ReplyError(t.foreign))
	// Those that refused gave nothing, and those that made a new hold had none of the token before: so no
	// majority has what was asked for, and Null is true.
	case t.refused+t.fresh >= a.q.need:
		return a.refuseAttempt(t, nil)
	case t.granted+t.refused+t.pending < a.q.need:
		return a.loseAttempt(false, a.q.noQuorum(t.granted+t.refused, t.why))
	case t.pending > 0:
		return nil
	}
	// Most nodes have answered, but the token may hold the lock: some nodes say so, or have not answered.
	// That must not be reported as Null.
	doubt := a.by.MayHold(a.q.noQuorum(t.granted,
		"others have a part of it, and not all nodes have answered"))
	if a.by.Wait > 0 {
		return a.refuseAttempt(t, doubt)
	}
	return a.loseAttempt(false, doubt)
}

// returns counts the ballots so far, of nodes that vote.
type returns struct {
	granted, refused, pending int
	fresh                     int  // of those that granted
	counts                    bool // the counts of those that granted differ
	// LOCKTYPE, as one node says it; and why the ballot of another does not count.
	foreign, why string
}

// missed says that some nodes that granted know of a hold, or of a count, that others missed. agreed: a
// majority agrees nevertheless.
func (t returns) missed(agreed bool) bool {
	return !agreed && (t.counts || t.fresh > 0 && t.fresh < t.granted)
}

// promised is how much lease, in ms, the token has been told before, as far as is known: a little less, since
// the masters did not answer at the same moment. Below 0: it holds nothing yet, or hardly anything.
func (a *attempt) promised() (most int64) {
	for _, b := range a.ballots {
		if b.grants() && !b.fresh {
			most = max(most, b.ttl)
		}
	}
	return most - (a.q.o.NodeTimeout + drift(ms(most))).Milliseconds()
}

// doubtFences notes which of the votes so far cannot have their fences. They are judged anew with each
// ballot, for what a majority has may be higher then. mu is held.
func (a *attempt) doubtFences() {
	var space [8]int64
	all := space[:0]
	for _, b := range a.ballots {
		if b.kind == gave && b.votes {
			all = append(all, b.fence)
		}
	}
	most := a.q.fences.mostBeside(highest(all, a.q.need))
	for i := range a.ballots {
		if b := &a.ballots[i]; b.kind == gave && b.votes {
			if b.odd = b.fence > most || b.fence < leastFence; b.odd {
				b.said = a.q.nodes[i].Addr() + ": " + noFence(b.fence)
			}
		}
	}
}

// noFence is why a node is not believed.
func noFence(fence int64) string {
	return fmt.Sprintf("it gave a lock the fence %d, which is none, or far ahead of the others", fence)
}

// distrust keeps nodes from voting that have given fences which cannot be: which are none at all, or none
// beside those of a majority. mu is held.
func (a *attempt) distrust() {
	granted := 0
	for i := range a.ballots {
		if a.ballots[i].grants() {
			granted++
		}
	}
	for i, b := range a.ballots {
		if b.odd && (granted >= a.q.need || b.fence > mostFence || b.fence < leastFence) {
			a.q.nodes[i].Distrust(noFence(b.fence))
		}
	}
}

// countBallots counts the ballots of now. mu is held.
func (a *attempt) countBallots() (t returns) {
	a.doubtFences()
	count := int64(0)
	for _, b := range a.ballots {
		switch {
		case b.kind <= unheard:
			t.pending++
		case b.grants():
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

// agreed returns the fence and count that a majority has, if one has the same. ttl is what a majority has at
// least, in ms.
func (a *attempt) agreed(t returns) (fence, count, ttl int64, ok bool) {
	if t.granted < a.q.need {
		return 0, 0, 0, false
	}
	for _, b := range a.ballots {
		if !b.grants() {
			continue
		}
		var space [8]int64
		ttls := space[:0]
		for _, c := range a.ballots {
			if c.grants() && b.fence == c.fence && b.count == c.count {
				ttls = append(ttls, c.ttl)
			}
		}
		if len(ttls) >= a.q.need {
			return b.fence, b.count, highest(ttls, a.q.need), true
		}
	}
	return 0, 0, 0, false
}

// refuseAttempt ends the attempt because others hold the lock. doubt is why that is not certain, or nil. mu
// is held.
func (a *attempt) refuseAttempt(t returns, doubt error) (follow func()) {
	if a.by.Wait > 0 {
		a.refusal = wait.Refused{Doubt: doubt}
		a.refusal.Up, a.refusal.Pause = a.prospect(t)
	}
	return a.loseAttempt(false, nil)
}

// prospect says when a refused attempt may be repeated. up: it waits for other readers to leave. mu is held.
// Without a majority for one holder the pause is random.
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
			// A majority is free when this many leases have ended.
			slices.Sort(pauses)
			pause = ms(pauses[min(max(a.q.need-t.granted, 1), len(pauses))-1])
		}
	}
	if pause == 0 {
		// No one has a majority: attempts have collided. Random pauses keep them from colliding again.
		// It is wide if attempts take long, since those that overlap collide.
		window := min(max(8*time.Since(a.began), 4*time.Millisecond), 8*a.q.o.NodeTimeout)
		pause = ms(1 + rand.Int64N(window.Milliseconds()))
	}
	return upgrades > 0, pause
}
