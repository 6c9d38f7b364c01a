package proxy

import (
	"bytes"
	"sync"

	"lockproxy/cluster"
	"lockproxy/internal/loop"
)

const (
	// mailboxLimit is how many bytes of messages may wait for a loop before the upstream is
	// read from no more.
	mailboxLimit = 4 << 20
	// mailRound and mailShare are about how many bytes are handed to all clients and to one of them in
	// a round of the loop, so that they are written before there are more.
	mailRound = 4 << 20
	mailShare = 128 << 10
)

// mailbox has messages that come on other goroutines handed out on a loop, in their order. It
// implements cluster.Outlet.
type mailbox struct {
	loop  *loop.Loop
	hand  func(t *cluster.Topic, message []byte) int // on the loop; says how many bytes it gave to clients
	empty func()                                     // m.run, made once

	mu     sync.Mutex
	in     batch
	posted bool          // run is going to be called
	room   chan struct{} // closed when in is taken; nil: nobody waits for that

	out  batch // of run, as are the next ones
	next int   // the entry of out that comes next
}

// batch are messages, one behind the other; long ones lie by themselves.
type batch struct {
	bytes   []byte
	entries []entry
	long    int // bytes of the long ones
}

// entry is one message, which ends at byte end, or something to be done behind those before it.
type entry struct {
	topic *cluster.Topic
	do    func() // nil: a message
	end   int
	long  []byte // the message, if it is larger than loop.Shared; nobody writes to it
}

func newMailbox(l *loop.Loop, hand func(t *cluster.Topic, message []byte) int) *mailbox {
	m := &mailbox{loop: l, hand: hand}
	m.empty = m.run
	return m
}

// Deliver implements cluster.Outlet.
func (m *mailbox) Deliver(t *cluster.Topic, message []byte) (full bool) {
	l := entry{topic: t}
	if len(message) > loop.Shared {
		l.long, message = bytes.Clone(message), nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.in.bytes = append(m.in.bytes, message...)
	m.in.long += len(l.long)
	return m.add(l) && m.in.size() > mailboxLimit
}

func (m *batch) size() int { return len(m.bytes) + m.long }

// Post is that of the loop, but f runs behind the messages that have come before.
func (m *mailbox) Post(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.add(entry{do: f})
}

// add adds an entry whose bytes are there; false: the loop has ended. mu is held.
func (m *mailbox) add(l entry) bool {
	l.end = len(m.in.bytes)
	m.in.entries = append(m.in.entries, l)
	if !m.posted {
		m.posted = m.loop.Post(m.empty)
	}
	if !m.posted {
		m.in = batch{}
	}
	return m.posted
}

// Room implements cluster.Outlet.
func (m *mailbox) Room() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.in.size() <= mailboxLimit {
		room := make(chan struct{})
		close(room)
		return room
	}
	if m.room == nil {
		m.room = make(chan struct{})
	}
	return m.room
}

// run hands out what is there. It runs on the loop.
func (m *mailbox) run() {
	given, taken := 0, 0
	for {
		if m.next == len(m.out.entries) && !m.take() {
			return
		}
		start := 0
		if m.next > 0 {
			start = m.out.entries[m.next-1].end
		}
		for ; m.next < len(m.out.entries); m.next++ {
			if given > mailRound || taken > mailShare {
				m.loop.Post(m.empty)
				return
			}
			l := m.out.entries[m.next]
			if l.do != nil {
				l.do()
				continue
			}
			message := l.long
			if message == nil {
				message = m.out.bytes[start:l.end]
			}
			taken += len(message)
			given += m.hand(l.topic, message) + 1
			start = l.end
		}
	}
}

// take takes what has come; false: nothing, and run is not going to be called.
func (m *mailbox) take() bool {
	clear(m.out.entries) // of what they point to
	m.out.bytes, m.out.entries, m.out.long, m.next = m.out.bytes[:0], m.out.entries[:0], 0, 0
	if cap(m.out.bytes) > mailboxLimit/4 {
		m.out = batch{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.room != nil {
		close(m.room)
		m.room = nil
	}
	if len(m.in.entries) == 0 {
		m.posted = false
		return false
	}
	m.in, m.out = m.out, m.in
	return true
}
