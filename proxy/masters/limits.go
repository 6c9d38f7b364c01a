// Package masters is what the masters of the upstream are like, beside where they are: how much one command
// may have (CommandLimits), which of them may evict locks (Evictions), and what the proxy's user may not do
// there (Forbidden). All of them are asked at the start, and again and again.
package masters

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

// CommandLimits has the limits of one command: those that are set, lowered to what the masters of the
// upstream accept. A command for which they would close the connection is refused before it is sent. Safe for
// concurrent use.
type CommandLimits struct {
	// What the loops read for each command. The fields behind the lock are what it is made of.
	now atomic.Pointer[limits]

	mu     sync.Mutex
	set    resp.Limits
	learnt cluster.Limits
}

// limits are the limits of one command, after authentication and before.
type limits struct{ open, closed resp.Limits }

// Follow sets the limits. They are those of the settings, at the start and whenever these change.
func (c *CommandLimits) Follow(set resp.Limits) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set = set
	c.applyLimits()
}

// Learn adopts the limits of the masters. Zero values: the masters do not tell, and what is set stands alone.
// It is logged when they change.
func (c *CommandLimits) Learn(learnt cluster.Limits, log *slog.Logger) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if learnt != c.learnt {
		log.Info("limits of the upstream", "proto-max-bulk-len", learnt.Bulk,
			"client-query-buffer-limit", learnt.Buffer)
	}
	c.learnt = learnt
	c.applyLimits()
}

// applyLimits makes the loops use the limits. An argument larger than a client's query buffer may be breaks
// its connection, as one above proto-max-bulk-len does.
func (c *CommandLimits) applyLimits() {
	l := c.set.OrDefaults()
	for _, most := range []int{c.learnt.Bulk, c.learnt.Buffer} {
		if most > 0 {
			l.Bulk = min(l.Bulk, most)
		}
	}
	c.now.Store(&limits{l, l.Unauthenticated()})
}

// Of are the limits of the next command of a client that has authenticated, or has not.
func (c *CommandLimits) Of(authenticated bool) *resp.Limits {
	l := c.now.Load()
	if authenticated {
		return &l.open
	}
	return &l.closed
}
