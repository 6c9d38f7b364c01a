package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// source appends the next batch of a connection to dst: whole commands, always
// the same number of them.
type source func(dst []byte) []byte

// load is this program's own load, for what redis-benchmark cannot send (pairs
// of commands) or not time (it counts latency in steps of 8 µs). One thread
// serves all connections, as in redis-benchmark. Each sends a batch, reads all
// its replies and goes on.
type load struct {
	conns    []*conn
	pipeline int  // commands in a batch
	even     bool // each connection sends as many batches as every other one
}

// conn is one connection of a load.
type conn struct {
	fd    int
	next  source
	good  func(reply []byte) bool // nil: whatever is no error and not null
	out   []byte                  // batch that is being sent
	sent  int                     // how much of it
	in    []byte                  // came and is no whole reply yet
	owed  int                     // replies still to come
	began time.Time               // when the batch was begun
	begun int                     // batches of this run

	writing bool // the poller waits until more of it can be sent
}

// dial adds a connection to the load.
func (l *load) dial(addr string, next source, good func(reply []byte) bool) error {
	fd, err := connect(addr)
	if fd >= 0 {
		l.conns = append(l.conns, &conn{fd: fd, next: next, good: good})
	}
	if err != nil {
		return err
	}
	return unix.SetNonblock(fd, true)
}

// connect makes a connection whose reads and writes block. fd is -1 if there is none to close.
func connect(addr string) (fd int, err error) {
	a, err := netip.ParseAddrPort(addr)
	if err != nil {
		return -1, err
	}
	if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); err != nil {
		return -1, err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}); err != nil {
		return fd, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return fd, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
}

// close closes all connections.
func (l *load) close() {
	for _, c := range l.conns {
		unix.Close(c.fd)
	}
}

// run sends that many batches over all connections together and waits for
// their replies.
func (l *load) run(ctx context.Context, batches int) (sample, error) {
	const silence = 30 // seconds after which somebody is taken for dead
	p, err := newPoller()
	if err != nil {
		return sample{}, err
	}
	defer p.close()
	for i, c := range l.conns {
		if err := p.add(c.fd, i); err != nil {
			return sample{}, err
		}
	}
	took := make([]time.Duration, 0, batches)
	buf := make([]byte, 64<<10)
	begun := time.Now()
	issued := 0
	begin := func(i int) error {
		c := l.conns[i]
		if issued == batches || l.even && c.begun == batches/len(l.conns) {
			return c.watch(p, i)
		}
		issued++
		c.begun++
		c.begin(l.pipeline)
		return c.watch(p, i)
	}
	for i, c := range l.conns {
		c.begun = 0
		if err := begin(i); err != nil {
			return sample{}, err
		}
	}
	for idle := 0; len(took) < batches; {
		ready, err := p.wait(1000)
		if err != nil {
			return sample{}, err
		}
		if err := ctx.Err(); err != nil {
			return sample{}, err
		}
		if idle++; len(ready) > 0 {
			idle = 0
		} else if idle >= silence {
			return sample{}, fmt.Errorf("no reply for %d seconds", silence)
		}
		for _, i := range ready {
			c := l.conns[i]
			done, err := c.step(buf)
			if err == nil && done {
				took = append(took, time.Since(c.began))
				err = begin(i)
			} else if err == nil {
				err = c.watch(p, i)
			}
			if err != nil {
				return sample{}, err
			}
		}
	}
	elapsed := time.Since(begun)
	return timesOf(took, float64(batches*l.pipeline)/elapsed.Seconds()), nil
}

// timesOf is a sample of how long each batch took.
func timesOf(took []time.Duration, rate float64) sample {
	slices.Sort(took)
	return sample{rate: rate, p50: took[len(took)/2], p99: took[len(took)*99/100],
		p999: took[len(took)*999/1000]}
}

// watch has the poller wait until the rest of a batch can be written.
func (c *conn) watch(p *poller, number int) error {
	if rest := c.sent < len(c.out); rest != c.writing {
		c.writing = rest
		return p.change(c.fd, number, rest)
	}
	return nil
}

// begin makes and sends the next batch, as far as the socket takes it. What
// the write says of a broken connection the next read says too.
func (c *conn) begin(pipeline int) {
	c.out, c.sent, c.owed, c.began = c.next(c.out[:0]), 0, pipeline, time.Now()
	n, _ := unix.Write(c.fd, c.out)
	c.sent = max(n, 0)
}

// step sends and reads what there is. It returns true when the last reply of
// the batch has come.
func (c *conn) step(buf []byte) (done bool, err error) {
	if c.sent < len(c.out) {
		n, err := unix.Write(c.fd, c.out[c.sent:])
		if err != nil && err != unix.EAGAIN {
			return false, fmt.Errorf("write: %w", err)
		}
		c.sent += max(n, 0)
	}
	n, err := unix.Read(c.fd, buf)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read: %w", err)
	case n == 0:
		return false, errors.New("the server closed the connection")
	}
	rest := buf[:n]
	if len(c.in) > 0 {
		c.in = append(c.in, rest...)
		rest = c.in
	}
	for c.owed > 0 {
		size := replySize(rest)
		if size == 0 {
			break
		}
		if !c.accepts(rest[:size]) {
			return false, fmt.Errorf("unexpected reply %q", rest[:size])
		}
		rest = rest[size:]
		if c.owed--; c.owed == 0 && len(rest) > 0 {
			return false, fmt.Errorf("%q after the last reply", rest)
		}
	}
	c.in = append(c.in[:0], rest...)
	return c.owed == 0, nil
}

func (c *conn) accepts(reply []byte) bool {
	if c.good != nil {
		return c.good(reply)
	}
	return reply[0] != '-' && !null(reply)
}

// null says whether a reply is a null of RESP2.
func null(reply []byte) bool {
	return len(reply) == 5 && reply[1] == '-' && (reply[0] == '$' || reply[0] == '*')
}

// replySize is the size of the RESP2 reply at the start of b, 0 if it has not
// come in full.
func replySize(b []byte) int {
	pos := 0
	for open := 1; open > 0; open-- {
		line := bytes.IndexByte(b[pos:], '\n')
		if line < 0 {
			return 0
		}
		kind, n := b[pos], 0
		if kind == '$' || kind == '*' {
			if b[pos+1] == '-' {
				n = -1
			} else {
				for _, d := range b[pos+1 : pos+line-1] {
					n = n*10 + int(d-'0')
				}
			}
		}
		pos += line + 1
		if kind == '$' && n >= 0 {
			if pos += n + 2; pos > len(b) {
				return 0
			}
		}
		if kind == '*' && n > 0 {
			open += n
		}
	}
	return pos
}
