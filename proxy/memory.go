package proxy

import (
	"sync/atomic"
	"unsafe"

	"lockproxy/internal/loop"
	"lockproxy/proxy/client"
)

// This file counts the memory that clients take, for maxmemory-clients. Each session knows the size it was
// last counted with, each loop the sum of its sessions, and each loop reports its sum to the server whenever
// it has changed by memoryGrain. So a command that leaves nothing behind costs one or two comparisons.

// footprint is the memory that one client was last counted with, in bytes.
type footprint int

// add counts n more bytes, when nothing else has changed.
func (f *footprint) add(w *worker, n int) {
	*f += footprint(n)
	w.memory.add(w.server, n)
}

// end stops counting the client, which has gone.
func (f *footprint) end(w *worker) { f.add(w, -int(*f)) }

const (
	// sessionSize is the least memory of a session.
	sessionSize = int(unsafe.Sizeof(session{}) + unsafe.Sizeof(loop.Conn{}))
	answerSize  = int(unsafe.Sizeof(answer{}))
	// memoryGrain is by how much the sum of a loop changes before it is reported to the server.
	memoryGrain = 64 << 10
)

// memoryUse is the memory of one client by kind, in bytes.
type memoryUse struct {
	fixed         int // of the session itself
	input         int // input that has not been consumed, including a command that CLIENT PAUSE holds back
	output        int // waits to be written
	replies       int // replies that came before their turn, or wait to be joined
	transaction   int // what MULTI has queued
	subscriptions int // channels and patterns
	commands      int // commands that block, wait for something, or are long
	locks         int // locks that are kept alive or waited for
}

func (u memoryUse) sum() int {
	return u.fixed + u.input + u.output + u.replies + u.transaction + u.subscriptions + u.commands + u.locks
}

// memoryOf is the memory that the session takes now. It visits nothing whose number can grow.
func (s *session) memoryOf() memoryUse {
	u := memoryUse{
		fixed:  sessionSize + len(s.Name) + len(s.LibName) + len(s.LibVersion) + s.Tracking.Size,
		input:  s.conn.InputMemory() + s.upload.stream.Memory(),
		output: s.out.buf.Cap(), replies: s.out.held, transaction: s.tx.Memory() + len(s.monitor.unseen),
		locks: s.Keepalives.Memory() + s.Waits.Memory(),
	}
	// short queues are shared by the clients of the loop
	if n := len(s.answers.buf); n > manyAnswers {
		u.replies += n * answerSize
	}
	u.subscriptions = s.subscriber.Memory()
	u.commands = s.kept + s.in.long.memory() + s.blocking.Memory()
	return u
}

// CountMemory counts the memory that the session takes now.
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

// KeepFor adds n bytes, which may be negative, to what command tag keeps in memory. What is left then is
// counted until it is answered.
func (s *session) KeepFor(tag uint32, n int) {
	if !s.gone {
		s.answers.at(tag).kept += n
		s.kept += n
		if !s.gone {
			s.memory.add(s.w, n)
		}
	}
}

// InputKept implements loop.InputCounter. While too much memory is used, clients that add to it are not read
// any further: thousands of senders are faster than the largest clients can be found and closed.
func (s *session) InputKept() {
	s.CountMemory()
	if s.conn.Kept() > 0 {
		s.out.holdNodes(nil)
	}
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

// publish reports the sum to the server.
func (m *loopMemory) publish(s *Server) {
	s.memory.used.Add(int64(m.used - m.told))
	m.told = m.used
}

// memory is what all clients may take and do take, on all loops. Safe for concurrent use.
type memory struct {
	limit    atomic.Int64 // bytes; 0: none
	used     atomic.Int64 // as far as the loops have reported
	evicting atomic.Bool  // an eviction is under way
	evicted  atomic.Uint64
}

// check begins an eviction if too much is used and none is under way.
func (m *memory) check(s *Server) {
	if m.over() > 0 && m.evicting.CompareAndSwap(false, true) {
		newEviction(s).begin()
	}
}

// over is by how many bytes the limit is exceeded.
func (m *memory) over() int64 {
	limit := m.limit.Load()
	if limit == 0 {
		return 0
	}
	return max(m.used.Load()-limit, 0)
}

// scriptShare says which part of the memory for clients the sources of scripts may take besides.
const scriptShare = 8
