package proxy

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

// commandLimits has the limits of one command: those that are set, lowered to what the masters of the
// upstream accept. A command for which they would close the connection is refused before it is sent. Safe for
// concurrent use.
type commandLimits struct {
	now atomic.Pointer[limits]

	mu     sync.Mutex
	set    resp.Limits
	learnt cluster.Limits
}

// limits are the limits of one command, after authentication and before.
type limits struct{ open, closed resp.Limits }

// follow sets the limits.
func (c *commandLimits) follow(set resp.Limits) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set = set
	c.apply()
}

// learn adopts the limits of the masters.
func (c *commandLimits) learn(learnt cluster.Limits, log *slog.Logger) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if learnt != c.learnt {
		log.Info(
			"limits of the upstream",
			"proto-max-bulk-len",
			learnt.Bulk,
			"client-query-buffer-limit",
			learnt.Buffer,
		)
	}
	c.learnt = learnt
	c.apply()
}

// apply makes the loops use the limits. An argument larger than a client's query buffer may be breaks its
// connection, as one above proto-max-bulk-len does.
func (c *commandLimits) apply() {
	l := c.set
	for _, most := range []int{c.learnt.Bulk, c.learnt.Buffer} {
		if most > 0 {
			l.Bulk = min(l.BulkLimit(), most)
		}
	}
	c.now.Store(&limits{l, l.Unauthenticated()})
}

// limitsOf returns the limits of the next command of s.
func (w *worker) limitsOf(s *session) *resp.Limits {
	l := w.server.limits.now.Load()
	if s.Authenticated {
		return &l.open
	}
	return &l.closed
}
