package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"lockproxy/cluster"
	"lockproxy/proxy/needs"
)

// needsTimeout is how long a start waits for what the masters forbid.
const needsTimeout = time.Second

// locksHere says that the upstream keeps locks.
func locksHere(s *Server) bool { return s.locks.engines.Quorum == nil || len(s.o.Redlock.Prefixes) > 0 }

// lack is a command that a master forbids.
type lack struct {
	needs.Need
	addr, err string
}

// lacks asks all masters which commands that the proxy needs they forbid, be it by their ACL or by
// rename-command: each once. A master that cannot be asked now is not waited for.
func (s *Server) lacks(ctx context.Context) (found []lack) {
	ctx, cancel := context.WithTimeout(ctx, needsTimeout)
	defer cancel()
	t := s.upstream.Topology()
	wanted, masters := needs.Of(needs.Place{
		Kind: t.Kind, Server: t.Server, UsersOnly: s.o.UsersOnly,
		Locks: locksHere(s),
	}), t.Masters
	all := make([][]string, len(masters)) // by master and need: the error, if it is forbidden
	var asking sync.WaitGroup
	for i, m := range masters {
		asking.Go(func() { all[i] = forbidden(ctx, s.upstream, m.Addr, wanted) }) // ends with ctx
	}
	asking.Wait()
	for k, n := range wanted {
		for i, m := range masters {
			if k < len(all[i]) && all[i][k] != "" {
				found = append(found, lack{n, m.Addr, all[i][k]})
				break
			}
		}
	}
	whole := !slices.ContainsFunc(all, func(errs []string) bool { return len(errs) < len(wanted) })
	if i := slices.IndexFunc(found, func(l lack) bool { return l.Graver }); i >= 0 {
		s.graver.Store(&found[i])
	} else if whole {
		s.graver.Store(nil)
	}
	return found
}

// tellNeeds logs what is lacking at the start.
func (s *Server) tellNeeds(ctx context.Context) {
	for _, l := range s.lacks(ctx) {
		level := slog.LevelWarn
		if l.Graver {
			level = slog.LevelError
		}
		s.o.Log.Log(ctx, level, "the upstream forbids a command that lockproxy needs", "command", l.Right,
			"without", l.Without, "remedy", l.Remedy(l.err), "node", l.addr, "err", l.err)
	}
}

// needy returns what is lacking that nobody can do without, or nil.
func (s *Server) needy() error {
	if l := s.graver.Load(); l != nil {
		return fmt.Errorf("proxy: node %s forbids %s: %s (%s)", l.addr, l.Right, l.Without, l.Remedy(l.err))
	}
	return nil
}

// forbidden is needs.Forbidden for the node at addr, until ctx ends.
func forbidden(ctx context.Context, upstream Upstream, addr string, wanted []needs.Need) (errs []string) {
	conn, err := upstream.Dial(ctx, addr, cluster.Mode{Proto: 2}, nil)
	if err != nil {
		return nil
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	return needs.Forbidden(conn, wanted)
}
