package locks

import (
	"context"
	"fmt"
	"time"

	"lockproxy/redlock"
)

// Confirm waits until a.Sync replicas of the lock's master have the grant g of a. It returns g with what is
// left of its lease. It blocks for Options.SyncTimeout at most, longer only while nodes fail over, and never
// beyond the lease of g. On an error there is no grant: whatever a left in Redis is taken back, also when ctx
// ends, whose cause is then returned. NOREPLICAS is returned only after that, if at all possible, so that the
// next waiter gets the lock at once. Safe for concurrent use, once for each a.
func (l *Locker) Confirm(ctx context.Context, a *redlock.Acquire, g redlock.Grant) (redlock.Grant, error) {
	if a.Sync <= 0 {
		return g, nil
	}
	left, acked, err := l.engine.Confirm(ctx, a, g, l.o.SyncTimeout)
	switch {
	case err != nil:
		l.Undo(a)
		return redlock.Grant{}, a.MayHold(err)
	case left <= 0:
		l.Undo(a) // otherwise the other replicas may bring it back
		return redlock.Grant{}, errUnconfirmed
	case acked < a.Sync:
		l.stats.countOne(NoReplicas)
		var err error = redlock.ReplyError(fmt.Sprintf("NOREPLICAS %d/%d replicas have the lock, so it is "+
			"given back: look after the replicas of its master, or ask for fewer with SYNC", acked, a.Sync))
		if l.engine.UndoOnce(a) != nil {
			l.Undo(a)
			err = a.MayHold(err)
		}
		return redlock.Grant{}, err
	}
	g.TTL, g.At = left, time.Now()
	return g, nil
}

// errUnconfirmed is for a grant that was lost before the replicas had it.
var errUnconfirmed = redlock.ReplyError("TRYAGAIN the lock was granted, and lost before its replicas " +
	"had it: a replica took over, or the lease was too short for SYNC")
