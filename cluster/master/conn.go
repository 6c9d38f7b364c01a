package master

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	"lockproxy/cluster/pipe/queue"
	"lockproxy/internal/loop"
)

// request is one request on its way to a master.
type request struct {
	req  []byte
	at   time.Time // when it was queued
	late time.Time // when its answerer is told that there is no reply in time; zero: never
	to   Answerer
	tag  int
	told bool // that there is no reply in time
}

// Answerer is told what becomes of a request to a Master.
type Answerer interface {
	// Answer is called once for each request: on the loop, or before Ask returns. So calls for several
	// masters, or for several requests, may come at once. It must not block; it may ask on. reply is valid
	// during the call, and nil if err is not.
	Answer(tag int, reply []byte, err error)
}

// conn is one connection to a master, and gets the replies of its pipe:
//
//	queueRequest --> asked --(once a round)--> pipe --> server --> Receive --> Answerer
//
// What is asked in one round of the loop, by whomever, leaves in one write. Replies belong to requests by
// their order alone, so nothing is ever taken out of the middle of owed: a request whose time is over stays
// there, told, until its reply comes.
type conn struct {
	m     *Master
	ctx   context.Context // ends with the connection; its cause says why
	fail  context.CancelCauseFunc
	ended chan struct{} // closed once nothing is read or written any more

	// Of the loop.
	pipe  *pipe.Pipe
	part  []byte   // of a reply that comes in pieces
	send  func()   // sendAsked, made once
	spare [][]byte // empty: it and asked change places each round

	// Guarded by Master.mu.
	asked [][]byte            // those of owed that the pipe does not have yet
	owed  queue.Ring[request] // replies to come
	size  int                 // bytes of those requests
	heard time.Time           // when a reply came last, or a piece of one
	alarm time.Time           // when timer has owed looked at; zero: it does not
	timer *time.Timer
}

// openConn begins a connection to the server of m, which may be asked at once. It ends by endConn.
func (m *Master) openConn() *conn {
	c := &conn{m: m, ended: make(chan struct{}), heard: time.Now()}
	c.send = c.sendAsked
	c.ctx, c.fail = context.WithCancelCause(m.ctx)
	if !m.loop.Post(func() { c.pipe = m.pool.Own(m.addr, pipe.Mode{Proto: 2}, c) }) {
		c.fail(net.ErrClosed)
	}
	return c
}

// endConn closes the connection, waits until it is closed, and returns why it ended: the earlier reason if
// there is one, otherwise err. It must not be called on the loop, nor with mu held: Lost comes from there.
func (c *conn) endConn(err error) error {
	c.fail(err)
	c.m.loop.Post(func() { c.pipe.Close(err) })
	select {
	case <-c.ended:
	case <-c.m.loop.Done():
	}
	return context.Cause(c.ctx)
}

// Lost implements owned.Owner. From now on nothing is read or written.
func (c *conn) Lost(err error) {
	c.fail(err)
	close(c.ended)
}

// Push implements owned.Owner: a server that speaks RESP2 sends none.
func (c *conn) Push([]byte, bool) {}

// Receive implements pipe.Receiver: it gives a reply to the oldest request. Master.mu is free again when the
// answerer is called, which may ask on.
func (c *conn) Receive(_ uint32, chunk []byte, last bool) {
	if !last || len(c.part) > 0 {
		c.part = append(c.part, chunk...)
		chunk = c.part
	}
	m := c.m
	m.mu.Lock()
	c.heard = time.Now()
	if !last {
		m.mu.Unlock()
		return
	}
	if m.silent && m.conn == c {
		m.silent = false
		m.logNode(slog.LevelInfo, "master answers again")
		m.set.signalChange()
	}
	e := c.popOldest()
	m.mu.Unlock()
	if c.part = c.part[:0]; cap(c.part) > loop.Shared { // long ones are rare
		c.part = nil
	}
	if !e.told {
		e.to.Answer(e.tag, chunk, nil)
	}
}

// Fail implements pipe.Receiver: there is no reply to the oldest request, and none to those behind it.
func (c *conn) Fail(_ uint32, err error) {
	c.fail(c.pipe.Dead())
	c.m.mu.Lock()
	e := c.popOldest()
	c.m.mu.Unlock()
	if !e.told {
		e.to.Answer(e.tag, nil, cluster.NodeError{Addr: c.m.addr, Err: err})
	}
}

// popOldest takes out the oldest request. Master.mu is held.
func (c *conn) popOldest() request {
	e := c.owed.Pop()
	c.size -= len(e.req)
	return e
}

// Discard implements pipe.Receiver. It is not called: nothing is sent twice.
func (c *conn) Discard(uint32) bool { return false }

