package proxy

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"lockproxy/cluster"
	"lockproxy/proxy/needs"
)

// needsTimeout is how long a start waits for what the masters forbid.
const needsTimeout = time.Second

// locksHere says that the upstream keeps locks.
func locksHere(s *Server) bool { return s.locks.engines.Quorum == nil || len(s.o.Redlock.Prefixes) > 0 }

// tellNeeds logs, once for each, which commands that the proxy needs are forbidden at a master, be it by its
// ACL or by rename-command. A master that cannot be asked now is not waited for.
func tellNeeds(ctx context.Context, s *Server) {
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
				tellNeed(s.o.Log, n, m.Addr, all[i][k])
				break
			}
		}
	}
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

// tellNeed logs that the node at addr forbids n, in its words.
func tellNeed(log *slog.Logger, n needs.Need, addr, err string) {
	level := slog.LevelWarn
	if n.Graver {
		level = slog.LevelError
	}
	log.Log(context.Background(), level, "the upstream forbids a command that lockproxy needs",
		"command", n.Right, "without", n.Without, "remedy", n.Remedy(err), "node", addr, "err", err)
}
