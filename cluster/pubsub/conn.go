package pubsub

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

// feedConn is a connection to one node that is served by goroutines of its own. Requests and replies of
// clients go over connections on the loops.
//
//	queueRequest --> writeQueued --> node --> readFrames --> feedUser.takeFrame
//
// What is queued before beginConn is written once the connection is there. A feedConn connects once: for
// another connection, make another feedConn.
type feedConn struct {
	user  feedUser
	reads atomic.Uint64 // how often bytes have come
	wake  chan struct{} // something is in out

	mu  sync.Locker    // the user's; it guards what follows
	out []byte         // to be written
	as  *cluster.Login // how it has authenticated, or is about to

	conn net.Conn // since beginConn, like what follows
	by   cluster.NodeDialer
	ctx  context.Context
	fail context.CancelCauseFunc
	both sync.WaitGroup // the goroutines that read and write
}

// feedUser is what a feedConn serves. The goroutine that reads calls it, with no lock held.
type feedUser interface {
	// takeFrame takes one whole frame, which is valid during the call. An error ends the connection.
	takeFrame(frame []byte) error
	// pauseReading is called behind all frames of one read. Nothing is read until it returns; it returns when
	// ctx ends.
	pauseReading(ctx context.Context)
}

const (
	// nodeBuffer is what a feedConn reads into. It grows with frames that are larger.
	nodeBuffer = 64 << 10
	// nodeWrite is how long a write may take.
	nodeWrite = 2 * time.Second
	// mostFrame is how many bytes of a message are taken: more than Redis lets a subscriber have by default
	// (client-output-buffer-limit pubsub).
	mostFrame = 32<<20 + nodeBuffer
	// maxSpare is the largest write buffer that is kept for re-use.
	maxSpare = 1 << 20
)

// newFeedConn is one that is not connected. mu is what the user guards its state with, so that it queues
// requests under the same lock.
func newFeedConn(user feedUser, mu sync.Locker) *feedConn {
	return &feedConn{user: user, wake: make(chan struct{}, 1), mu: mu}
}

// beginConn dials the node at addr, to speak RESP version proto, and serves the connection until endConn,
// or until it fails; then c.ctx ends, and its cause says why. An error says that there is none, and nothing
// is served.
func (c *feedConn) beginConn(ctx context.Context, by cluster.NodeDialer, addr string, proto int) error {
	as := by.Login()
	conn, err := by.Dial(ctx, addr, cluster.Mode{Proto: proto}, nil)
	if err != nil {
		return err
	}
	c.conn, c.by, c.as = conn, by, as
	c.ctx, c.fail = context.WithCancelCause(ctx)
	context.AfterFunc(c.ctx, func() { conn.Close() })
	c.both.Go(func() { c.fail(c.readFrames()) })  // ends when conn is closed
	c.both.Go(func() { c.fail(c.writeQueued()) }) // ends when c.ctx does, or conn is closed
	return nil
}

// endConn closes the connection, waits for its goroutines, and returns why it ended: the earlier reason if
// there is one, otherwise err. It must not be called with mu held, nor by one of them.
func (c *feedConn) endConn(err error) error {
	c.fail(err)
	c.conn.Close()
	c.both.Wait()
	return context.Cause(c.ctx)
}

// queueRequest queues req for writing. mu is held. req is copied.
func (c *feedConn) queueRequest(req []byte) {
	c.out = append(c.out, req...)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// renewal is the command by which the connection takes over another Login than it has, nil if there is none.
// The caller sends it. It is for the goroutine that called beginConn.
func (c *feedConn) renewal() []byte {
	now := c.by.Login()
	req := cluster.Renewal(c.as, now)
	c.as = now
	return req
}

// writeQueued writes what is queued. mu is not held during the write. Two buffers take turns.
func (c *feedConn) writeQueued() error {
	var spare []byte
	for {
		select {
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		case <-c.wake:
		}
		runtime.Gosched() // whoever is about to queue something does so first: one write for all
		c.mu.Lock()
		out := c.out
		c.out = spare[:0]
		c.mu.Unlock()
		c.conn.SetWriteDeadline(time.Now().Add(nodeWrite))
		if _, err := c.conn.Write(out); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if spare = out; cap(spare) > maxSpare {
			spare = nil
		}
	}
}

// readFrames reads what the node sends, until that fails.
func (c *feedConn) readFrames() error {
	framer := resp.Bounds{Bytes: mostFrame, Values: 1024, Depth: 16}.Framer()
	buf := make([]byte, nodeBuffer)
	have, framed := 0, 0 // bytes in buf; how many of them framer has seen
	for {
		// twice as large, up to what a frame may have: resp.Bounds refuses longer ones
		if have == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
		n, err := c.conn.Read(buf[have:])
		// What came together with an error is still taken; the next read meets that again.
		if n == 0 && err != nil {
			return err
		}
		c.reads.Add(1)
		have += n
		begin := 0 // of the frame
		for begin+framed < have {
			n, done, err := framer.Next(buf[begin+framed : have])
			if err != nil {
				return fmt.Errorf("%w: %w", cluster.ErrFraming, err)
			}
			framed += n
			if !done {
				break
			}
			if err := c.user.takeFrame(buf[begin : begin+framed]); err != nil {
				return err
			}
			begin, framed = begin+framed, 0
		}
		have = copy(buf, buf[begin:have])
		// A large message has passed: its buffer is not kept.
		if len(buf) > 16*nodeBuffer && have < nodeBuffer {
			buf = append(make([]byte, 0, nodeBuffer), buf[:have]...)[:nodeBuffer]
		}
		c.user.pauseReading(c.ctx)
	}
}
