package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"time"

	"lockproxy/internal/resp"
)

// errand is one request on its way to a master.
type errand struct {
	req  []byte
	end  int64     // where it ends in what the lane has queued
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

// lane is one connection to a master. Two goroutines serve it, read and write. What follows
// wake is guarded by Master.mu.
type lane struct {
	m    *Master
	conn net.Conn
	id   int64         // as the server has it; 0: it does not tell
	wake chan struct{} // something is in out

	out     []byte    // to be written
	queued  int64     // bytes ever given to out
	written int64     // bytes ever written
	owed    []*errand // replies to come, oldest first
	heard   time.Time // when a reply came last
	loading int       // scripts that it is being given again
	alarm   time.Time // when timer looks at owed; zero: it does not
	timer   *time.Timer
	over    bool // nothing more is sent
}

// push queues e, which has to be answered within timeout. Master.mu is held.
func (l *lane) push(e *errand, timeout time.Duration) error {
	if len(l.owed) >= maxErrands || len(l.out)+len(e.req) > maxErrandSize {
		return errCrowded
	}
	l.queue(e)
	e.late = e.at.Add(timeout)
	l.expect(e.late, timeout)
	return nil
}

// expect has timer look at what is owed at a time, which is in d. Master.mu is held.
func (l *lane) expect(at time.Time, d time.Duration) {
	switch {
	case !l.alarm.IsZero() && !at.Before(l.alarm):
		return
	case l.timer == nil:
		l.timer = time.AfterFunc(d, l.expire)
	default:
		l.timer.Reset(d)
	}
	l.alarm = at
}

// expire tells those whose time is over.
func (l *lane) expire() {
	m := l.m
	m.mu.Lock()
	now := time.Now()
	var over []*errand
	next := time.Time{}
	for _, e := range l.owed {
		switch {
		case e.told || e.late.IsZero():
		case !e.late.After(now):
			e.told = true
			over = append(over, e)
		case next.IsZero() || e.late.Before(next):
			next = e.late
		}
	}
	l.alarm = time.Time{}
	if !next.IsZero() {
		l.expect(next, next.Sub(now))
	}
	// Whoever waited for Timeout began to a little before the request was queued.
	if len(over) > 0 && m.lane == l && !m.silent && l.silence() >= m.o.Timeout*3/4 {
		m.silent = true
		m.tell(slog.LevelWarn, "master does not answer", "err", errReplyLate)
		m.family.signal()
	}
	m.mu.Unlock()
	for _, e := range over {
		e.to.Answer(e.tag, nil, nodeError{m.addr, errReplyLate})
	}
}

// queue is push without bounds.
func (l *lane) queue(e *errand) {
	e.at = time.Now()
	l.out = append(l.out, e.req...)
	l.queued += int64(len(e.req))
	e.end = l.queued
	l.owed = append(l.owed, e)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// silence is for how long the server has owed a reply without saying anything. Master.mu is
// held.
func (l *lane) silence() time.Duration {
	if len(l.owed) == 0 {
		return 0
	}
	return min(time.Since(l.owed[0].at), time.Since(l.heard))
}

// write writes what is queued.
func (l *lane) write(ctx context.Context) error {
	var spare []byte
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.wake:
		}
		runtime.Gosched() // whoever is about to ask too does so first: one write for all
		l.m.mu.Lock()
		out := l.out
		l.out = spare[:0]
		l.written += int64(len(out)) // from now on nobody knows what of it arrives
		l.m.mu.Unlock()
		if _, err := l.conn.Write(out); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if spare = out; cap(spare) > 1<<20 {
			spare = nil
		}
	}
}

