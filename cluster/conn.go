package cluster

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/internal/resp"
)

// Conn is a connection to one node that is served by goroutines of its own: for subscriptions, and for
// the masters of RedLock. Requests and replies of clients go over pipes on the loops.
//
//	queue --> write --> node --> read --> ConnUser.frame
//
// It speaks RESP2. What is queued before begin is written when the connection is there. It is never connected
// twice: who needs another one makes it.
type Conn struct {
	user ConnUser
	born time.Time
	last atomic.Int64  // when bytes came last, in ns since born
	wake chan struct{} // something is in out

	mu      sync.Locker // the user's; it guards what follows
	out     []byte      // to be written
	queued  int64       // bytes ever given to out
	written int64       // bytes ever taken from it

	conn net.Conn // since begin, like what follows
	ctx  context.Context
	fail context.CancelCauseFunc
	both sync.WaitGroup
}

// ConnUser is what a Conn serves.
type ConnUser interface {
	// Frame takes one whole frame, which is valid during the call. An error ends the connection.
	Frame(frame []byte) error
	// Pause is called behind all frames of one read. Nothing is read until it returns; it returns when ctx
	// ends.
	Pause(ctx context.Context)
}

// NodeDialer makes connections to nodes: a Dialer is one.
type NodeDialer interface {
	Dial(ctx context.Context, addr string, m Mode, before *Identity) (net.Conn, error)
}

const (
	// nodeBuffer is what a Conn reads into. It grows with frames that are larger.
	nodeBuffer = 64 << 10
	// nodeWrite is how long a write may take.
	nodeWrite = 2 * time.Second
	// maxSpare is how large a buffer is kept for what is written next.
	maxSpare = 1 << 20
)

func NewConn(user ConnUser, mu sync.Locker) *Conn {
	return &Conn{user: user, born: time.Now(), wake: make(chan struct{}, 1), mu: mu}
}

// Begin dials the node at addr and serves the connection until end, or until it fails, which ends c.ctx.
func (c *Conn) Begin(ctx context.Context, by NodeDialer, addr string) error {
	conn, err := by.Dial(ctx, addr, Mode{Proto: 2}, nil)
	if err != nil {
		return err
	}
	c.conn = conn
	c.Heard()
	c.ctx, c.fail = context.WithCancelCause(ctx)
	context.AfterFunc(c.ctx, func() { conn.Close() })
	c.both.Go(func() { c.fail(c.read()) })  // ends when conn is closed
	c.both.Go(func() { c.fail(c.write()) }) // ends when c.ctx does, or conn is closed
	return nil
}

// End closes the connection, waits for its goroutines, and returns why it ended: for err, if for nothing
// before.
func (c *Conn) End(err error) error {
	c.fail(err)
	c.conn.Close()
	c.both.Wait()
	return context.Cause(c.ctx)
}

// Queue has req written behind what is queued, and returns where it ends in all that was. mu is held.
func (c *Conn) Queue(req []byte) (end int64) {
	c.out = append(c.out, req...)
	c.queued += int64(len(req))
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return c.queued
}

// Pending is how many bytes wait to be written. mu is held.
func (c *Conn) Pending() int { return len(c.out) }

// Sent is how many bytes of all that was queued are written, or about to be. mu is held.
func (c *Conn) Sent() int64 { return c.written }

// Unqueue forgets what waits to be written. mu is held.
func (c *Conn) Unqueue() { c.out = nil }

// Context ends with the connection; its cause says why.
func (c *Conn) Context() context.Context { return c.ctx }

// Heard notes that the node gives signs of life.
func (c *Conn) Heard() { c.last.Store(int64(time.Since(c.born))) }

// Silence is for how long nothing has come.
func (c *Conn) Silence() time.Duration { return time.Since(c.born) - time.Duration(c.last.Load()) }

// write writes what is queued.
func (c *Conn) write() error {
	var spare []byte
	for {
		select {
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		case <-c.wake:
		}
		runtime.Gosched() // who is about to queue something does so first: one write for all
		c.mu.Lock()
		out := c.out
		c.out = spare[:0]
		c.written += int64(len(out)) // from now on nobody knows what of it arrives
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

// read takes what the node says until that fails.
func (c *Conn) read() error {
	var framer resp.Framer
	buf := make([]byte, nodeBuffer)
	have, framed := 0, 0 // bytes in buf; how many of them framer has seen
	for {
		if have == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
		n, err := c.conn.Read(buf[have:])
		if n == 0 && err != nil {
			return err
		}
		c.Heard()
		have += n
		begin := 0 // of the frame
		for begin+framed < have {
			n, done, err := framer.Next(buf[begin+framed : have])
			if err != nil {
				return fmt.Errorf("%w: %w", ErrFraming, err)
			}
			framed += n
			if !done {
				break
			}
			if err := c.user.Frame(buf[begin : begin+framed]); err != nil {
				return err
			}
			begin, framed = begin+framed, 0
		}
		have = copy(buf, buf[begin:have])
		if len(buf) > 16*nodeBuffer && have < nodeBuffer {
			buf = append(make([]byte, 0, nodeBuffer), buf[:have]...)[:nodeBuffer]
		}
		c.user.Pause(c.ctx)
	}
}
