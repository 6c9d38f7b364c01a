package proxy

import (
	"context"
	"errors"

	"lockproxy/commands"
)

// errTimeIsUp ends the context of a task that waits for a lock; the other reason is errUnblocked.
var errTimeIsUp = errors.New("proxy: the wait was ended as if its time were over")

// lookAtBlocked makes each command that blocks check its timeout.
func (w *worker) lookAtBlocked() {
	for _, s := range w.blocked {
		s.blocking.Look(w.loop.Now())
	}
}

// Unblock implements commands.Clients. The client may be on any loop, so a task asks them all.
func (c clients) Unblock(id int64, withError bool) {
	workers := c.h.worker().server.workers
	c.h.Actions().Task(commands.Returning(func(ctx context.Context) []byte {
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
	}), nil)
}

// unblock ends the wait of a client of this worker. ended is told, at once or later, whether it did.
func (w *worker) unblock(id int64, withError bool, ended func(bool)) {
	s := w.blocked[id]
	switch {
	case s == nil:
		ended(false)
	case !s.blocking.Unblock(withError, ended):
		ended(!s.gone && s.tasks.unblock(withError))
	}
}
