// Package loop runs connections on event loops. It knows nothing of Redis.
//
// A Loop is one goroutine that owns its connections. It sleeps in its poller
// until sockets are ready or somebody has posted to its inbox, and then runs one round:
//
//	poller --> Conn.readable --> Handler.Read        for each socket with input
//	inbox  --> posted functions
//	dirty  --> Handler.Output --> one write          for each socket with output
//
// Everything a Handler does happens on that goroutine, so handlers of one loop
// share state without locks. Nothing that runs on a loop may block; what must
// wait runs on a goroutine of its own and posts its result.
package loop

import (
	"net"
	"sync"
	"time"
)

// Shared is how many bytes of input may lie in memory that a loop uses again. Longer input is never
// overwritten: a handler may keep the part that it consumes.
const Shared = scratchSize

// scratchSize is the read buffer that all connections of a loop share.
const scratchSize = 64 << 10

// Loop is one event loop. Post, After and Close may be called from any
// goroutine, everything else only on the loop.
type Loop struct {
	poller  poller
	scratch []byte
	dirty   []*Conn // to be written at the end of the round
	// when the round began: asking the clock for each command would cost more than many a command
	now   time.Time
	watch func() // see Watch
	// all that are open, for the end of Run
	conns  map[*Conn]struct{}
	spares [len(sizes)][][]byte // empty buffers, by size
	// unfinished have more output than one round has time for
	unfinished []*Conn

	// mu guards what is below it. It is held for a few instructions only, since other loops post here.
	mu     sync.Mutex
	inbox  []func()
	awake  bool // the loop is going to look at the inbox by itself
	closed bool
	// the array of the inbox before, empty: the two change places each round
	spare []func()
	done  chan struct{}
}

// New returns a loop on the best poller of the operating system: epoll on
// Linux, else the portable one.
func New() (*Loop, error) {
	p, err := newPoller()
	if err != nil {
		return nil, err
	}
	return newLoop(p), nil
}

// NewPortable returns a loop that serves any net.Conn with two goroutines a
// connection: slower, and the same in all else. It also runs in fake time.
func NewPortable() *Loop { return newLoop(newPortable()) }

func newLoop(p poller) *Loop {
	return &Loop{
		poller:  p,
		scratch: make([]byte, scratchSize),
		conns:   make(map[*Conn]struct{}),
		done:    make(chan struct{}),
		now:     time.Now(),
	}
}

// Run serves until Close; it is called once, on the goroutine that is the loop.
// When it returns every connection is closed and its Handler told so.
func (l *Loop) Run() {
	defer close(l.done)
	for l.runRound() {
	}
	// The last round has had an empty inbox and nothing dirty, so every reply that could be written is
	// written.
	for c := range l.conns {
		c.shutConn(net.ErrClosed)
	}
	l.poller.closePoller()
}

// runRound waits for events once and serves them; false means the loop was closed. The order matters: what
// handlers and posted functions make is written in the same round, with one system call for each connection.
func (l *Loop) runRound() bool {
	l.poller.waitForEvents(l)
	l.runInbox()
	l.flushDirty()
	if l.watch != nil {
		l.watch()
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	// Decided under mu: whoever posts after this finds awake false, and rings the bell.
	l.awake = len(l.inbox) > 0 || len(l.dirty) > 0
	if l.awake {
		// rings for itself: the next wait returns at once, after it has looked at the sockets
		l.poller.wakeLoop()
	}
	return !l.closed || l.awake
}

// beginRound is called by the poller when it has something to serve: from now on the loop needs no bell to
// look at its inbox.
func (l *Loop) beginRound() {
	l.now = time.Now()
	l.mu.Lock()
	l.awake = true
	l.mu.Unlock()
}

// Now is the time at which the current round began.
func (l *Loop) Now() time.Time { return l.now }

// Post has f run on the loop, after everything posted before it. It never
// blocks. It reports false, and f is dropped, when the loop is closed.
func (l *Loop) Post(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.inbox = append(l.inbox, f)
	if !l.awake {
		l.awake = true
		l.poller.wakeLoop()
	}
	return true
}

// Watch has f called at the end of each round, on the loop, to measure how long rounds take. It is called
// before Run.
func (l *Loop) Watch(f func()) { l.watch = f }

// After posts f in d. The returned timer's Stop withdraws it unless it has been
// posted already.
func (l *Loop) After(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() { l.Post(f) })
}

// Close ends Run, after what has been posted before, and waits for it. It must
// not be called on the loop. Closing again waits only.
func (l *Loop) Close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		l.poller.wakeLoop()
	}
	l.mu.Unlock()
	<-l.done
}

// Done is closed when Run has returned.
func (l *Loop) Done() <-chan struct{} { return l.done }

// runInbox runs what has been posted until now. What is posted meanwhile is for the next round, so that
// sockets get their turn in between.
func (l *Loop) runInbox() {
	l.mu.Lock()
	fs := l.inbox
	l.inbox = l.spare[:0]
	l.mu.Unlock()
	for i, f := range fs {
		f()
		// the array is used again, and would keep what f holds
		fs[i] = nil
	}
	l.spare = fs
}

// After each flushLook connections flush looks whether it has taken longer than flushTime: then it leaves the
// others to the next round, so that what comes in meanwhile is not left lying.
const (
	flushLook = 32
	flushTime = 3 * time.Millisecond
)

// flushDirty writes once to each connection with output, or to as many as one round has time for. Handlers
// may make more connections dirty meanwhile.
func (l *Loop) flushDirty() {
	var began time.Time
	n := 0
	// len(l.dirty) may grow meanwhile
	for n < len(l.dirty) {
		c := l.dirty[n]
		c.dirty = false
		c.writeInRound()
		l.dirty[n] = nil
		if n++; n%flushLook != 0 {
			continue
		}
		// The first look sets the beginning, so a round with few connections asks the clock never.
		if now := time.Now(); n == flushLook {
			began = now
		} else if now.Sub(began) > flushTime {
			break
		}
	}
	// Those that have had no turn come first in the next round, in front of those that have more to write.
	left := copy(l.dirty, l.dirty[n:])
	clear(l.dirty[left : left+n])
	l.dirty = append(l.dirty[:left], l.unfinished...)
	clear(l.unfinished)
	l.unfinished = l.unfinished[:0]
}

// Unwritten is how many connections have output that is to be written. After a round it is not 0 only if
// there was more than the round had time for.
func (l *Loop) Unwritten() int { return len(l.dirty) }
