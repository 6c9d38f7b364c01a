package quorum

import (
	"math/rand/v2"
	"slices"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/wait"
)

// This file counts what the nodes said to an attempt, and decides.

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
		return a.lose(false, redlock.ReplyError(t.foreign))
	case t.refused+t.fresh >= a.q.need:
		return a.refuse(t, "")
	case t.granted+t.refused+t.pending < a.q.need:
		return a.lose(false, a.q.noQuorum(t.granted+t.refused, t.why))
	case t.pending > 0:
		return nil
	}
	// Most have answered, and yet the token may hold the lock: some say so, or have not answered. That is not
	// Null.
	doubt := a.q.noQuorum(t.granted,
		"this token may hold the lock, and others a part of it, and not all nodes have answered")
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

// missed says that some of those that granted know of a hold, or of a count, that others have missed. agreed:
// a majority has the same all the same.
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

// refuse ends an attempt because others hold the lock; doubt: why that is not sure, or "". mu is held.
func (a *attempt) refuse(t returns, doubt string) (follow func()) {
	if a.waits {
		a.refusal = wait.Refusal{Doubt: doubt}
		a.refusal.Up, a.refusal.Pause = a.prospect(t)
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
