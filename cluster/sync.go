package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockproxy/internal/resp"
)

// errBudget is why a request was given up although its context goes on.
var errBudget = errors.New("the retry budget is used up")

// Synced runs req, one whole command, on the master of slot n and then waits there
// until replicas of its replicas have everything that this master had done by
// then, or timeout (in ms at least 1) is over. acked is how many have. reply is the
// node's RESP2 reply to req, error replies included; after one of these acked may be
// anything.
//
// req must be idempotent: it is sent again whenever its reply was lost. Redirects, lost scripts and fail-over
// are dealt with inside, for as long as ctx and the budget (DedicatedOptions.Budget, plus timeout) allow. req
// and WAIT go over one connection of their own. Before Redis 7.2 WAIT counts what anybody had written up to
// the last command of the connection; since then up to the last command of it that wrote. So a req serves to
// wait for the writes of others before it if it writes something, be it what is there already. A server
// without WAIT has no replicas: acked is 0.
//
// The error wraps ErrUnavailable when no node has run req, ErrUnknownOutcome when one
// may have; or it is the cause of ctx, or what WAIT was refused with. Safe for concurrent use.
func (d *Dedicated) Synced(ctx context.Context, n int, req []byte, replicas int, timeout time.Duration) (reply []byte, acked int, err error) {
	bounded, cancel := context.WithTimeoutCause(ctx, d.o.Budget+timeout, errBudget)
	defer cancel()
	s := &syncing{d: d, slot: n, req: req, timeout: max(timeout, time.Millisecond)}
	s.wait = resp.AppendCommandStrings(nil, "WAIT", strconv.Itoa(replicas), strconv.FormatInt(s.timeout.Milliseconds(), 10))
	for {
		again := s.attempt(bounded)
		if !again {
			return s.reply, s.acked, s.err
		}
		if bounded.Err() == nil && s.rest(bounded) {
			continue
		}
		switch {
		case ctx.Err() != nil:
			return nil, 0, context.Cause(ctx)
		case s.reply != nil && !s.ran && !isRedirect(s.reply):
			d.stats.GivenUp.Add(1)
			return s.reply, 0, nil
		}
		d.stats.GivenUp.Add(1)
		outcome, why := ErrUnavailable, s.err
		if s.ran {
			outcome = ErrUnknownOutcome
		}
		if why == nil {
			why = complaint(s.reply)
		}
		return nil, 0, fmt.Errorf("no node took it in time: %w: %w", outcome, why)
	}
}

// syncing is one call of Synced on its way.
type syncing struct {
	d         *Dedicated
	slot      int
	req, wait []byte
	timeout   time.Duration

	addr   string // where a redirect leads; "": to the master of the slot
	asking bool   // that redirect was ASK
	source []byte // of the script that the node lacks
	pause  bool   // before the next attempt
	try    Retry
	ran    bool // perhaps: it was written, and its reply was lost

	reply []byte // of the last attempt
	acked int
	err   error
}

