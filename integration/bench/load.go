package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"lockproxy/internal/resp"
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
	step     bool // all connections begin a batch together, and the next when all have got their replies
	fresh    bool // each batch has a connection of its own, which is made and closed for it
	poller   *poller
}

// conn is one connection of a load.
type conn struct {
	fd    int
	addr  string
	next  source
	good  func(reply []byte) bool // nil: whatever is no error and not null
	out   []byte                  // the batch, whose room serves the next one
	in    []byte                  // came and is no whole reply yet
	owed  int                     // replies still to come
	began time.Time               // when the batch was begun
	begun int                     // batches of this run
	asked chan int                // the numbers of requests of a timetable that are not answered
}

// dial adds a connection to the load.
func (l *load) dial(addr string, next source, good func(reply []byte) bool) error {
	fd, err := connect(addr)
	if fd >= 0 {
		l.conns = append(l.conns, &conn{fd: fd, addr: addr, next: next, good: good})
	}
	return err
}

// connect makes a connection whose reads and writes do not block. fd is -1 if there is none to close.
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
	return fd, errors.Join(unix.SetNonblock(fd, true),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
}

// close closes all connections.
func (l *load) close() {
	for _, c := range l.conns {
		unix.Close(c.fd)
	}
	l.conns = nil
}

// polled starts something, and has f called for each connection that is ready, until it says that all is
// done.
func (l *load) polled(start func() error, f func(i int, c *conn) (done bool, err error)) (err error) {
	if l.poller, err = newPoller(); err != nil {
		return err
	}
	defer l.poller.close()
	for i, c := range l.conns {
		if err := l.poller.add(c.fd, i); err != nil {
			return err
		}
	}
	if err := start(); err != nil {
		return err
	}
	for idle := 0; ; {
		ready, err := l.poller.wait(1000)
		if err != nil {
			return err
		}
		const silence = 60 // seconds after which somebody is taken for dead
		if idle++; len(ready) > 0 {
			idle = 0
		} else if idle >= silence {
			return fmt.Errorf("no reply for %d seconds", silence)
		}
		for _, i := range ready {
			if done, err := f(i, l.conns[i]); done || err != nil {
				return err
			}
		}
	}
}

// run sends that many batches over all connections together and waits for
// their replies.
func (l *load) run(batches int) (sample, error) {
	took, buf := make([]time.Duration, 0, batches), make([]byte, 64<<10)
	begun, issued, waiting := time.Now(), 0, 0
	begin := func(i int) error {
		c := l.conns[i]
		if !l.step && (issued == batches || l.even && c.begun == batches/len(l.conns)) {
			return nil
		}
		issued++
		c.begun++
		now := time.Now()
		if l.fresh {
			if err := l.renew(i); err != nil {
				return err
			}
		}
		return c.begin(l.pipeline, now)
	}
	all := func() (err error) {
		for i := range l.conns {
			err = errors.Join(err, begin(i))
		}
		waiting = len(l.conns)
		return err
	}
	for _, c := range l.conns {
		c.begun = 0
	}
	err := l.polled(all, func(i int, c *conn) (bool, error) {
		done, err := c.step(buf)
		if err != nil || !done {
			return false, err
		}
		if waiting--; l.step && waiting > 0 {
			return false, nil
		}
		took = append(took, time.Since(c.began))
		switch {
		case len(took) == batches:
			return true, nil
		case l.step:
			return false, all()
		}
		return false, begin(i)
	})
	if err != nil {
		return nil, err
	}
	return timesOf(took, float64(batches*l.pipeline)/time.Since(begun).Seconds()), nil
}

// renew puts another connection in the place of one.
func (l *load) renew(i int) (err error) {
	c := l.conns[i]
	unix.Close(c.fd)
	if c.fd, err = connect(c.addr); err != nil {
		return err
	}
	return l.poller.add(c.fd, i)
}

// begin makes and sends the next batch.
func (c *conn) begin(pipeline int, now time.Time) error {
	c.out, c.owed, c.began = c.next(c.out[:0]), pipeline, now
	return write(c.fd, c.out)
}

// write sends what is so short that the socket takes it at once, since all before it was answered.
func write(fd int, request []byte) error {
	if len(request) == 0 {
		return nil
	}
	n, err := unix.Write(fd, request)
	if err == nil && n < len(request) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// step reads what there is. It returns true when the last reply of the batch has come.
func (c *conn) step(buf []byte) (done bool, err error) {
	n, err := unix.Read(c.fd, buf)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read: %w", err)
	case n == 0:
		return false, errors.New("the server closed the connection")
	}
	c.in = append(c.in, buf[:n]...)
	rest := c.in
	if c.owed == 0 {
		return false, fmt.Errorf("%q after the last reply", rest)
	}
	for c.owed > 0 {
		size, whole, err := new(resp.Framer).Next(rest)
		if err != nil {
			return false, err
		}
		if !whole {
			break
		}
		if reply := rest[:size]; c.good != nil && !c.good(reply) ||
			c.good == nil && (resp.IsError(reply) || resp.IsNull(reply)) {
			return false, fmt.Errorf("unexpected reply %q", reply)
		}
		rest = rest[size:]
		if c.owed--; c.owed == 0 && len(rest) > 0 {
			return false, fmt.Errorf("%q after the last reply", rest)
		}
	}
	c.in = c.in[:copy(c.in, rest)]
	return c.owed == 0, nil
}

