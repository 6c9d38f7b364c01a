// Package compat keeps locks in the form of other libraries, at the very keys that those use, so that
// programs with such a library and clients of lockproxy exclude each other while people change over. The key
// is a string that SET NX PX makes: redsync, redislock, redis-py, node-redlock with one server.
//
// Such a lock has one writer, who holds it once; there is no room for more. It has no queue: the clients of
// one proxy are served first come, first served (wait.Local), all others try now and then. How a lock is
// kept: redlock/scripts/compat.lua.
package compat

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"lockproxy/internal/slot"
	"lockproxy/internal/subscription"
	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
	"lockproxy/redlock/wait"
)

// Upstream reaches the Redis that keeps the locks. What the methods do is described at single.Upstream. Safe
// for concurrent use.
type Upstream interface {
	redlock.Home
	Synced(ctx context.Context, slot int, req []byte, replicas int, timeout time.Duration) (
		reply []byte, acked int, err error)
	Subscribe(slot int, channel string, notify func(subscription.Change)) (cancel func())
	Masters() int
	Master(slot int) string
	Sharded() bool
	Evicts(slot int) error
	Parted(slot int) time.Time
}

// Options are those of an Engine.
type Options struct {
	MaxQueue    int           // waiters of one lock, at most
	SyncTimeout time.Duration // replicas are waited for so long
	Log         *slog.Logger
}

const (
	// look is how often a waiter looks whether a library has freed the lock, which says so to nobody.
	look = 50 * time.Millisecond
	// undoTimeout bounds one attempt to take something back.
	undoTimeout = 5 * time.Second
)

// Engine keeps such locks. Safe for concurrent use.
type Engine struct {
	upstream Upstream
	names    *redlock.Names // Bare ones
	o        Options
	waiters  *wait.Local
	undone   redlock.Undone

	// What goes on when nobody waits for it ends with ctx.
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // that Close waits for
}

// New is an Engine that reaches its Redis by u. names are Bare.
func New(u Upstream, names *redlock.Names, o Options) *Engine {
	e := &Engine{upstream: u, names: names, o: o}
	e.waiters = wait.NewLocal(e, names, o.MaxQueue, o.Log)
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// channel is the channel on which those who wait for a lock hear that it is free. It belongs to the
// slot of the lock, unless the name has odd braces.
func (e *Engine) channel(name string) string {
	prefix := e.names.Prefix + "freed"
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// publish is the command that wakes waiters.
func (e *Engine) publish() string {
	if e.upstream.Sharded() {
		return "SPUBLISH"
	}
	return "PUBLISH"
}

// Listen implements wait.Engine and keepalive.Engine. A slot below 0 is that of a keeper's channel; any other
// channel is the name of a lock.
func (e *Engine) Listen(at int, name string, notify func(subscription.Change)) (cancel func()) {
	if at >= 0 {
		name = e.channel(name)
		at = slot.Of([]byte(name))
	}
	return e.upstream.Subscribe(at, name, notify)
}

// Masters implements locks.engine.
func (e *Engine) Masters() int { return e.upstream.Masters() }

// Master implements keepalive.Engine.
func (e *Engine) Master(slot int) string { return e.upstream.Master(slot) }

// Scan implements locks.engine: nothing tells these locks from other keys.
func (*Engine) Scan(context.Context, int, string, string) (keys []string, next string, err error) {
	return nil, "0", nil
}

// send sends one request about a lock for a client. While the slot of the lock moves, it is sent again until
// one node has all of its keys; so later commands of the client about the lock wait.
func send(
	by redlock.Caller, name string, at int, req []byte, resend bool, then redlock.ExchangeFunc,
	lost redlock.Delivery,
) {
	by.Hold(name)
	by.SendHome(at, req, resend, then, lost)
}

// parted says that a node has not all keys of a request, because the slot moves.
func parted(reply []byte) bool { return bytes.HasPrefix(reply, []byte("-TRYAGAIN Multiple keys ")) }

// do sends one request that nobody's loop waits for. It blocks.
func (e *Engine) do(ctx context.Context, at int, c scripts.Call) ([]byte, error) {
	return e.upstream.Do(ctx, at, c.Req, true)
}

// Close implements locks.engine: it waits until what is to be taken back is.
func (e *Engine) Close(ctx context.Context) {
	stop := context.AfterFunc(ctx, e.cancel)
	defer stop()
	e.work.Wait()
	e.cancel()
	e.waiters.Close()
}
