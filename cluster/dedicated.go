package cluster

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"lockproxy/internal/resp"
)

// DedicatedOptions are the limits of dedicated connections. Zero values mean the
// defaults.
type DedicatedOptions struct {
	Limit   int           // connections to one node at a time; 32
	Idle    time.Duration // one that nobody needed for so long is closed; 30 s
	Silence time.Duration // a node that owes a reply for so long is given up; 2 s
	Budget  time.Duration // how long a request is sent again and again while nodes fail over; 10 s
	// Source is the script whose SHA1 is sha (40 hex digits), to heal nodes
	// that lost it. nil: NOSCRIPT is passed on.
	Source func(sha []byte) (source []byte, ok bool)
}

func (o DedicatedOptions) withDefaults() DedicatedOptions {
	if o.Limit <= 0 {
		o.Limit = 32
	}
	if o.Idle <= 0 {
		o.Idle = 30 * time.Second
	}
	if o.Silence <= 0 {
		o.Silence = 2 * time.Second
	}
	if o.Budget <= 0 {
		o.Budget = 10 * time.Second
	}
	return o
}

// Dedicated are connections that nobody else uses meanwhile, for what a shared pipe
// cannot carry: commands that block, and commands that belong together. They are lent
// out, a bounded number to each node:
//
//	Borrow --> *Conn: Write, Reply ... --> GiveBack, or Discard
//
// Safe for concurrent use. It has no goroutines of its own.
type Dedicated struct {
	control Control
	o       DedicatedOptions
	stats   *Stats
	ctx     context.Context // ends with Close
	end     context.CancelFunc

	mu      sync.Mutex
	nodes   map[string]*berth
	open    map[*Conn]bool
	tidying *time.Timer // nil: nothing is idle
}

// berth is what there is of connections to one node. Its fields but places are
// guarded by Dedicated.mu.
type berth struct {
	places chan struct{} // one element for each connection that is lent out
	users  int           // who has a connection or waits for one
	idle   []*Conn       // the latest used last
}

// Conn is one connection that is lent out. It speaks RESP2. Not safe for concurrent
// use.
type Conn struct {
	net.Conn
	// Reused says that somebody used it before: the node may have closed it since then.
	Reused bool

	d     *Dedicated
	addr  string
	buf   []byte // what was read and not used
	since time.Time
}

// NewDedicated returns connections to the nodes that control knows how to dial.
// stats may be shared.
func NewDedicated(control Control, o DedicatedOptions, stats *Stats) *Dedicated {
	d := &Dedicated{
		control: control, o: o.withDefaults(), stats: stats,
		nodes: make(map[string]*berth), open: make(map[*Conn]bool),
	}
	d.ctx, d.end = context.WithCancel(context.Background())
	return d
}

// Close closes all connections, also those that are lent out. Later calls of Borrow
// fail.
func (d *Dedicated) Close() {
	d.end()
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.open {
		d.drop(c)
	}
	for _, b := range d.nodes {
		b.idle = nil
	}
	if d.tidying != nil {
		d.tidying.Stop()
	}
}

// Borrow returns a connection to the node at addr that nobody else uses until GiveBack
// or Discard, one of which must be called. It blocks while all are lent out (first come,
// first served) and while it is dialled, until ctx ends.
func (d *Dedicated) Borrow(ctx context.Context, addr string) (*Conn, error) {
	b := d.enter(addr)
	select {
	case b.places <- struct{}{}:
	default:
		select {
		case b.places <- struct{}{}:
		case <-d.ctx.Done():
			d.leave(addr, b)
			return nil, nodeError{addr, net.ErrClosed}
		case <-ctx.Done():
			d.leave(addr, b)
			return nil, nodeError{addr, fmt.Errorf("all %d connections that are not shared are in use: %w", d.o.Limit, context.Cause(ctx))}
		}
	}
	c, err := d.connection(ctx, addr, b)
	if err != nil {
		<-b.places
		d.leave(addr, b)
		return nil, err
	}
	return c, nil
}

func (d *Dedicated) enter(addr string) *berth {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.nodes[addr]
	if b == nil {
		b = &berth{places: make(chan struct{}, d.o.Limit)}
		d.nodes[addr] = b
	}
	b.users++
	return b
}

// leave is the counterpart of enter. A node that nobody uses is forgotten.
func (d *Dedicated) leave(addr string, b *berth) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b.users--
	d.forget(addr, b)
}