// timetable says when each request is due.
type timetable struct {
	begun time.Time
	each  time.Duration
}

func (t timetable) due(i int) time.Time { return t.begun.Add(time.Duration(i) * t.each) }

// follow sends requests by the timetable, over all connections in turn, and says how long after it was due
// each reply came, in the order of the replies.
func (l *load) follow(t timetable, n int) ([]time.Duration, error) {
	sent, took := make(chan error, 1), make([]time.Duration, 0, n)
	buf := make([]byte, 64<<10)
	for _, c := range l.conns {
		c.asked = make(chan int, n/len(l.conns)+1)
	}
	err := l.polled(func() error {
		go func() { sent <- l.send(t, n) }()
		return nil
	}, func(_ int, c *conn) (bool, error) {
		c.owed = n // step counts whole replies down
		if _, err := c.step(buf); err != nil {
			return false, err
		}
		now := time.Now()
		for range n - c.owed {
			took = append(took, now.Sub(t.due(<-c.asked)))
		}
		return len(took) == n, nil
	})
	if err != nil { // nothing can be sent any more
		for _, c := range l.conns {
			unix.Shutdown(c.fd, unix.SHUT_RDWR)
		}
	}
	return took, errors.Join(err, <-sent)
}

// send sends each request when it is due, or at once when that is past.
func (l *load) send(t timetable, n int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var request []byte // of this goroutine, while the other one reads
	for i := range n {
		if wait := time.Until(t.due(i)); wait > 0 {
			nap(wait)
		}
		c := l.conns[i%len(l.conns)]
		request = c.next(request[:0])
		c.asked <- i
		if err := write(c.fd, request); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
	}
	return nil
}

// inTurn sends the commands in turn, so many at a time.
func inTurn(commands [][]byte, pipeline int) source { return cycle(batched(commands, pipeline), 0) }

// batched are whole batches of the commands; what is left of them is left out.
func batched(commands [][]byte, pipeline int) (batches [][]byte) {
	for ; len(commands) >= pipeline; commands = commands[pipeline:] {
		batches = append(batches, bytes.Join(commands[:pipeline], nil))
	}
	return batches
}

// cycle sends batches in turn, beginning with one of them.
func cycle(batches [][]byte, from int) source {
	next := from % len(batches)
	return func(dst []byte) []byte {
		dst = append(dst, batches[next]...)
		next = (next + 1) % len(batches)
		return dst
	}
}

// command is a command as RESP.
func command(args ...string) []byte { return resp.AppendCommandStrings(nil, args...) }

// exactly accepts one reply.
func exactly(reply string) func([]byte) bool {
	return func(b []byte) bool { return string(b) == reply }
}

// keyedKeys is how many keys all keyed commands have together.
const keyedKeys = 3000

// keyed are commands with one key each: of all keys, or of those of one node, where the client must know it.
func (w way) keyed(node int, name string, values ...string) (commands [][]byte) {
	for k := range keyedKeys {
		key := fmt.Sprintf("bench:key:%06d", k)
		if !w.cluster || nodeOf(key) == node {
			commands = append(commands, command(append([]string{name, key}, values...)...))
		}
	}
	return commands
}

// keyedLoad is a load of such commands, whose connections are accepted, and known.
func (y *yard) keyedLoad(w way, conns, pipeline int, name string, values ...string) *load {
	l := &load{pipeline: pipeline, even: true}
	batches := make([][][]byte, len(w.doors))
	for i := range conns {
		door := i % len(w.doors)
		if batches[door] == nil {
			batches[door] = batched(w.keyed(door, name, values...), pipeline)
		}
		y.check(l.dial(w.doors[door], cycle(batches[door], 7*i), nil))
	}
	_, err := l.run(conns)
	y.check(err)
	l.even = false
	return l
}

// fillKeyed writes these keys wherever somebody reads them.
func (y *yard) fillKeyed() {
	for _, w := range append(y.yardsticks(), y.direct) {
		l := y.keyedLoad(w, len(w.doors), 1, "SET", "xxx")
		l.even = true
		each := keyedKeys/len(w.doors) + 200 // no node has more of them
		_, err := l.run(len(w.doors) * each)
		y.check(err)
		l.close()
	}
}

// send sends commands over one connection.
func (y *yard) send(addr string, commands [][]byte, pipeline int, good func([]byte) bool) {
	l := load{pipeline: pipeline}
	defer l.close()
	y.check(l.dial(addr, inTurn(commands, pipeline), good))
	_, err := l.run(len(commands) / pipeline)
	y.check(err)
}
