package memory

import (
	"cmp"
	"slices"
	"sync"

	"lockproxy/internal/loop"
)

// This file acts when all clients together take more memory than maxmemory-clients: the one that takes most
// is closed, then the next, until it is enough.
//
//	Account.checkLimit --> each loop: its largest clients --> the largest of all --> closed on their loops
//	     ^                                                                         |
//	     +---------------------------- still too much -----------------------------+

const (
	// ranked is how many clients a loop names at a time.
	ranked = 256
	// evictLines is how many of them get a line of their own in the log.
	evictLines = 10
	// protectedShare is the part of maxmemory-clients that clients with CLIENT NO-EVICT ON may take together
	// before they are closed like others.
	protectedShare = 2
)

// candidate is a client that may be closed.
type candidate struct {
	Client
	on        *Loop
	bytes     int
	protected bool
}

// eviction is one round. Its methods run on any loop.
type eviction struct {
	all       *Account
	mu        sync.Mutex
	found     []candidate
	protected int // memory of all protected clients, in bytes
}

// checkLimit begins an eviction if too much is used and none is under way.
func (a *Account) checkLimit() {
	if a.Over() > 0 && a.evicting.CompareAndSwap(false, true) {
		e := &eviction{all: a}
		loop.Each(a.loops, e.rankClients, e.chooseVictims)
	}
}

// rankClients names the largest clients of l. It visits all clients of the loop in one round, which is dear:
// so it is done only while too much is used.
func (e *eviction) rankClients(l *Loop) {
	var open, shielded []candidate
	protected := 0
	for c := range l.clients {
		one := candidate{Client: c, on: l}
		if one.bytes, one.protected = c.Measure(); one.protected {
			protected += one.bytes
			shielded = addRanked(shielded, one)
		} else {
			open = addRanked(open, one)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.found = append(append(e.found, open...), shielded...)
	e.protected += protected
}

// addRanked returns all with c in its place, if c is among the largest.
func addRanked(all []candidate, c candidate) []candidate {
	if n := len(all); n == ranked && c.bytes <= all[n-1].bytes {
		return all
	}
	at, _ := slices.BinarySearchFunc(all, c, bySize)
	all = slices.Insert(all, at, c)
	return all[:min(len(all), ranked)]
}

// bySize puts the largest first.
func bySize(a, b candidate) int { return cmp.Compare(b.bytes, a.bytes) }

// chooseVictims closes the largest clients, as many as bring the sum below the limit.
func (e *eviction) chooseVictims() {
	a := e.all
	slices.SortFunc(e.found, bySize)
	left, spared := a.Over(), int64(e.protected) <= a.Limit()/protectedShare
	victims := make(map[*Loop][]candidate)
	for _, c := range e.found {
		if left <= 0 {
			break
		}
		if c.protected && spared {
			continue
		}
		victims[c.on] = append(victims[c.on], c)
		left -= int64(c.bytes)
	}
	loop.Each(a.loops, func(l *Loop) { l.evictClients(victims[l]) }, func() {
		a.evicting.Store(false)
		if a.Over() > 0 { // a loop may have told of more only now
			a.checkLimit()
			return
		}
		for _, l := range a.loops {
			l.Post(l.readOn)
		}
	})
}

// evictClients closes clients of l.
func (l *Loop) evictClients(victims []candidate) {
	bytes, unnamed := 0, 0
	for i, c := range victims {
		named := i < evictLines
		if !c.Evict(named) {
			continue
		}
		if l.all.Evicted.Add(1); !named {
			unnamed++
			bytes += c.bytes
		}
	}
	if unnamed > 0 {
		l.all.Log.Warn("more clients closed: maxmemory-clients", "clients", unnamed, "bytes", bytes)
	}
	l.tellSum()
}

// readOn reads on from the clients that were held because too much memory was used.
func (l *Loop) readOn() {
	for c := range l.clients {
		c.ReadOn()
	}
}
