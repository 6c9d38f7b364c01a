package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockproxy/redlock/scripts"
)

// Confirm waits until a.Sync replicas of the lock's master have the grant g that a was
// given. It blocks: for Options.SyncTimeout, and longer only while nodes fail over, at the
// longest until the lease of g is over. The result is g with what remains of its
// lease. An error means that there is no grant: what a has made is taken back, also when
// ctx ends, whose cause is returned then. NOREPLICAS is told when it is taken back already,
// unless that is impossible, so that the next one gets the lock at once. Safe for
// concurrent use, once for each a.
func (l *Locker) Confirm(ctx context.Context, a *Acquire, g Grant) (Grant, error) {
	if a.Sync <= 0 {
		return g, nil
	}
	left, acked, err := l.engine.Confirm(ctx, a, g)
	switch {
	case err != nil:
		l.Undo(a)
		return Grant{}, err
	case left <= 0:
		l.Undo(a) // the other replicas may bring it back
		return Grant{}, errUnconfirmed
	case acked < a.Sync:
		l.stats.unsynced.Add(1)
		outcome := "it was given back"
		if err := l.engine.UndoOnce(a); err != nil {
			outcome = "it is being given back"
			l.Undo(a)
		}
		return Grant{}, ReplyError(fmt.Sprintf("NOREPLICAS %d/%d replicas have the lock, so %s: "+
			"look after the replicas of its master, or ask for fewer with SYNC", acked, a.Sync, outcome))
	}
	g.TTL = left
	return g, nil
}

// errUnconfirmed is said of a grant that was lost before the replicas had it.
var errUnconfirmed = ReplyError("TRYAGAIN the lock was granted, and lost before its replicas had it: " +
	"a replica took over, or the lease was too short for SYNC")

// errLeaseOver is why a confirmation ends when there is nothing left to be confirmed.
var errLeaseOver = errors.New("the lease is over")

// Confirm implements engine. It asks the lock's master whether g is still there, with a write that changes
// nothing, and waits behind that for the replicas. left is not above 0 when the hold is gone.
func (e *single) Confirm(ctx context.Context, a *Acquire,
	g Grant) (left time.Duration, acked int, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, g.TTL, errLeaseOver)
	defer cancel()
	slot, c := e.names.eval(&scripts.Confirm, a.Name, 2)
	c.owner(a.Token)
	c.text(optional(g.Fence))
	began := time.Now()
	reply, acked, err := e.upstream.Synced(limited, slot, c.req, a.Sync, e.o.syncTimeout)
	switch {
	case errors.Is(err, errLeaseOver):
		return 0, 0, nil
	case err != nil:
		return 0, 0, err
	}
	if left, err = readConfirmed(reply); err != nil {
		return 0, 0, err
	}
	return left - time.Since(began).Truncate(time.Millisecond), acked, nil
}
