package proxy

import (
	"sync/atomic"
	"unsafe"

	"lockproxy/internal/loop"
	"lockproxy/proxy/client"
)

// This file is how the memory that clients take is counted, for maxmemory-clients: each session knows what it
// has been counted with, each loop has the sum of its sessions, and the loops tell the server of theirs
// whenever it has changed by memoryGrain. So a command that leaves nothing behind costs a comparison or two.

// footprint is the memory of one client that it has been counted with, in bytes.
type footprint int

// add counts n bytes more, which is all that has changed.
func (f *footprint) add(w *worker, n int) {
	*f += footprint(n)
	w.memory.add(w.server, n)
}

// end counts the client no more; it has gone.
func (f *footprint) end(w *worker) { f.add(w, -int(*f)) }

const (
	// sessionSize is what a session takes up whatever it does.
	sessionSize = int(unsafe.Sizeof(session{}) + unsafe.Sizeof(loop.Conn{}))
	answerSize  = int(unsafe.Sizeof(answer{}))
	// memoryGrain is by how much the sum of a loop changes before the server hears of it.
	memoryGrain = 64 << 10
)

// memoryUse is the memory of one client by kind, in bytes.
type memoryUse struct {
	fixed         int // of the session itself
	input         int // came and has not been consumed, a command that CLIENT PAUSE holds back too
	output        int // waits to be written
	replies       int // came before their turn, or wait to be put together
	transaction   int // what MULTI has queued
	subscriptions int // channels and patterns
	commands      int // that block, or wait for something, or are long
	locks         int // that are kept alive
}

func (u memoryUse) sum() int {
	return u.fixed + u.input + u.output + u.replies + u.transaction + u.subscriptions + u.commands + u.locks
}

// memoryOf is what the session takes up now. It looks at nothing that grows.
func (s *session) memoryOf() memoryUse {
	u := memoryUse{
		fixed:  sessionSize + len(s.Name) + len(s.LibName) + len(s.LibVersion) + s.Tracking.Size,
		input:  s.conn.InputMemory(),
		output: s.out.buf.Cap(), replies: s.out.held, transaction: s.tx.Memory() + len(s.monitor.unseen),
		locks: s.Keepalives.Memory(),
	}
	if n := len(s.answers.buf); n > firstAnswers { // the first ones go round among the clients of the loop
		u.replies += n * answerSize
	}
	u.subscriptions = s.subscriber.Memory()
	u.commands = s.kept + s.in.long.memory() + s.blocking.Memory()
	return u
}

// CountMemory counts what the session takes up now.
func (s *session) CountMemory() {
	if s.gone {
		return
	}
	u := s.memoryOf()
	if n := footprint(u.sum()); n != s.memory {
		s.w.memory.add(s.w.server, int(n-s.memory))
		s.memory = n
	}
}

// KeepFor counts n bytes more, or less, that long command tag has in memory. What is left is counted until it
// is answered.
func (s *session) KeepFor(tag uint32, n int) {
	if !s.gone {
		s.answers.at(tag).kept += n
		s.kept += n
		if !s.gone {
			s.memory.add(s.w, n)
		}
	}
}

// InputKept implements loop.InputCounter. While too much is used nothing more is read from who adds to it,
// for thousands who send are faster than those who take most can be found and closed.
func (s *session) InputKept() {
	s.CountMemory()
	if s.w.server.memory.over() > 0 && s.conn.InputMemory() > 0 && !s.gone {
		s.SetHold(client.HoldMemory)
	}
}

// loopMemory is the memory of all clients of one loop.
type loopMemory struct{ used, told int }

func (m *loopMemory) add(s *Server, n int) {
	m.used += n
	if d := m.used - m.told; d > memoryGrain || d < -memoryGrain {
		m.publish(s)
		s.memory.check(s)
	}
}

// publish has the server know the sum.
func (m *loopMemory) publish(s *Server) {
	s.memory.used.Add(int64(m.used - m.told))
	m.told = m.used
}

// memory is what clients may take, and do, on all loops. Safe for concurrent use.
type memory struct {
	limit    atomic.Int64 // bytes; 0: none
	used     atomic.Int64 // as far as the loops have told
	evicting atomic.Bool  // an eviction is under way
	evicted  atomic.Uint64
}

// check begins an eviction if too much is used and none is under way.
func (m *memory) check(s *Server) {
	if m.over() > 0 && m.evicting.CompareAndSwap(false, true) {
		newEviction(s).begin()
	}
}

// over is how many bytes too many are used.
func (m *memory) over() int64 {
	limit := m.limit.Load()
	if limit == 0 {
		return 0
	}
	return max(m.used.Load()-limit, 0)
}

// scriptShare is the part of the memory for clients that sources of scripts may take besides.
const scriptShare = 8
