package pipe

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"lockproxy/cluster"
	"lockproxy/cluster/retry"
	"lockproxy/internal/resp"
)

// syncAttempt is the request and its WAIT on one connection. It implements Owner and Receiver.
type syncAttempt struct {
	s      *syncing
	pipe   *Pipe
	asking bool
	healed bool   // the script was sent with the request
	reply  []byte // what came of the next one
}

// Requests of an attempt, in this order.
const (
	askingTag = iota
	requestTag
	waitTag
)

// Receive implements Receiver.
func (a *syncAttempt) Receive(tag uint32, chunk []byte, last bool) {
	if a.s.attempt != a {
		return
	}
	a.reply = append(a.reply, chunk...)
	if !last {
		return
	}
	reply := a.reply
	a.reply = nil
	switch tag {
	case requestTag:
		if reply[0] != '-' || !a.detour(reply) {
			a.s.reply, a.s.err = reply, nil
		}
	case waitTag:
		a.waited(reply)
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
		a.leave()
		s.connect(to, nil)
	case again:
		a.leave()
		s.later(reply, nil)
	case heals:
		a.leave()
		s.connect(Redirection{Addr: a.pipe.addr, Asking: a.asking}, source)
	}
	return again || heals
}

// heals says that the node lacks the script of the request, and returns its source. The node may lose it
// again before the request arrives.
func (a *syncAttempt) heals(reply []byte) (source []byte, ok bool) {
	if r, _ := retry.ErrorOf(reply); r == nil || r.Verdict != retry.LoadScript || a.healed && !a.s.try.Hop() {
		return nil, false
	}
	return a.s.p.sourceFor(a.s.req)
}

// waited reads the answer to WAIT, which comes behind the answer to the request.
func (a *syncAttempt) waited(reply []byte) {
	s := a.s
	v, _, err := resp.Parse(reply)
	switch said := v.Err(); {
	case err == nil && v.Kind == ':':
		s.acked = int(v.Int)
	case strings.HasPrefix(said, "ERR unknown command"):
	case Interrupted(reply), strings.Contains(said, "replica instances"):
		s.ran = true
		a.leave()
		s.later(nil, cluster.NodeError{Addr: a.pipe.addr, Err: errors.New("it became a replica meanwhile")})
		return
	default:
		s.reply, s.err = nil,
			cluster.NodeError{Addr: a.pipe.addr, Err: fmt.Errorf("WAIT: %s", bytes.TrimSpace(reply[1:]))}
	}
	s.attempt = nil
	a.pipe.Release()
	s.finish()
}

// leave ends an attempt and its connection.
func (a *syncAttempt) leave() {
	a.s.attempt = nil
	a.pipe.End()
}

// Fail implements Receiver: the connection is lost, or could not be had.
func (a *syncAttempt) Fail(tag uint32, err error) {
	s := a.s
	if s.attempt != a || tag < requestTag {
		return
	}
	s.ran = s.ran || tag == waitTag || errors.Is(err, cluster.ErrUnknownOutcome)
	s.later(nil, a.pipe.dead)
}

// Discard implements Receiver.
func (a *syncAttempt) Discard(uint32) bool { return true }

// Detour implements Receiver.
func (a *syncAttempt) Detour(uint32) {}

// Push implements Owner.
func (a *syncAttempt) Push([]byte, bool) {}

// Lost implements Owner: Fail has said it.
func (a *syncAttempt) Lost(error) {}

// Party implements Counted.
func (a *syncAttempt) Party() Party { return syncParty }