// rest makes the pause before the next attempt, if there is one. It reports false when
// ctx ends.
func (s *syncing) rest(ctx context.Context) bool {
	if !s.pause {
		return true
	}
	s.pause = false
	timer := time.NewTimer(s.try.Pause())
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// retry says that the topology may be out of date, and the next attempt comes after
// a pause.
func (s *syncing) retry(reply []byte, err error) (again bool) {
	s.d.control.Refresh()
	s.addr, s.asking, s.source, s.pause = "", false, nil, true
	s.reply, s.err = reply, err
	return true
}

// attempt runs the request once. It reports whether it is to be run again.
func (s *syncing) attempt(ctx context.Context) (again bool) {
	addr := s.addr
	if addr == "" {
		master := s.d.control.Topology().Slots[s.slot]
		if master == nil {
			return s.retry(Unserved, nil)
		}
		addr = master.Addr
	}
	c, err := s.d.Borrow(ctx, addr)
	if err != nil {
		return s.retry(nil, err)
	}
	c.SetDeadline(time.Now().Add(s.timeout + s.d.o.Silence))
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	again, whole, err := s.exchange(c)
	if !stop() {
		whole = false // its deadline may come to be any moment
	}
	switch {
	case err != nil:
		c.lost()
		s.ran = true
		s.retry(nil, err)
		s.pause = !c.Reused // one that idled may have been closed long ago
	case whole:
		c.SetDeadline(time.Time{})
		c.GiveBack()
	default:
		c.Discard()
	}
	return again || err != nil
}

// exchange sends the request and reads the replies. whole: all of them came. An
// error is of the connection.
func (s *syncing) exchange(c *Conn) (again, whole bool, err error) {
	var out []byte
	before := 0 // replies that come before the one of req
	if s.source != nil {
		out = resp.AppendCommand(out, []byte("SCRIPT"), []byte("LOAD"), s.source)
		before++
	}
	if s.asking { // right before the command that it is for
		out = append(out, asking...)
		before++
	}
	if _, err := c.Write(slices.Concat(out, s.req, s.wait)); err != nil {
		return false, false, nodeError{c.addr, err}
	}
	for range before {
		if _, err := c.Reply(); err != nil {
			return false, false, err
		}
	}
	reply, err := c.Reply()
	if err != nil {
		return false, false, err
	}
	if reply[0] == '-' && s.detour(c, reply) {
		// Nothing ran. The WAIT behind it may take its time: it ends with the connection.
		return true, false, nil
	}
	s.reply, s.err = reply, nil
	waited, err := c.Reply()
	if err != nil {
		return false, false, err
	}
	return s.waited(c, waited), true, nil
}

// detour deals with an error reply that says that the request is to be run elsewhere, or
// later. It reports false for every other error.
func (s *syncing) detour(c *Conn, reply []byte) bool {
	d := s.d
	r, rest := retryErrorOf(reply)
	if r == nil {
		return false
	}
	switch r.verdict {
	case elsewhere:
		_, addr, ok := parseRedirect(rest, c.addr)
		if !ok {
			return false
		}
		if !knows(d.control.Topology(), d.control, addr) {
			return s.retry(reply, nil)
		}
		if !s.try.Hop() {
			d.stats.Redirects[LoopRedirect].Add(1)
			return s.retry(reply, nil)
		}
		d.control.Refresh()
		s.addr, s.asking, s.source, s.reply, s.err = addr, r.counts == AskRedirect, nil, reply, nil
		d.stats.Redirects[r.counts].Add(1)
		return true
	case later:
		d.stats.Redirects[r.counts].Add(1)
		return s.retry(reply, nil)
	}
	return s.heal(c, reply)
}

// heal has the next attempt load the script that the node lacks.
func (s *syncing) heal(c *Conn, reply []byte) bool {
	if s.d.o.Source == nil || s.source != nil {
		return false
	}
	v, _, err := resp.Parse(s.req)
	if err != nil || len(v.Elems) < 2 {
		return false
	}
	source, ok := s.d.o.Source(bytes.ToLower(v.Elems[1].Str))
	if !ok {
		return false
	}
	s.d.stats.Redirects[ScriptRedirect].Add(1)
	s.source, s.reply, s.err = source, reply, nil
	s.addr = c.addr // asking stays as it is
	return true
}

// waited reads the reply of WAIT. It reports whether all is to be run again: the
// node is no master any more.
func (s *syncing) waited(c *Conn, reply []byte) (again bool) {
	v, _, err := resp.Parse(reply)
	said := v.Err()
	word, _, _ := strings.Cut(said, " ")
	switch {
	case err == nil && v.Kind == ':':
		s.acked = int(v.Int)
	case strings.HasPrefix(said, "ERR unknown command"):
		s.acked = 0
	case word == "UNBLOCKED", strings.Contains(said, "replica instances"):
		s.ran = true
		return s.retry(nil, nodeError{c.addr, errors.New("it became a replica meanwhile")})
	default:
		s.reply = nil
		s.err = nodeError{c.addr, fmt.Errorf("WAIT: %s", bytes.TrimSpace(reply[1:]))}
	}
	return false
}
