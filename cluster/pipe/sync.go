package pipe

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/cluster/pipe/script"
	"lockproxy/cluster/retry"
	"lockproxy/internal/resp"
)

// This file is about requests that replicas confirm:
//
//	Client.Synced --> one connection: request, WAIT --> reply, number of replicas
//	                         \--> refused, or lost: both again, over another connection
//
// WAIT counts the replicas that have what its own connection wrote. On a new connection it would count
// replicas that have nothing of the request. So both go over one pipe of Pool.Own, which never connects
// twice, and the answer to a WAIT counts only behind the answer to the request on that pipe.

// errBudget is why a request was given up although somebody still waits for it.
var errBudget = errors.New("the retry budget is used up")

// syncParty is the party of the connections of all such requests, so that some places are always left for
// clients.
var syncParty = owned.Party{Host: "SYNC"}

// Synced runs req, one whole command, on the master of slot n. Then it waits there until that many replicas
// have everything that this master had done by then, or until timeout (at least 1 ms) is over. acked is how
// many have it. reply is the node's RESP2 reply to req; if that is an error reply, acked means nothing.
//
// req must be idempotent: it is sent again whenever its reply was lost. Redirects, lost scripts and
// fail-overs are handled inside, until ctx ends or the budget (Options.Budget, and timeout) is used up.
// Before Redis 7.2, WAIT counts what anybody had written up to the last command of the connection; since
// then, up to the last command of the connection that wrote. So req must write something to wait for earlier
// writes of others, if only what is there already. A server without WAIT has no replicas: acked is 0.
//
// The error wraps ErrUnavailable if no node has run req, ErrUnknownOutcome if one may have. Otherwise it is
// the cause of ctx, or the error of WAIT. Safe for concurrent use.
func (c *Client) Synced(ctx context.Context, n int, req []byte, replicas int, timeout time.Duration) (
	reply []byte, acked int, err error,
) {
	p := c.pools[n%len(c.pools)]
	l := p.loop
	timeout = max(timeout, time.Millisecond)
	ms := strconv.FormatInt(timeout.Milliseconds(), 10)
	s := &syncing{
		p: p, slot: n, req: req, wait: resp.AppendCommandStrings(nil, "WAIT", strconv.Itoa(replicas), ms),
		timeout: timeout, done: make(chan struct{}),
	}
	if !l.Post(s.beginCall) {
		return nil, 0, fmt.Errorf("%w: %w", cluster.ErrUnavailable, net.ErrClosed)
	}
	select {
	case <-s.done:
		return s.reply, s.acked, s.err
	case <-ctx.Done():
		l.Post(s.cancelCall)
		return nil, 0, context.Cause(ctx)
	case <-l.Done():
		return nil, 0, fmt.Errorf("%w: %w", cluster.ErrUnknownOutcome, net.ErrClosed)
	}
}

// syncing is one call of Synced. Its methods run on the loop.
type syncing struct {
	p         *Pool
	slot      int
	req, wait []byte
	timeout   time.Duration
	came      time.Time
	budget    *time.Timer
	spent     bool // the budget
	over      bool
	done      chan struct{}

	attempt *syncAttempt // nil: it pauses, or it is over
	try     retry.Tries
	ran     bool // it may have run: it was written, and the answers were lost

	reply []byte // of the last attempt
	acked int
	err   error
}

// beginCall makes the first attempt. The budget begins to count.
func (s *syncing) beginCall() {
	s.came = s.p.loop.Now()
	s.watchBudget()
	s.connectAttempt(Redirection{}, nil)
}

// watchBudget ends the call when its budget is used up.
func (s *syncing) watchBudget() {
	s.budget = s.p.loop.After(max(s.timeLeft(), 0), func() {
		switch {
		case s.over:
		case s.timeLeft() > 0: // its master was away meanwhile
			s.watchBudget()
		case s.attempt != nil:
			s.spent = true
			s.attempt.pipe.Close(errBudget) // which calls Fail
		default:
			s.spent = true
			s.giveUp()
		}
	})
}

// timeLeft is how long the call may take still.
func (s *syncing) timeLeft() time.Duration { return s.p.Left(s.slot, s.came) + s.timeout }

// cancelCall ends a call that nobody waits for any more.
func (s *syncing) cancelCall() {
	if s.over {
		return
	}
	s.endCall()
	if a := s.attempt; a != nil {
		a.leaveConn()
	}
}

// endCall notes that there will be no other attempt. What is still answered counts no more.
func (s *syncing) endCall() {
	s.over = true
	s.budget.Stop()
}

// finishCall passes the result to the waiting goroutine, which reads it only now.
func (s *syncing) finishCall() {
	s.endCall()
	close(s.done)
}