// Detour implements pipe.Receiver.
func (c *conn) Detour(uint32) {}

// pushRequest queues e, which has to be answered within timeout. Master.mu is held. An error says that it is
// not queued, and never runs.
func (c *conn) pushRequest(e request, timeout time.Duration) error {
	if c.owed.Len() >= maxMasterRequests || c.size+len(e.req) > maxMasterBytes {
		return errQueueFull
	}
	e.late = time.Now().Add(timeout)
	c.queueRequest(e)
	c.expectReply(e.late, timeout)
	return nil
}

// queueRequest puts e behind all others, and has the loop send it: once a round, however many come. What the
// Master itself asks has no bounds, and no time-out: a full queue must not keep it from finding out how its
// server is. Master.mu is held.
func (c *conn) queueRequest(e request) {
	e.at = time.Now()
	c.owed.Push(&e)
	c.size += len(e.req)
	if c.asked = append(c.asked, e.req); len(c.asked) == 1 {
		c.m.loop.Post(c.send)
	}
}

// sendAsked gives the pipe what it does not have yet.
func (c *conn) sendAsked() {
	c.m.mu.Lock()
	asked := c.asked
	c.asked, c.spare = c.spare, nil
	c.m.mu.Unlock()
	for _, req := range asked {
		c.pipe.Request(req, c, 0)
	}
	clear(asked)
	c.spare = asked[:0]
}

// expectReply sets the timer to a time, which is in d, when the loop checks what is owed: behind what has
// come until then, however long the loop was busy. Master.mu is held.
func (c *conn) expectReply(at time.Time, d time.Duration) {
	switch {
	case !c.alarm.IsZero() && !at.Before(c.alarm):
		return
	case c.timer == nil:
		c.timer = c.m.loop.After(d, c.expireRequests)
	default:
		c.timer.Reset(d)
	}
	c.alarm = at
}

// expireRequests tells the answerers whose time is over. It runs on the loop. They stay in owed, for their
// replies are still to come. If the server has been silent for about Timeout, the Master counts as away from
// now on, until a reply comes.
func (c *conn) expireRequests() {
	m := c.m
	m.mu.Lock()
	now := time.Now()
	var over []request
	next := time.Time{}
	for i := range c.owed.Len() {
		switch e := c.owed.At(i); {
		case e.told || e.late.IsZero():
		case !e.late.After(now):
			e.told = true
			// a copy: its place may be used again when mu is free
			over = append(over, *e)
		case next.IsZero() || e.late.Before(next):
			next = e.late
		}
	}
	c.alarm = time.Time{}
	if !next.IsZero() {
		c.expectReply(next, next.Sub(now))
	}
	// Whoever waited for Timeout began to a little before the request was queued.
	if len(over) > 0 && m.conn == c && !m.silent && c.owing() >= m.o.Timeout*3/4 {
		m.silent = true
		m.logNode(slog.LevelWarn, "master does not answer", "err", errReplyLate)
		m.set.signalChange()
	}
	m.mu.Unlock()
	for _, e := range over {
		e.to.Answer(e.tag, nil, cluster.NodeError{Addr: m.addr, Err: errReplyLate})
	}
}

// owing is for how long the server has owed a reply without sending anything. Master.mu is held.
func (c *conn) owing() time.Duration {
	if c.owed.Len() == 0 {
		return 0
	}
	return min(time.Since(c.owed.Head().at), time.Since(c.heard))
}

// errReticent is why the connection to a silent server is given up.
var errReticent = errors.New("it gives no sign of life")

// question is a request of the Master itself. It may be given up before it is answered; then nobody reads it
// any more.
type question struct {
	done  chan struct{} // closed when what follows is set
	reply []byte
	got   time.Time // when the reply came
	err   error
}

// Answer implements Answerer.
func (q *question) Answer(_ int, reply []byte, err error) {
	q.reply, q.err, q.got = bytes.Clone(reply), err, time.Now()
	close(q.done)
}

// askOwn sends questions of the Master itself and waits for all replies, error replies among them, for
// limit at most. An error ends the connection: its caller has no other use for it. got is when each reply
// came, which bounds the clock.
func (c *conn) askOwn(limit time.Duration, questions ...[]byte) ([]*question, error) {
	all := make([]*question, len(questions))
	c.m.mu.Lock()
	for i, req := range questions {
		all[i] = &question{done: make(chan struct{})}
		c.queueRequest(request{req: req, to: all[i]})
	}
	c.m.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(c.ctx, limit, errReticent)
	defer cancel()
	for _, q := range all {
		select {
		case <-q.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if q.err != nil {
			return nil, context.Cause(c.ctx)
		}
	}
	return all, nil
}
