package single

import (
	"context"
	"sync"
	"time"

	"lockproxy/internal/slot"
	"lockproxy/internal/subscription"
	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// Upstream reaches the Redis that keeps the locks. Safe for concurrent use.
type Upstream interface {
	redlock.Home
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

// masters are the masters that keep the locks: which of them has a lock, and whether it may grant it now.
// What goes on when nobody waits for it ends with ctx. Safe for concurrent use.
type masters struct {
	upstream Upstream
	names    *redlock.Names
	o        Options
	grace    grace

	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // that Close waits for
}

// granter is the replication id of the master that may make new locks in slot, "" if any may.
func (m *masters) granter(slot int) string {
	if m.upstream.Evicts(slot) != nil {
		return unmet
	}
	return m.grace.master(slot)
}

// freeing says how the scripts free a lock. apart: the lock is their only key. A new master grants nothing
// yet, and one that evicts nothing at all.
func (m *masters) freeing(name string, apart bool) scripts.Freeing {
	f := scripts.Freeing{Proxy: m.names.ID, Publish: m.publish(), Next: scripts.GrantNext, Apart: apart}
	if apart || m.granter(m.slot(name)) != "" {
		f.Next = scripts.OfferNext
	}
	return f
}

// slot is that of a lock.
func (m *masters) slot(name string) int {
	var space [128]byte
	return slot.Of(m.names.AppendKey(space[:0], name))
}

// publish is the command that wakes waiters.
func (m *masters) publish() string {
	if m.upstream.Sharded() {
		return "SPUBLISH"
	}
	return "PUBLISH"
}

// Scan implements locks.engine.
func (m *masters) Scan(ctx context.Context, i int,
	cursor, glob string) (keys []string, next string, err error) {
	reply, err := m.upstream.DoMaster(ctx, i, scripts.ScanRequest(cursor, glob), true)
	if err != nil {
		return nil, "", err
	}
	return scripts.ReadKeys(reply)
}

func (m *masters) Masters() int           { return m.upstream.Masters() }
func (m *masters) Master(slot int) string { return m.upstream.Master(slot) }

// Listen implements locks.engine.
func (m *masters) Listen(slot int, channel string, notify func(subscription.Change)) (cancel func()) {
	return m.upstream.Subscribe(slot, channel, notify)
}