// forget drops b if there is nothing of it. mu is held.
func (d *Dedicated) forget(addr string, b *berth) {
	if b.users == 0 && len(b.idle) == 0 {
		delete(d.nodes, addr)
	}
}

// connection is an idle one of b, or a new one.
func (d *Dedicated) connection(ctx context.Context, addr string, b *berth) (*Conn, error) {
	d.mu.Lock()
	if n := len(b.idle) - 1; n >= 0 {
		c := b.idle[n]
		b.idle = b.idle[:n]
		d.mu.Unlock()
		c.Reused = true
		return c, nil
	}
	d.mu.Unlock()
	stats := d.stats.node(addr)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	nc, err := d.control.Dial(ctx, addr, Mode{Proto: 2}, nil)
	if err != nil {
		stats.dialErrors.Add(1)
		return nil, err
	}
	stats.connects.Add(1)
	c := &Conn{Conn: nc, d: d, addr: addr}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		nc.Close()
		return nil, nodeError{addr, net.ErrClosed}
	}
	d.open[c] = true
	stats.up.Add(1)
	return c, nil
}

// GiveBack ends the use of c, which must be as it was: no reply is to come, and
// nothing of its state was changed.
func (c *Conn) GiveBack() {
	d := c.d
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.nodes[c.addr]
	switch {
	case !d.open[c]: // Close has been
	case len(c.buf) > 0:
		d.drop(c) // the node said more than it was asked for
	default:
		c.since, c.buf = time.Now(), nil
		b.idle = append(b.idle, c)
		if d.tidying == nil {
			d.tidying = time.AfterFunc(d.o.Idle, d.tidy)
		}
	}
	d.done(c, b)
}

// Discard ends the use of c, which is closed: it is broken, or its state is not
// known.
func (c *Conn) Discard() {
	d := c.d
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.nodes[c.addr]
	d.drop(c)
	d.done(c, b)
}

// lost is Discard of a connection that broke. Those that idle have probably broken with
// it.
func (c *Conn) lost() {
	d := c.d
	d.mu.Lock()
	b := d.nodes[c.addr]
	for _, other := range b.idle {
		d.drop(other)
	}
	b.idle = nil
	d.mu.Unlock()
	c.Discard()
}

// done gives the place of c free. mu is held.
func (d *Dedicated) done(c *Conn, b *berth) {
	<-b.places
	b.users--
	d.forget(c.addr, b)
}

// drop closes c. mu is held.
func (d *Dedicated) drop(c *Conn) {
	if d.open[c] {
		delete(d.open, c)
		c.Conn.Close()
		d.stats.node(c.addr).up.Add(-1)
	}
}

// tidy closes what has idled for too long.
func (d *Dedicated) tidy() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tidying = nil
	if d.ctx.Err() != nil {
		return
	}
	now := time.Now()
	next := time.Duration(0)
	for addr, b := range d.nodes {
		n := 0
		for n < len(b.idle) && now.Sub(b.idle[n].since) >= d.o.Idle {
			d.drop(b.idle[n])
			n++
		}
		b.idle = append([]*Conn(nil), b.idle[n:]...)
		if len(b.idle) > 0 {
			if left := d.o.Idle - now.Sub(b.idle[0].since); next == 0 || left < next {
				next = left
			}
		}
		d.forget(addr, b)
	}
	if next > 0 {
		d.tidying = time.AfterFunc(next, d.tidy)
	}
}

// Reply reads the next whole reply. It blocks until it is there, the connection is
// closed, or a deadline of the connection has passed. Whoever gets an error must Discard c.
func (c *Conn) Reply() ([]byte, error) {
	var framer resp.Framer
	for seen := 0; ; {
		n, done, err := framer.Next(c.buf[seen:])
		if err != nil {
			return nil, nodeError{c.addr, err}
		}
		if seen += n; done {
			reply := c.buf[:seen:seen]
			c.buf = c.buf[seen:]
			d := c.d.stats.node(c.addr)
			d.requests.Add(1)
			if reply[0] == '-' {
				d.errors.Add(1)
			}
			return reply, nil
		}
		if len(c.buf) == cap(c.buf) {
			c.buf = append(make([]byte, 0, max(512, 2*len(c.buf))), c.buf...)
		}
		n, err = c.Read(c.buf[len(c.buf):cap(c.buf)])
		if c.buf = c.buf[:len(c.buf)+n]; n == 0 && err != nil {
			return nil, nodeError{c.addr, err}
		}
	}
}
