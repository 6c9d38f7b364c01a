package redlock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"lockproxy/internal/subscription"
)

// Home is a Redis or a cluster as those ask it who can wait. Safe for concurrent use.
type Home interface {
	// Do runs req, one whole command, on the master of slot and returns the node's RESP2 reply, error
	// replies included. Redirects, lost scripts and fail-over are dealt with inside, but not TRYAGAIN.
	// resend: req may be sent again when its reply was lost. An error means that nobody could be asked, or
	// that it is not known whether req has run.
	Do(ctx context.Context, slot int, req []byte, resend bool) (reply []byte, err error)
	// DoWhole is Do for a request that needs all of its keys at one node: it waits for that.
	DoWhole(ctx context.Context, slot int, req []byte, resend bool) (reply []byte, err error)
}

// Upstream reaches the Redis or the cluster that keeps the locks. Safe for concurrent use.
type Upstream interface {
	Home
	// Synced runs req, which must be idempotent, as Do does and then waits on that master
	// until replicas of its replicas have everything that it had done by then, or
	// timeout is over. acked is how many have.
	Synced(
		ctx context.Context, slot int, req []byte, replicas int, timeout time.Duration,
	) (reply []byte, acked int, err error)
	// Subscribe listens on channel, which belongs to slot, until cancel is called. It never blocks. notify is
	// called in order and must not block.
	Subscribe(slot int, channel string, notify func(subscription.Change)) (cancel func())
	// Masters is how many masters there are now.
	Masters() int
	// Master names the master that has slot now; "" if nobody knows it.
	Master(slot int) string
	// DoMaster is Do for the i-th master, in the order of their lowest slots.
	DoMaster(ctx context.Context, i int, req []byte, resend bool) (reply []byte, err error)
	// Sharded says that messages go by SPUBLISH and not by PUBLISH.
	Sharded() bool
	// DeleteIf is the command of all nodes that deletes a key if it has a certain value: DELIFEQ, DELEX; ""
	// if there is none.
	DeleteIf() string
	// Evicting says that there may be a slot for which Evicts is not nil.
	Evicting() bool
	// Evicts says why the master of slot may delete locks by itself, so that no new ones are to be made
	// there. nil: it does not, as far as that is known.
	Evicts(slot int) error
	// Parted is when a node last said that some keys of slot are at another node; the zero time: never.
	Parted(slot int) time.Time
}

// Publish is the command by which u wakes waiters.
func Publish(u Upstream) string {
	if u.Sharded() {
		return "SPUBLISH"
	}
	return "PUBLISH"
}

// Parted says that a reply is TRYAGAIN of Redis: a node has not all keys of a request, because the slot
// moves.
func Parted(reply []byte) bool { return bytes.HasPrefix(reply, tryAgain) }

// As Redis begins it: "Multiple keys request during rehashing of slot". Other words behind TRYAGAIN are of a
// script, or of this proxy.
var tryAgain = []byte("-TRYAGAIN Multiple keys ")

// Evicted is the error for an Acquire at a master that may delete locks by itself: why.
func Evicted(why error) error {
	return ReplyError(fmt.Sprintf(
		"MISCONF no new locks here: %v; what is held can be renewed and released", why))
}

// errLeaseOver ends a confirmation when there is nothing left to confirm.
var errLeaseOver = errors.New("the lease is over")

// Confirmed has replicas of the lock's master confirm a grant: req is a write that changes nothing and asks
// whether the hold is still there. read reads its reply: how much of the lease was left, in ms. left is not
// above 0 if the hold is gone. It blocks for timeout, longer only while nodes fail over, and never beyond the
// lease.
func Confirmed(
	ctx context.Context, u Upstream, slot int, req []byte, replicas int, timeout, lease time.Duration,
	read func(reply []byte) (left []int64, err error),
) (left time.Duration, acked int, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, lease, errLeaseOver)
	defer cancel()
	began := time.Now()
	reply, acked, err := u.Synced(limited, slot, req, replicas, timeout)
	var lasts []int64
	if err == nil {
		lasts, err = read(reply)
	}
	switch {
	case errors.Is(err, errLeaseOver):
		return 0, 0, nil
	case err != nil:
		return 0, 0, err
	}
	return time.Duration(lasts[0])*time.Millisecond - time.Since(began).Truncate(time.Millisecond), acked, nil
}
