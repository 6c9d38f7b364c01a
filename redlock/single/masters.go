package single

import (
	"context"

	"lockproxy/internal/slot"
	"lockproxy/internal/subscription"
	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// masters are the masters that keep the locks: which of them has a lock, and whether it may grant it now.
// Safe for concurrent use.
type masters struct {
	*redlock.Undoer
	upstream redlock.Upstream
	names    *redlock.Names
	o        Options
	grace    grace
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
	f := scripts.Freeing{Proxy: m.names.ID, Publish: redlock.Publish(m.upstream),
		Next: scripts.GrantNext, Apart: apart}
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

// Scan implements locks.engine. i is the number of the master, in the order of their lowest slots.
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