// read takes replies until that fails.
func (l *lane) read() error {
	var frame resp.Framer
	buf := make([]byte, 0, 4096)
	framed := 0 // bytes of buf that frame has seen
	for {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
		}
		n, err := l.conn.Read(buf[len(buf):cap(buf)])
		if n == 0 && err != nil {
			return err
		}
		buf = buf[:len(buf)+n]
		begin := 0
		for framed < len(buf) {
			n, done, err := frame.Next(buf[framed:])
			if err != nil {
				return fmt.Errorf("%w: %w", errFraming, err)
			}
			framed += n
			if !done {
				break
			}
			if err := l.take(bytes.Clone(buf[begin:framed])); err != nil {
				return err
			}
			begin = framed
		}
		buf = buf[:copy(buf, buf[begin:])]
		framed -= begin
	}
}

// take gives a reply to the oldest request.
func (l *lane) take(reply []byte) error {
	e, reply, err := l.settle(reply)
	switch {
	case e == nil:
	case err != nil:
		e.to.Answer(e.tag, nil, nodeError{l.m.addr, err})
		return nil
	default:
		e.to.Answer(e.tag, reply, nil)
	}
	return err
}

// settle finds who is to be told of a reply, and what. nil: nobody.
func (l *lane) settle(reply []byte) (*errand, []byte, error) {
	m := l.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(l.owed) == 0 {
		return nil, nil, fmt.Errorf("%w: a reply that nothing asked for", errFraming)
	}
	e := l.owed[0]
	if e.end > l.written {
		return nil, nil, errHasty
	}
	l.owed[0] = nil
	if l.owed = l.owed[1:]; len(l.owed) == 0 {
		l.owed = nil
	}
	l.heard = time.Now()
	if m.silent && m.lane == l {
		m.silent = false
		m.tell(slog.LevelInfo, "master answers again")
		m.family.signal()
	}
	switch {
	case e.to == nil:
		l.loading--
		return nil, nil, nil
	case bytes.HasPrefix(reply, []byte("-NOSCRIPT ")) && l.heal(e), e.told:
		return nil, nil, nil
	case bytes.HasPrefix(reply, []byte("-NOSCRIPT ")) && len(m.o.Scripts) > 0 && !l.over:
		return e, nil, fmt.Errorf("%w: %w", ErrUnavailable, errScripts)
	}
	return e, reply, nil
}

// heal gives the server its scripts again, one of which e did not find there, and sends e once
// more if nothing was sent behind it, which it would be too late for. It reports whether e was
// sent. Master.mu is held.
func (l *lane) heal(e *errand) bool {
	if l.over || len(l.m.o.Scripts) == 0 {
		return false
	}
	last := len(l.owed) == 0
	if l.loading == 0 {
		l.m.tell(slog.LevelWarn, "master has lost its scripts")
		for _, script := range l.m.o.Scripts {
			l.queue(&errand{req: resp.AppendCommandStrings(nil, "SCRIPT", "LOAD", string(script))})
		}
		l.loading = len(l.m.o.Scripts)
	}
	if last && !e.told && !e.sent {
		e.sent = true
		l.queue(e)
		return true
	}
	return false
}

// abandon ends the lane and returns what tells all that are owed a reply why there is none. Master.mu is held.
func (l *lane) abandon(err error) (tell func()) {
	l.over = true
	owed, written := l.owed, l.written
	l.owed, l.out = nil, nil
	if l.timer != nil {
		l.timer.Stop()
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
			e.to.Answer(e.tag, nil, nodeError{l.m.addr, fmt.Errorf("%w: %w", outcome, err)})
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
func (l *lane) ask(ctx context.Context, questions ...[]byte) ([]*question, error) {
	all := make([]*question, len(questions))
	l.m.mu.Lock()
	for i, req := range questions {
		all[i] = &question{done: make(chan struct{})}
		l.queue(&errand{req: req, to: all[i]})
	}
	l.m.mu.Unlock()
	limit := time.NewTimer(l.m.o.ConnectTimeout)
	defer limit.Stop()
	for _, q := range all {
		select {
		case <-q.done:
		case <-limit.C:
			return nil, errReticent
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if q.err != nil {
			return nil, q.err
		}
	}
	return all, nil
}
