// Package compat keeps locks in the form of other libraries, at the very keys that those use, so that
// programs with such a library and clients of lockproxy exclude each other while people change over. The key
// is a string that SET NX PX makes: redsync, redislock, redis-py, node-redlock with one server.
//
// Such a lock has one writer, who holds it once; there is no room for more. It has no queue: the clients of
// one proxy are served first come, first served (wait.Local), all others try now and then. How a lock is
// kept: redlock/scripts/compat.lua.
package compat

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"lockproxy/internal/slot"
	"lockproxy/internal/subscription"
	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
	"lockproxy/redlock/wait"
)

// look is how often a waiter looks whether a library has freed the lock, which says so to nobody.
const look = 50 * time.Millisecond

// Engine keeps such locks. Safe for concurrent use.
type Engine struct {
	*redlock.Undoer
	upstream redlock.Upstream
	names    *redlock.Names // Bare ones
	waiters  *wait.Local
}

// New is an Engine that reaches its Redis by u. names are Bare. A lock has at most maxQueue waiters.
func New(u redlock.Upstream, names *redlock.Names, maxQueue int, log *slog.Logger) *Engine {
	e := &Engine{upstream: u, names: names}
	e.waiters = wait.NewLocal(e, names, maxQueue, log)
	e.Undoer = redlock.NewUndoer(log, e.waiters, func(ctx context.Context, a *redlock.Acquire) error {
		return e.freeHold(ctx, a.Name, a.Token, a.ID, "")
	})
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

// sendRequest sends one request about a lock for a client. While the slot of the lock moves, it is sent again
// until one node has all of its keys; so later commands of the client about the lock wait. lost may be nil.
func sendRequest(
	by redlock.Caller, name string, c scripts.Call, resend bool, then redlock.ExchangeFunc,
	lost redlock.Delivery,
) {
	by.Hold(name)
	by.SendHome(c.Slot, c.Req, resend, then, lost)
}
