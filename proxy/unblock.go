package proxy

import (
	"context"
	"errors"

	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// Reasons for which the context of a task that waits for a lock ends.
var (
	errUnblocked = errors.New("UNBLOCKED client unblocked via CLIENT UNBLOCK")
	errTimeIsUp  = errors.New("proxy: the wait was ended as if its time were over")
)

var unblockedReply = commands.ErrorReply(errUnblocked)

// Unblock implements commands.Clients. The client may be on any loop, so that a task asks them all.
func (c clients) Unblock(id int64, withError bool) {
	workers := c.s.w.server.workers
	c.s.actions().Task(func(ctx context.Context) []byte {
		ended := make(chan bool, len(workers))
		asked := 0
		for _, w := range workers {
			if w.loop.Post(func() { w.unblock(id, withError, func(done bool) { ended <- done }) }) {
				asked++
			}
		}
		for range asked {
			select {
			case done := <-ended:
				if done {
					return []byte(":1\r\n")
				}
			case <-ctx.Done():
				return commands.ErrorReply(context.Cause(ctx))
			}
		}
		return []byte(":0\r\n")
	}, nil)
}

// unblock ends the wait of a client of this worker. ended is told, at once or later, whether it did.
func (w *worker) unblock(id int64, withError bool, ended func(bool)) {
	s := w.blocked[id]
	switch {
	case s == nil || s.gone:
		ended(false)
	case s.stay != nil && s.stay.begun:
		s.stay.what.unblock(withError, ended)
	case s.cancel == nil: // somebody else has ended it, and it has not noticed yet
		ended(false)
	default:
		why := errTimeIsUp
		if withError {
			why = errUnblocked
		}
		s.cancel(why)
		s.ctx, s.cancel = nil, nil // those of later tasks
		ended(true)
	}
}

// waitForLock notes that a task begins which waits for a lock.
func (s *session) waitForLock() {
	s.writes.addSomewhere()
	s.lockWaits++
	s.Blocked = true
	s.w.blocked[s.ID] = s
}

// waitedForLock notes the end of such a task, and makes its reply that of CLIENT UNBLOCK if that has ended it.
func (s *session) waitedForLock(ctx context.Context, reply []byte) []byte {
	if s.lockWaits--; s.lockWaits == 0 {
		s.Blocked = false
		delete(s.w.blocked, s.ID)
	}
	if len(reply) > 0 && reply[0] != '-' {
		return reply
	}
	switch context.Cause(ctx) {
	case errUnblocked:
		return unblockedReply
	case errTimeIsUp:
		return resp.AppendNull(nil, s.Proto)
	}
	return reply
}
