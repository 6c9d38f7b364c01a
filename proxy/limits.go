package proxy

import (
	"context"
	"sync"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

// This file is the limits of one command: those that are set, lowered to what the masters of the upstream take, so
// that a command which they would close the connection for is refused before it is sent.

// limits are those of one command, after AUTH and before.
type limits struct{ open, closed resp.Limits }

// commandLimits are those of the upstream.
type commandLimits struct {
	mu     sync.Mutex
	learnt cluster.Limits
}

// learnLimits asks the masters of the upstream for theirs.
func (s *Server) learnLimits(ctx context.Context) {
	learnt := s.upstream.Limits(ctx)
	s.commandLimits.mu.Lock()
	defer s.commandLimits.mu.Unlock()
	if learnt != s.commandLimits.learnt {
		s.o.Log.Info("limits of the upstream", "proto-max-bulk-len", learnt.Bulk, "client-query-buffer-limit", learnt.Buffer)
	}
	s.commandLimits.learnt = learnt
	s.applyLimits()
}

// applyLimits has the loops keep the limits. It needs the lock of commandLimits. An argument larger than the query buffer of a client may be breaks its
// connection as one above proto-max-bulk-len does.
func (s *Server) applyLimits() {
	l := s.now.Load().Limits
	for _, most := range []int{s.commandLimits.learnt.Bulk, s.commandLimits.learnt.Buffer} {
		if most > 0 {
			l.Bulk = min(l.BulkLimit(), most)
		}
	}
	s.limits.Store(&limits{l, l.Unauthenticated()})
}

// limitsOf are those of the next command of s.
func (w *worker) limitsOf(s *session) *resp.Limits {
	l := w.server.limits.Load()
	if s.Authenticated {
		return &l.open
	}
	return &l.closed
}
