package master

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/loop"
	"lockproxy/internal/resp"
)

// request is one request on its way to a master.
type request struct {
	req  []byte
	end  int64     // where it ends in what its connection has queued
	at   time.Time // when it was queued
	late time.Time // when its answerer is told that there is no reply in time; zero: never
	to   Answerer
	tag  int
	told bool // that there is no reply in time
}

// Answerer is told what becomes of a request to a Master.
type Answerer interface {
	// Answer is called once for each request: on the loop, before Ask returns, or on the goroutine that gives
	// up the connection. So calls for several masters, or for several requests, may come at once. It must not
	// block; it may ask on. reply is valid during the call, and nil if err is not.
	Answer(tag int, reply []byte, err error)
}

// conn is one connection to a master, which the loop of the masters reads and writes:
//
//	queueRequest --> out --(one write a round)--> server --> Read --> settleOldest --> Answerer
//
// What is asked in one round of the loop, by whomever, leaves in one write. Replies belong to requests by
// their order alone, so nothing is ever taken out of the middle of owed: a request whose time is over stays
// there, told, until its reply comes.
type conn struct {
	m      *Master
	as     *cluster.Login  // how it has authenticated, or is about to; of the goroutine of keepConnected
	ctx    context.Context // ends with the connection; its cause says why
	fail   context.CancelCauseFunc
	closed chan struct{} // once nothing is read or written any more
	flush  func()        // flushes on the loop

	// Of the loop.
	on      *loop.Conn
	frame   resp.Framer
	framed  int    // bytes of an incomplete reply that frame has seen
	writing []byte // taken from out
	wrote   int    // bytes of it that are written

	// Guarded by Master.mu.
	id     int64     // as the server has it; 0: it does not tell
	out    []byte    // to be written
	posted bool      // flush is
	queued int64     // bytes ever given to out
	sent   int64     // bytes ever taken from it: it is not known how many of them arrive
	heard  time.Time // when bytes came last
	owed   requests  // replies to come, oldest first
	alarm  time.Time // when timer has owed looked at; zero: it does not
	timer  *time.Timer
}

// requests is a queue, oldest first. Those before from are gone; their place is used again when all is full.
type requests struct {
	all  []request
	from int
}

func (q *requests) len() int       { return len(q.all) - q.from }
func (q *requests) head() *request { return &q.all[q.from] }

// push moves what is left to the front before the queue would have to grow.
func (q *requests) push(e request) {
	if q.from > 0 && len(q.all) == cap(q.all) {
		left := copy(q.all, q.all[q.from:])
		clear(q.all[left:])
		q.all, q.from = q.all[:left], 0
	}
	q.all = append(q.all, e)
}

func (q *requests) pop() request {
	e := q.all[q.from]
	// Its bytes and its answerer are not kept in memory by the queue.
	q.all[q.from] = request{}
	if q.from++; q.from == len(q.all) {
		q.all, q.from = q.all[:0], 0
	}
	return e
}

// maxSpare is the largest write buffer that is kept for re-use.
const maxSpare = 1 << 20

// openConn makes a connection to the server of m. It blocks until that is on the loop, and asks nothing yet.
// It ends with ctx, or by endConn.
func (m *Master) openConn(ctx context.Context) (*conn, error) {
	c := &conn{m: m, as: m.nodes.Login(), closed: make(chan struct{}), frame: resp.Answer.Framer()}
	c.flush = func() {
		m.mu.Lock()
		c.posted = false
		m.mu.Unlock()
		c.on.Flush()
	}
	nc, err := m.nodes.Dial(ctx, m.addr, cluster.Mode{Proto: 2}, nil)
	if err != nil {
		return nil, err
	}
	c.heard = time.Now()
	c.ctx, c.fail = context.WithCancelCause(ctx)
	added := make(chan error, 1)
	if !m.loop.Post(func() {
		c.on, err = m.loop.Add(nc, c)
		added <- err
	}) {
		nc.Close()
		return nil, net.ErrClosed
	}
	if err := <-added; err != nil {
		return nil, err
	}
	// Only the loop may close it. If that has ended, it has closed it already.
	context.AfterFunc(c.ctx, func() { m.loop.Post(c.on.Close) })
	return c, nil
}

// endConn closes the connection, waits until it is closed, and returns why it ended: the earlier reason if
// there is one, otherwise err. It must not be called on the loop, nor with mu held: Closed comes from there.
func (c *conn) endConn(err error) error {
	c.fail(err)
	<-c.closed
	return context.Cause(c.ctx)
}

// Closed implements loop.Handler. From now on nothing is read or written.
func (c *conn) Closed(err error) {
	c.fail(err)
	close(c.closed)
}

// Output implements loop.Handler. What is in out becomes writing as a whole, and the buffer that is written
// becomes the next out: bytes are not copied, and mu is held for a moment only.
func (c *conn) Output() []byte {
	if c.wrote == len(c.writing) {
		m := c.m
		spare := c.writing[:0]
		if cap(spare) > maxSpare {
			spare = nil
		}
		m.mu.Lock()
		c.writing, c.out, c.wrote = c.out, spare, 0
		// It counts as sent now, though the socket may not take it: that errs towards "it may have run".
		c.sent += int64(len(c.writing))
		m.mu.Unlock()
	}
	return c.writing[c.wrote:]
}

// Wrote implements loop.Handler.
func (c *conn) Wrote(n int) { c.wrote += n }

