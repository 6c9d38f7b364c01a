package pubsub

import (
	"bytes"
	"sync"

	"lockproxy/cluster/pubsub"
	"lockproxy/internal/loop"
)

const (
	// mailboxLimit is how many bytes of messages may wait for a loop before the upstream is no longer read.
	mailboxLimit = 4 << 20
	// mailRound and mailShare bound about how many bytes are given in a round of the loop to all clients and
	// to one of them, so that they are written before there is more.
	mailRound = 4 << 20
	mailShare = 128 << 10
)

// mailbox hands out, on a loop and in order, messages that come on other goroutines. It implements
// pubsub.Outlet. in is filled by the goroutines of nodes, out is emptied by the loop; the two change places,
// so that their memory is used again and the lock is held for moments only.
type mailbox struct {
	loop  *loop.Loop
	hand  handFunc
	empty func() // m.runMailbox, made once

	mu     sync.Mutex
	in     batch
	posted bool          // runMailbox will be called
	space  chan struct{} // closed when in is taken; nil: nobody waits

	out     batch // belongs to runMailbox, as do the next fields
	next    int   // the entry of out that follows portion
	portion portion
	begun   bool // some clients have been given portion
}

// portion is successive messages of one topic that are given out together: each client that gets them is
// written to once.
type portion struct {
	topic    *pubsub.Topic
	messages [][]byte
	size     int // bytes of these
}

// handFunc gives p, on the loop, to the clients that listen to its topic. If that is more than about most
// bytes or takes too long, it gives it to some of them and is called again. It returns how many bytes it
// gave.
type handFunc func(p *portion, most int, again bool) (given int, done bool)

// batch is a sequence of messages; long ones are kept by themselves.
type batch struct {
	bytes   []byte
	entries []entry
	long    int // bytes of the long ones
}

// entry is one message, which ends at byte end, or a function to be called after the entries before it.
type entry struct {
	topic *pubsub.Topic
	do    func() // nil: a message
	end   int
	long  []byte // the message, if it is larger than loop.Shared; nobody writes to it
}

// hand is called on l.
func newMailbox(l *loop.Loop, hand handFunc) *mailbox {
	m := &mailbox{loop: l, hand: hand}
	m.empty = m.runMailbox
	return m
}

// Deliver implements pubsub.Outlet. It runs on the goroutine of a node. message may be overwritten when it
// returns. If it says full, the node is read on when Space says so.
func (m *mailbox) Deliver(t *pubsub.Topic, message []byte) (full bool) {
	l := entry{topic: t}
	if len(message) > loop.Shared {
		l.long, message = bytes.Clone(message), nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.in.bytes = append(m.in.bytes, message...)
	m.in.long += len(l.long)
	return m.addEntry(l) && m.in.size() > mailboxLimit
}

func (m *batch) size() int { return len(m.bytes) + m.long }

// Post is the loop's Post, but f runs after the messages that came before.
func (m *mailbox) Post(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.addEntry(entry{do: f})
}

// addEntry adds an entry. false: the loop has ended. mu is held. The loop has one runMailbox posted at most.
func (m *mailbox) addEntry(l entry) bool {
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

// Space implements pubsub.Outlet. It is closed already if there is room.
func (m *mailbox) Space() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.in.size() <= mailboxLimit {
		space := make(chan struct{})
		close(space)
		return space
	}
	if m.space == nil {
		m.space = make(chan struct{})
	}
	return m.space
}

// runMailbox gives out what is there. It runs on the loop. A round ends when enough was given to all, or
// about enough for any one client; the rest goes on in the next, behind the writing of this one. given counts
// a byte more for each message: even empty ones are work.
func (m *mailbox) runMailbox() {
	p := &m.portion
	for given, taken := 0, 0; ; {
		if len(p.messages) == 0 {
			if m.next == len(m.out.entries) && !m.takeBatch() {
				return
			}
			if given >= mailRound || taken > mailShare {
				m.loop.Post(m.empty)
				return
			}
			if do := m.out.entries[m.next].do; do != nil {
				m.next++
				do()
				continue
			}
			m.nextPortion()
		}
		n, done := m.hand(p, mailRound-given, m.begun)
		// It was too much for this round. The same portion comes again, for the clients that have not had it.
		if m.begun = !done; m.begun {
			m.loop.Post(m.empty)
			return
		}
		taken += p.size
		given += n + len(p.messages)
		clear(p.messages)
		p.messages = p.messages[:0]
	}
}

// nextPortion takes the next message, and those of the same topic behind it, into the portion. It ends at
// another topic or a function, and when it has half of mailShare: then a client is written to often enough.
func (m *mailbox) nextPortion() {
	p, start := &m.portion, 0
	if m.next > 0 {
		start = m.out.entries[m.next-1].end
	}
	p.topic, p.size = m.out.entries[m.next].topic, 0
	for ; m.next < len(m.out.entries) && p.size < mailShare/2; m.next++ {
		l := &m.out.entries[m.next]
		if l.do != nil || l.topic != p.topic {
			break
		}
		message := l.long
		if message == nil {
			message = m.out.bytes[start:l.end]
		}
		p.messages, p.size, start = append(p.messages, message), p.size+len(message), l.end
	}
}

// takeBatch takes what has come. false: there was nothing, and runMailbox will not be called. It also wakes a
// node that waits for Space. Memory that only a burst needed is let go.
func (m *mailbox) takeBatch() bool {
	clear(m.out.entries) // lets go of what they point to
	m.out.bytes, m.out.entries, m.out.long, m.next = m.out.bytes[:0], m.out.entries[:0], 0, 0
	if cap(m.out.bytes) > mailboxLimit/4 {
		m.out = batch{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.space != nil {
		close(m.space)
		m.space = nil
	}
	if len(m.in.entries) == 0 {
		m.posted = false
		return false
	}
	m.in, m.out = m.out, m.in
	return true
}
