package master

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

// request is one request on its way to a master.
type request struct {
	req  []byte
	end  int64     // where it ends in what its connection has queued
	at   time.Time // when it was queued
	late time.Time // when its answerer is told that there is no reply in time; zero: never
	to   Answerer  // nil: of a script that is loaded again
	tag  int
	told bool // that there is no reply in time
	sent bool // a second time, because its script was missing
}

// Answerer is told what becomes of a request to a Master.
type Answerer interface {
	// Answer is called once for each request, maybe before Ask returns. It must not block; it may
	// ask on. reply is the answerer's to keep.
	Answer(tag int, reply []byte, err error)
}

// conn is one connection to a master. What follows m is guarded by Master.mu.
type conn struct {
	*cluster.Conn
	m *Master

	id      int64      // as the server has it; 0: it does not tell
	owed    []*request // replies to come, oldest first
	loading int        // scripts that it is being given again
	alarm   time.Time  // when timer looks at owed; zero: it does not
	timer   *time.Timer
	over    bool // nothing more is sent

	loadless bool // the server forbids SCRIPT LOAD: requests carry the source of their script
}

func newConn(m *Master) *conn {
	c := &conn{m: m}
	c.Conn = cluster.NewConn(c, &m.mu)
	return c
}

// push queues e, which has to be answered within timeout. Master.mu is held.
func (c *conn) push(e *request, timeout time.Duration) error {
	if len(c.owed) >= maxMasterRequests || c.Pending()+len(e.req) > maxMasterBytes {
		return errQueueFull
	}
	c.send(e)
	e.late = e.at.Add(timeout)
	c.expect(e.late, timeout)
	return nil
}

// expect sets the timer to a time, which is in d, when it checks what is owed. Master.mu is held.
func (c *conn) expect(at time.Time, d time.Duration) {
	switch {
	case !c.alarm.IsZero() && !at.Before(c.alarm):
		return
	case c.timer == nil:
		c.timer = time.AfterFunc(d, c.expire)
	default:
		c.timer.Reset(d)
	}
	c.alarm = at
}

// expire tells the answerers whose time is over.
func (c *conn) expire() {
	m := c.m
	m.mu.Lock()
	now := time.Now()
	var over []*request
	next := time.Time{}
	for _, e := range c.owed {
		switch {
		case e.told || e.late.IsZero():
		case !e.late.After(now):
			e.told = true
			over = append(over, e)
		case next.IsZero() || e.late.Before(next):
			next = e.late
		}
	}
	c.alarm = time.Time{}
	if !next.IsZero() {
		c.expect(next, next.Sub(now))
	}
	// Whoever waited for Timeout began to a little before the request was queued.
	if len(over) > 0 && m.conn == c && !m.silent && c.owing() >= m.o.Timeout*3/4 {
		m.silent = true
		m.tell(slog.LevelWarn, "master does not answer", "err", errReplyLate)
		m.set.signal()
	}
	m.mu.Unlock()
	for _, e := range over {
		e.to.Answer(e.tag, nil, cluster.NodeError{Addr: m.addr, Err: errReplyLate})
	}
}

// send is push without bounds.
func (c *conn) send(e *request) {
	e.at, e.end = time.Now(), c.Queue(e.req)
	c.owed = append(c.owed, e)
}

// owing is for how long the server has owed a reply without sending anything. Master.mu is held.
func (c *conn) owing() time.Duration {
	if len(c.owed) == 0 {
		return 0
	}
	return min(time.Since(c.owed[0].at), c.Silence())
}

// Frame implements ConnUser: a reply is for the oldest request.
func (c *conn) Frame(frame []byte) error {
	e, reply, err := c.settle(bytes.Clone(frame))
	switch {
	case e == nil:
	case err != nil:
		e.to.Answer(e.tag, nil, cluster.NodeError{Addr: c.m.addr, Err: err})
		return nil
	default:
		e.to.Answer(e.tag, reply, nil)
	}
	return err
}