// Read implements loop.Handler. A reply is valid only here, in the buffer of the loop. What is incomplete
// stays unconsumed there, and frame knows how much of it it has seen.
func (c *conn) Read(buf []byte) (consumed int) {
	c.m.mu.Lock()
	c.heard = time.Now()
	c.m.mu.Unlock()
	for consumed+c.framed < len(buf) {
		n, done, err := c.frame.Next(buf[consumed+c.framed:])
		if err != nil {
			c.hangUp(fmt.Errorf("%w: %w", cluster.ErrFraming, err))
			break
		}
		c.framed += n
		if !done {
			break
		}
		reply := buf[consumed : consumed+c.framed]
		consumed, c.framed = consumed+c.framed, 0
		if err := c.takeReply(reply); err != nil {
			c.hangUp(err)
			break
		}
	}
	return consumed
}

// hangUp closes the connection, on the loop.
func (c *conn) hangUp(why error) {
	c.fail(why)
	c.on.Close()
}

// pushRequest queues e, which has to be answered within timeout. Master.mu is held. An error says that it is
// not queued, and never runs.
func (c *conn) pushRequest(e request, timeout time.Duration) error {
	if c.owed.len() >= maxMasterRequests || len(c.out)+len(e.req) > maxMasterBytes {
		return errQueueFull
	}
	e.at = time.Now()
	e.late = e.at.Add(timeout)
	c.queueRequest(e)
	c.expectReply(e.late, timeout)
	return nil
}

// pushOwn is pushRequest without bounds, and without a time-out, for what the Master itself asks: a full
// queue must not keep it from finding out how its server is. Master.mu is held.
func (c *conn) pushOwn(e request) {
	e.at = time.Now()
	c.queueRequest(e)
}

// queueRequest puts e behind all others, and has the loop write it: once a round, however many come.
// Master.mu is held.
func (c *conn) queueRequest(e request) {
	c.out = append(c.out, e.req...)
	c.queued += int64(len(e.req))
	e.end = c.queued
	c.owed.push(e)
	if !c.posted {
		c.posted = true
		c.m.loop.Post(c.flush)
	}
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
	for i := range c.owed.len() {
		switch e := &c.owed.all[c.owed.from+i]; {
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
	if c.owed.len() == 0 {
		return 0
	}
	return min(time.Since(c.owed.head().at), time.Since(c.heard))
}

// takeReply gives a reply to the oldest request. An error ends the connection. Master.mu is free again when
// the answerer is called, which may ask on.
func (c *conn) takeReply(reply []byte) error {
	e, err := c.settleOldest()
	if err == nil && !e.told {
		e.to.Answer(e.tag, reply, nil)
	}
	return err
}

// settleOldest takes out the oldest request, which has its reply. If that was not even given to the socket,
// the reply belongs to something else, and no later one is to be believed.
func (c *conn) settleOldest() (e request, err error) {
	m := c.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.owed.len() == 0 {
		return e, fmt.Errorf("%w: a reply that nothing asked for", cluster.ErrFraming)
	}
	if c.owed.head().end > c.sent {
		return e, cluster.ErrHasty
	}
	if m.silent && m.conn == c {
		m.silent = false
		m.logNode(slog.LevelInfo, "master answers again")
		m.set.signalChange()
	}
	return c.owed.pop(), nil
}

// abandonRequests has nothing more sent over the connection. It returns a function that tells all answerers
// who are owed a reply why there is none. Master.mu is held. A request of which no byte was taken to be
// written has not run, and never will; of the others nobody knows.
func (c *conn) abandonRequests(err error) (tell func()) {
	owed, sent := c.owed, c.sent
	c.owed, c.out = requests{}, nil
	if c.timer != nil {
		c.timer.Stop()
	}
	return func() {
		for owed.len() > 0 {
			e := owed.pop()
			if e.told {
				continue
			}
			outcome := cluster.ErrUnavailable
			if e.end-int64(len(e.req)) < sent {
				outcome = cluster.ErrUnknownOutcome
			}
			e.to.Answer(e.tag, nil, cluster.NodeError{
				Addr: c.m.addr, Err: fmt.Errorf("%w: %w", outcome, err),
			})
		}
	}
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

// endIfForgotten asks the server over a new connection what it has to do for c, and ends c if that is
// nothing: it was forgotten on the way, as a firewall does that was replaced. It blocks until then, or until
// ctx ends. If anything came over c meanwhile, it was not forgotten.
func (c *conn) endIfForgotten(ctx context.Context) {
	c.m.mu.Lock()
	id, heard := strconv.FormatInt(c.id, 10), c.heard
	c.m.mu.Unlock()
	settled, err := cluster.Settled(ctx, c.m.nodes, c.m.addr, []string{id})
	c.m.mu.Lock()
	same := c.heard.Equal(heard)
	c.m.mu.Unlock()
	if _, is := settled[id]; err == nil && is && same {
		c.fail(cluster.ErrForgotten)
	}
}

// askOwn sends questions of the Master itself and waits for all replies, error replies among them, for
// Options.ConnectTimeout at most. An error ends the connection: its caller has no other use for it. got is
// when each reply came, which bounds the clock.
func (c *conn) askOwn(questions ...[]byte) ([]*question, error) {
	all := make([]*question, len(questions))
	c.m.mu.Lock()
	for i, req := range questions {
		all[i] = &question{done: make(chan struct{})}
		c.pushOwn(request{req: req, to: all[i]})
	}
	c.m.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(c.ctx, c.m.o.ConnectTimeout, errReticent)
	defer cancel()
	silent := time.AfterFunc(cluster.SilentLong, func() { c.endIfForgotten(ctx) })
	defer silent.Stop()
	for _, q := range all {
		select {
		case <-q.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if q.err != nil {
			return nil, q.err
		}
	}
	return all, nil
}
