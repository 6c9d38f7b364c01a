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

// lack is a command that a master forbids.
type lack struct {
	needs.Need
	addr, err string
}

// Forbidden is what the masters forbid that nobody can do without, as they said last. Refusal is safe for
// concurrent use; the other methods are called one at a time.
type Forbidden struct {
	Upstream  Upstream
	UsersOnly bool         // clients are users of the upstream
	Locks     bool         // the upstream keeps locks
	Log       *slog.Logger // nil: nobody is asked

	// nil: nothing is forbidden that is Graver, or nobody has said so yet.
	graver atomic.Pointer[lack]
	whole  bool     // every master has answered everything
	told   []string // rights that are in the log
}

// askMasters asks all masters which commands that the proxy needs they forbid, be it by their ACL or by
// rename-command: each once. A master that cannot be asked now is not waited for. It blocks for timeout at
// most. Connections of their own are used and then closed: to subscribe is one of the needs.
func (f *Forbidden) askMasters(ctx context.Context, timeout time.Duration) (found []lack) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
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
	f.whole = !slices.ContainsFunc(all, func(errs []string) bool { return len(errs) < len(wanted) })
	if i := slices.IndexFunc(found, func(one lack) bool { return one.Graver }); i >= 0 {
		f.graver.Store(&found[i])
	} else if f.whole {
		f.graver.Store(nil)
	}
	return found
}

// Tell asks them, and logs what is lacking, once each. It does nothing once all have answered everything and
// nothing graver is lacking. If something is, Refusal makes the proxy not ready, until that is mended.
func (f *Forbidden) Tell(ctx context.Context, timeout time.Duration) {
	if f.Log == nil || f.whole && f.Refusal() == nil {
		return
	}
	for _, one := range f.askMasters(ctx, timeout) {
		if slices.Contains(f.told, one.Right) {
			continue
		}
		f.told = append(f.told, one.Right)
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
