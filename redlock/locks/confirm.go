package locks

import (
	"context"
	"fmt"

	"lockproxy/redlock"
)

// Confirm waits until a.Sync replicas of the lock's master have the grant g that a was
// given. It blocks: for Options.SyncTimeout, and longer only while nodes fail over, at the
// longest until the lease of g is over. The result is g with what remains of its
// lease. An error means that there is no grant: what a has made is taken back, also when
// ctx ends, whose cause is returned then. NOREPLICAS is told when it is taken back already,
// unless that is impossible, so that the next one gets the lock at once. Safe for
// concurrent use, once for each a.
func (l *Locker) Confirm(ctx context.Context, a *redlock.Acquire, g redlock.Grant) (redlock.Grant, error) {
	if a.Sync <= 0 {
		return g, nil
	}
	left, acked, err := l.engine.Confirm(ctx, a, g)
	switch {
	case err != nil:
		l.Undo(a)
		return redlock.Grant{}, err
	case left <= 0:
		l.Undo(a) // the other replicas may bring it back
		return redlock.Grant{}, errUnconfirmed
	case acked < a.Sync:
		l.stats.unsynced.Add(1)
		outcome := "it was given back"
		if err := l.engine.UndoOnce(a); err != nil {
			outcome = "it is being given back"
			l.Undo(a)
		}
		return redlock.Grant{},
			redlock.ReplyError(fmt.Sprintf("NOREPLICAS %d/%d replicas have the lock, so %s: "+
				"look after the replicas of its master, or ask for fewer with SYNC", acked, a.Sync, outcome))
	}
	g.TTL = left
	return g, nil
}

// errUnconfirmed is said of a grant that was lost before the replicas had it.
var errUnconfirmed = redlock.ReplyError("TRYAGAIN the lock was granted, and lost before its replicas " +
	"had it: a replica took over, or the lease was too short for SYNC")
