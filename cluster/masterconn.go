package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"lockproxy/internal/resp"
)

// masterRequest is one request on its way to a master.
type masterRequest struct {
	req  []byte
	end  int64     // where it ends in what its connection has queued
	at   time.Time // when it was queued
	late time.Time // when its answerer is told that there is no reply in time; zero: never
	to   Answerer  // nil: of a script that is loaded again
	tag  int
	told bool // that there is no reply in time
	sent bool // again: its script was missing the first time
}

// Answerer is told what becomes of a request to a Master.
type Answerer interface {
	// Answer is called once for each request, maybe before Ask returns. It must not block; it may
	// ask on. reply is the answerer's to keep.
	Answer(tag int, reply []byte, err error)
}

// masterConn is one connection to a master. What follows m is guarded by Master.mu.
type masterConn struct {
	*nodeConn
	m *Master

	id      int64            // as the server has it; 0: it does not tell
	owed    []*masterRequest // replies to come, oldest first
	loading int              // scripts that it is being given again
	alarm   time.Time        // when timer looks at owed; zero: it does not
	timer   *time.Timer
	over    bool // nothing more is sent
}

func newMasterConn(m *Master) *masterConn {
	c := &masterConn{m: m}
	c.nodeConn = newNodeConn(c, &m.mu)
	return c
}

// push queues e, which has to be answered within timeout. Master.mu is held.
func (c *masterConn) push(e *masterRequest, timeout time.Duration) error {
	if len(c.owed) >= maxMasterRequests || c.pending()+len(e.req) > maxMasterBytes {
		return errCrowded
	}
	c.send(e)
	e.late = e.at.Add(timeout)
	c.expect(e.late, timeout)
	return nil
}

// expect has timer look at what is owed at a time, which is in d. Master.mu is held.
func (c *masterConn) expect(at time.Time, d time.Duration) {
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

// expire tells those whose time is over.
func (c *masterConn) expire() {
	m := c.m
	m.mu.Lock()
	now := time.Now()
	var over []*masterRequest
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
		e.to.Answer(e.tag, nil, nodeError{m.addr, errReplyLate})
	}
}

// send is push without bounds.
func (c *masterConn) send(e *masterRequest) {
	e.at, e.end = time.Now(), c.queue(e.req)
	c.owed = append(c.owed, e)
}

// owing is for how long the server has owed a reply without saying anything. Master.mu is held.
func (c *masterConn) owing() time.Duration {
	if len(c.owed) == 0 {
		return 0
	}
	return min(time.Since(c.owed[0].at), c.silence())
}

// frame implements nodeUser: a reply is for the oldest request.
func (c *masterConn) frame(frame []byte) error {
	e, reply, err := c.settle(bytes.Clone(frame))
	switch {
	case e == nil:
	case err != nil:
		e.to.Answer(e.tag, nil, nodeError{c.m.addr, err})
		return nil
	default:
		e.to.Answer(e.tag, reply, nil)
	}
	return err
}

// pause implements nodeUser.
func (c *masterConn) pause(context.Context) {}

// settle finds who is to be told of a reply, and what. nil: nobody.
func (c *masterConn) settle(reply []byte) (*masterRequest, []byte, error) {
	m := c.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(c.owed) == 0 {
		return nil, nil, fmt.Errorf("%w: a reply that nothing asked for", errFraming)
	}
	e := c.owed[0]
	if e.end > c.sent() {
		return nil, nil, errHasty
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
	case bytes.HasPrefix(reply, []byte("-NOSCRIPT ")) && c.heal(e), e.told:
		return nil, nil, nil
	case bytes.HasPrefix(reply, []byte("-NOSCRIPT ")) && len(m.o.Scripts) > 0 && !c.over:
		return e, nil, fmt.Errorf("%w: %w", ErrUnavailable, errScripts)
	}
	return e, reply, nil
}

// heal gives the server its scripts again, one of which e did not find there, and sends e once
// more if nothing was sent behind it, which it would be too late for. It reports whether e was
// sent. Master.mu is held.
func (c *masterConn) heal(e *masterRequest) bool {
	if c.over || len(c.m.o.Scripts) == 0 {
		return false
	}
	last := len(c.owed) == 0
	if c.loading == 0 {
		c.m.tell(slog.LevelWarn, "master has lost its scripts")
		for _, script := range c.m.o.Scripts {
			c.send(&masterRequest{req: resp.AppendCommandStrings(nil, "SCRIPT", "LOAD", string(script))})
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

// abandon ends the connection and returns what tells all that are owed a reply why there is none. Master.mu
// is held.
func (c *masterConn) abandon(err error) (tell func()) {
	c.over = true
	owed, written := c.owed, c.sent()
	c.owed = nil
	c.unqueue()
	if c.timer != nil {
		c.timer.Stop()
	}
	return func() {
		for _, e := range owed {
			if e.to == nil || e.told {
				continue
			}
			outcome := ErrUnavailable
			if e.end-int64(len(e.req)) < written {
				outcome = ErrUnknownOutcome
			}
			e.to.Answer(e.tag, nil, nodeError{c.m.addr, fmt.Errorf("%w: %w", outcome, err)})
		}
	}
}

// errReticent is why a connection is given up whose server keeps silent.
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

// ask puts questions for the Master itself and waits for all replies, error replies among
// them, for Options.ConnectTimeout at most.
func (c *masterConn) ask(questions ...[]byte) ([]*question, error) {
	all := make([]*question, len(questions))
	c.m.mu.Lock()
	for i, req := range questions {
		all[i] = &question{done: make(chan struct{})}
		c.send(&masterRequest{req: req, to: all[i]})
	}
	c.m.mu.Unlock()
	limit := time.NewTimer(c.m.o.ConnectTimeout)
	defer limit.Stop()
	for _, q := range all {
		select {
		case <-q.done:
		case <-limit.C:
			return nil, errReticent
		case <-c.context().Done():
			return nil, context.Cause(c.context())
		}
		if q.err != nil {
			return nil, q.err
		}
	}
	return all, nil
}