// Pause implements ConnUser.
func (c *conn) Pause(context.Context) {}

// settle matches a reply with its request, and says what its answerer is told. nil: nobody is told.
func (c *conn) settle(reply []byte) (*request, []byte, error) {
	m := c.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(c.owed) == 0 {
		return nil, nil, fmt.Errorf("%w: a reply that nothing asked for", cluster.ErrFraming)
	}
	e := c.owed[0]
	if e.end > c.Sent() {
		return nil, nil, cluster.ErrHasty
	}
	c.owed[0] = nil
	if c.owed = c.owed[1:]; len(c.owed) == 0 {
		c.owed = nil
	}
	if m.silent && m.conn == c {
		m.silent = false
		m.tell(slog.LevelInfo, "master answers again")
		m.set.signal()
	}
	switch {
	case e.to == nil:
		c.loading--
		return nil, nil, nil
	case c.loadless && !e.told:
	case bytes.HasPrefix(reply, []byte("-NOSCRIPT ")) && c.heal(e), e.told:
		return nil, nil, nil
	case bytes.HasPrefix(reply, []byte("-NOSCRIPT ")) && len(m.o.Scripts) > 0 && !c.over:
		return e, nil, fmt.Errorf("%w: %w", cluster.ErrUnavailable, errScripts)
	}
	return e, reply, nil
}

// heal loads the scripts at the server again, because e did not find one of them there, and sends e once
// more; but not if requests were sent behind it, because it would then run too late. It reports whether e
// was sent. Master.mu is held.
func (c *conn) heal(e *request) bool {
	if c.over || len(c.m.o.Scripts) == 0 {
		return false
	}
	last := len(c.owed) == 0
	if c.loading == 0 {
		c.m.tell(slog.LevelWarn, "master has lost its scripts")
		for _, script := range c.m.o.Scripts {
			c.send(&request{req: resp.AppendCommandStrings(nil, "SCRIPT", "LOAD", string(script))})
		}
		c.loading = len(c.m.o.Scripts)
	}
	if last && !e.told && !e.sent {
		e.sent = true
		c.send(e)
		return true
	}
	return false
}

// abandon ends the connection. It returns a function that tells all answerers who are owed a reply why there
// is none. Master.mu is held.
func (c *conn) abandon(err error) (tell func()) {
	c.over = true
	owed, written := c.owed, c.Sent()
	c.owed = nil
	c.Unqueue()
	if c.timer != nil {
		c.timer.Stop()
	}
	return func() {
		for _, e := range owed {
			if e.to == nil || e.told {
				continue
			}
			outcome := cluster.ErrUnavailable
			if e.end-int64(len(e.req)) < written {
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

// question is a request of the Master itself.
type question struct {
	done  chan struct{} // closed when what follows is set
	reply []byte
	got   time.Time // when the reply came
	err   error
}

// Answer implements Answerer.
func (q *question) Answer(_ int, reply []byte, err error) {
	q.reply, q.err, q.got = reply, err, time.Now()
	close(q.done)
}

// ask sends questions of the Master itself and waits for all replies, error replies among them, for
// Options.ConnectTimeout at most.
func (c *conn) ask(questions ...[]byte) ([]*question, error) {
	all := make([]*question, len(questions))
	c.m.mu.Lock()
	for i, req := range questions {
		all[i] = &question{done: make(chan struct{})}
		c.send(&request{req: req, to: all[i]})
	}
	c.m.mu.Unlock()
	limit := time.NewTimer(c.m.o.ConnectTimeout)
	defer limit.Stop()
	for _, q := range all {
		select {
		case <-q.done:
		case <-limit.C:
			return nil, errReticent
		case <-c.Context().Done():
			return nil, context.Cause(c.Context())
		}
		if q.err != nil {
			return nil, q.err
		}
	}
	return all, nil
}
