package masters

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/cluster"
	"lockproxy/proxy/needs"
)

// needsTimeout is how long a start waits for what the masters forbid.
const needsTimeout = time.Second

// lack is a command that a master forbids.
type lack struct {
	needs.Need
	addr, err string
}

// Forbidden is what the masters forbid that nobody can do without, as they said last. Safe for concurrent
// use.
type Forbidden struct {
	Upstream  Upstream
	UsersOnly bool // clients are users of the upstream
	Locks     bool // the upstream keeps locks
	Log       *slog.Logger

	// nil: nothing is forbidden that is Graver, or nobody has said so yet.
	graver atomic.Pointer[lack]
}

// Ask asks all masters which commands that the proxy needs they forbid, be it by their ACL or by
// rename-command: each once. A master that cannot be asked now is not waited for. It blocks for needsTimeout
// at most. Connections of their own are used and then closed: to subscribe is one of the needs.
func (f *Forbidden) Ask(ctx context.Context) (found []lack) {
	ctx, cancel := context.WithTimeout(ctx, needsTimeout)
	defer cancel()
	t := f.Upstream.Topology()
	wanted, masters := needs.Of(needs.Site{
		Kind: t.Kind, Server: t.Server, UsersOnly: f.UsersOnly, Locks: f.Locks,
	}), t.Masters
	all := make([][]string, len(masters)) // by master and need: the error, if it is forbidden
	var asking sync.WaitGroup
	for i, m := range masters {
		asking.Go(func() { all[i] = askForbidden(ctx, f.Upstream, m.Addr, wanted) }) // ends with ctx
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
	// A master that did not answer everything may still forbid what was lacking before. So only answers of
	// all of them clear that.
	whole := !slices.ContainsFunc(all, func(errs []string) bool { return len(errs) < len(wanted) })
	if i := slices.IndexFunc(found, func(one lack) bool { return one.Graver }); i >= 0 {
		f.graver.Store(&found[i])
	} else if whole {
		f.graver.Store(nil)
	}
	return found
}

// Tell asks them, and logs what is lacking. The start goes on even if something graver is lacking: Refusal
// then makes the proxy not ready, and it may be mended meanwhile.
func (f *Forbidden) Tell(ctx context.Context) {
	for _, one := range f.Ask(ctx) {
		level := slog.LevelWarn
		if one.Graver {
			level = slog.LevelError
		}
		f.Log.Log(ctx, level, "the upstream forbids a command that lockproxy needs", "command", one.Right,
			"without", one.Without, "remedy", one.Remedy(one.err), "node", one.addr, "err", one.err)
	}
}

// Refusal says what is lacking that nobody can do without, or nil.
func (f *Forbidden) Refusal() error {
	if one := f.graver.Load(); one != nil {
		return fmt.Errorf("proxy: node %s forbids %s: %s (%s)", one.addr, one.Right, one.Without,
			one.Remedy(one.err))
	}
	return nil
}

// askForbidden is needs.Forbidden for the node at addr, until ctx ends. If it cannot be reached there are
// none; if it breaks off there are fewer errors than wanted.
func askForbidden(ctx context.Context, upstream Upstream, addr string, wanted []needs.Need) (errs []string) {
	conn, err := upstream.Dial(ctx, addr, cluster.Mode{Proto: 2}, nil)
	if err != nil {
		return nil
	}
	defer conn.Close()
	// A deadline that is long over ends what blocks on conn when ctx ends.
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	return needs.Forbidden(conn, wanted)
}