// connectAttempt begins an attempt. source, if not nil, is the script that the node lacks.
func (s *syncing) connectAttempt(to Redirection, source []byte) {
	addr := cmp.Or(to.Addr, s.p.MasterOf(s.slot))
	if addr == "" {
		s.attemptLater(retry.Unserved, nil)
		return
	}
	a := &syncAttempt{s: s, asking: to.Asking, healed: source != nil}
	s.attempt = a
	a.pipe = s.p.Own(addr, Mode{Proto: 2}, a)
	a.pipe.SetSilence(s.timeout + s.p.o.ConnectTimeout)
	req := s.req
	if source != nil {
		req = script.WithSource(req, source)
	}
	if to.Asking { // right before the request that it is for
		a.pipe.Request(asking, &Collector{Then: func([]byte, error) {}}, 0)
	}
	a.pipe.Request(req, &Collector{Then: a.takeReply}, 0)
	a.pipe.Request(s.wait, &Collector{Then: a.takeWaitReply}, 0)
}

// attemptLater makes the next attempt after a pause. reply or err is why the last one failed.
func (s *syncing) attemptLater(reply []byte, err error) {
	s.attempt, s.reply, s.err = nil, reply, err
	s.p.control.Refresh()
	if s.spent || s.p.closed {
		s.giveUp()
		return
	}
	s.p.Rest(s.try.Pause(), func() {
		if !s.over {
			s.connectAttempt(Redirection{}, nil)
		}
	})
}

// giveUp answers with the node's own words, or with why no node could be asked.
func (s *syncing) giveUp() {
	s.p.GaveUp()
	if s.reply == nil || s.ran || retry.IsRedirect(s.reply) {
		outcome := cluster.ErrUnavailable
		if s.ran {
			outcome = cluster.ErrUnknownOutcome
		}
		s.reply, s.err = nil, notTaken(outcome, s.reply, s.err)
	}
	s.finishCall()
}

// syncAttempt is the request and its WAIT on one connection, which it owns.
type syncAttempt struct {
	s      *syncing
	pipe   *Pipe
	asking bool
	healed bool // the script was sent with the request
}

// Push implements owned.Owner.
func (a *syncAttempt) Push([]byte, bool) {}

// Lost implements owned.Owner: the requests have failed.
func (a *syncAttempt) Lost(error) {}

// Party implements owned.Counted.
func (a *syncAttempt) Party() owned.Party { return syncParty }

// takeReply takes the reply to the request; or the connection is lost, or could not be had.
func (a *syncAttempt) takeReply(reply []byte, err error) {
	switch s := a.s; {
	case s.attempt != a:
	case err != nil:
		s.ran = s.ran || errors.Is(err, cluster.ErrUnknownOutcome)
		s.attemptLater(nil, a.pipe.Dead())
	case reply[0] != '-' || !a.detour(reply):
		s.reply, s.err = reply, nil
	}
}

// detour handles an error reply by which the request is to run elsewhere, or later. It reports false for
// every other error. Nothing has run; the WAIT behind it ends with the connection.
func (a *syncAttempt) detour(reply []byte) bool {
	s := a.s
	to, again := a.pipe.Retryable(reply)
	source, heals := a.heals(reply)
	switch {
	case again && to.Addr != "" && s.try.Hop():
		s.reply, s.err = reply, nil
		a.leaveConn()
		s.connectAttempt(to, nil)
	case again:
		a.leaveConn()
		s.attemptLater(reply, nil)
	case heals:
		a.leaveConn()
		s.connectAttempt(Redirection{Addr: a.pipe.addr, Asking: a.asking}, source)
	}
	return again || heals
}

// heals says that the node lacks the script of the request, and returns its source. The node may lose it
// again before the request arrives.
func (a *syncAttempt) heals(reply []byte) (source []byte, ok bool) {
	if r, _ := retry.ErrorOf(reply); r == nil || r.Verdict != retry.LoadScript || a.healed && !a.s.try.Hop() {
		return nil, false
	}
	sha, ok := a.s.p.scripts.SHA(a.s.req)
	if ok {
		source, ok = a.s.p.scripts.Source(sha)
	}
	if ok {
		a.s.p.stats.Redirects[retry.NoScript].Add(1)
	}
	return source, ok
}

// takeWaitReply takes the answer to WAIT, which comes behind the answer to the request.
func (a *syncAttempt) takeWaitReply(reply []byte, err error) {
	s := a.s
	if s.attempt != a {
		return
	}
	if err != nil {
		s.ran = true
		s.attemptLater(nil, a.pipe.Dead())
		return
	}
	v, _, err := resp.Parse(reply)
	switch said := v.Err(); {
	case err == nil && v.Kind == ':':
		s.acked = int(v.Int)
	case strings.HasPrefix(said, "ERR unknown command"):
	case Interrupted(reply), strings.Contains(said, "replica instances"):
		s.ran = true
		a.leaveConn()
		s.attemptLater(nil, cluster.NodeError{Addr: a.pipe.addr,
			Err: errors.New("it became a replica meanwhile")})
		return
	default:
		s.reply, s.err = nil,
			cluster.NodeError{Addr: a.pipe.addr, Err: fmt.Errorf("WAIT: %s", bytes.TrimSpace(reply[1:]))}
	}
	s.attempt = nil
	a.pipe.Release()
	s.finishCall()
}

// leaveConn ends an attempt and its connection. Its answers, which fail now, are not of the attempt any more.
func (a *syncAttempt) leaveConn() {
	a.s.attempt = nil
	a.pipe.End()
}
