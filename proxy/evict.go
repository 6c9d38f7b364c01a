package proxy

import (
	"cmp"
	"slices"
	"sync"

	"lockproxy/proxy/client"
)

// This file acts when all clients together take more memory than maxmemory-clients: the one that takes most
// is closed, then the next, until it is enough.
//
//	memory.check --> each loop: its largest clients --> the largest of all --> closed on their loops
//	     ^                                                                         |
//	     +---------------------------- still too much -----------------------------+

const (
	// evictRank is how many clients a loop names at a time.
	evictRank = 256
	// evictLines is how many of them get a line of their own in the log.
	evictLines = 10
	// protectedShare is the part of maxmemory-clients that clients with CLIENT NO-EVICT ON may take together
	// before they are closed like others.
	protectedShare = 2
)

// candidate is a client that may be closed.
type candidate struct {
	s         *session
	bytes     int
	protected bool
}

// eviction is one round. Its methods run on any loop.
type eviction struct {
	server    *Server
	mu        sync.Mutex
	missing   int // loops that have not answered
	all       []candidate
	protected int // memory of all protected clients, in bytes
}

func newEviction(s *Server) *eviction { return &eviction{server: s} }

// each runs f on each loop, and then after the last.
func (e *eviction) each(f func(w *worker), then func()) {
	e.missing = len(e.server.workers)
	done := func() {
		e.mu.Lock()
		e.missing--
		last := e.missing == 0
		e.mu.Unlock()
		if last {
			then()
		}
	}
	for _, w := range e.server.workers {
		if !w.loop.Post(func() { f(w); done() }) {
			done() // the loop has ended
		}
	}
}

// begin asks the loops for their largest clients.
func (e *eviction) begin() { e.each(e.rank, e.choose) }

// rank names the largest clients of w.
func (e *eviction) rank(w *worker) {
	var open, shielded []candidate
	protected := 0
	for s := range w.sessions {
		s.CountMemory()
		c := candidate{s, int(s.memory), s.NoEvict}
		if c.protected {
			protected += c.bytes
			shielded = ranked(shielded, c)
		} else {
			open = ranked(open, c)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(append(e.all, open...), shielded...)
	e.protected += protected
}

// ranked returns all with c in its place, if c is among the largest.
func ranked(all []candidate, c candidate) []candidate {
	if n := len(all); n == evictRank && c.bytes <= all[n-1].bytes {
		return all
	}
	at, _ := slices.BinarySearchFunc(all, c, bySize)
	all = slices.Insert(all, at, c)
	return all[:min(len(all), evictRank)]
}

// bySize puts the largest first.
func bySize(a, b candidate) int { return cmp.Compare(b.bytes, a.bytes) }

// choose closes the largest clients, as many as bring the sum below the limit.
func (e *eviction) choose() {
	m := &e.server.memory
	slices.SortFunc(e.all, bySize)
	left, spared := m.over(), int64(e.protected) <= m.limit.Load()/protectedShare
	victims := make(map[*worker][]*session)
	for _, c := range e.all {
		if left <= 0 {
			break
		}
		if c.protected && spared {
			continue
		}
		victims[c.s.w] = append(victims[c.s.w], c.s)
		left -= int64(c.bytes)
	}
	found := len(victims) > 0
	e.each(func(w *worker) { w.evict(victims[w]) }, func() {
		m.evicting.Store(false)
		if m.over() > 0 && found {
			m.check(e.server)
			return
		}
		for _, w := range e.server.workers {
			w.loop.Post(w.readOn)
		}
	})
}

// evict closes clients of w.
func (w *worker) evict(victims []*session) {
	bytes, unnamed := 0, 0
	for i, s := range victims {
		if s.gone {
			continue
		}
		w.server.memory.evicted.Add(1)
		if i < evictLines {
			w.logEviction(s)
		} else {
			unnamed++
			bytes += int(s.memory)
		}
		s.conn.Close()
	}
	if unnamed > 0 {
		w.server.o.Log.Warn("more clients closed: maxmemory-clients", "clients", unnamed, "bytes", bytes)
	}
	w.memory.publish(w.server)
}

// readOn reads on from the clients that were held because too much memory was used.
func (w *worker) readOn() {
	for s := range w.sessions {
		s.ClearHold(client.HoldMemory)
	}
}

func (w *worker) logEviction(s *session) {
	u := s.memoryOf()
	w.server.o.Log.Warn(
		"client closed: maxmemory-clients",
		"client",
		s.Addr,
		"name",
		s.Name,
		"user",
		client.PartyOf(&s.Client).User,
		"bytes",
		u.sum(),
		"input",
		u.input,
		"output",
		u.output,
		"replies",
		u.replies,
		"transaction",
		u.transaction,
		"subscriptions",
		u.subscriptions,
		"commands",
		u.commands,
		"locks",
		u.locks,
	)
}
