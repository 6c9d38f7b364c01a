package keepalive

import (
	"context"
	"time"

	"lockproxy/redlock"
)

// mostFreers bounds how many requests that free holds are under way, however many holds a client had that
// went away.
const mostFreers = 256

// leaving has the slots with holds that are to be freed now, in turn, and counts who frees them. Renewer.mu
// guards it.
type leaving struct {
	slots  []*slot
	holds  int // how many they have
	freers int // goroutines that free holds
}

// add puts h behind the others of its slot. It says that one more freer is to start; that one is counted
// already.
func (l *leaving) add(h *Kept) (start bool) {
	s := h.slot
	if len(s.leaving) == 0 {
		l.slots = append(l.slots, s)
	}
	s.leaving = append(s.leaving, h)
	l.holds++
	if start = l.freers < mostFreers; start {
		l.freers++
	}
	return start
}

// next takes up to most holds of one slot. nil: there are none, and the freer who asks is counted no more.
func (l *leaving) next(most int) (batch []*Kept) {
	if len(l.slots) == 0 {
		l.slots = nil
		l.freers--
		return nil
	}
	s := l.slots[0]
	most = min(most, len(s.leaving))
	batch, s.leaving, l.slots = s.leaving[:most], s.leaving[most:], l.slots[1:]
	if len(s.leaving) > 0 {
		l.slots = append(l.slots, s)
	} else {
		s.leaving = nil
	}
	l.holds -= most
	s.tidy()
	return batch
}

// leave has h freed, at once or later. Close waits until h is freed or its lease is over.
func (h *Kept) leave(e event, from state) {
	k := h.k
	now := k.now()
	at := now
	if from.kept() {
		h.end = max(h.until, now+h.of.Lease) // a renewal may be under way
		k.work.Add(1)
	}
	switch e {
	case expired: // its client may still rely on a lease that it was told before
		at = h.latest
	case unfreed:
		at = min(now+min(20*time.Millisecond<<min(h.tries, 10), 5*time.Second), h.end)
		h.tries = min(h.tries+1, 20)
	}
	h.slot = k.slotOf(h.slot.number)
	if at > now {
		h.wait(at)
		return
	}
	if k.leaving.add(h) {
		k.work.Go(k.freeHolds) // ends when nothing is left to free
	}
	h.slot.remove(h)
}

// freeHolds frees holds, those of a slot together, until none is left. mu is not held.
func (k *Renewer) freeHolds() {
	most := 1
	if _, ok := k.engine.(Batcher); ok {
		most = mostKeys
	}
	var batch []*Kept
	for failed := []error(nil); ; failed = k.detach(batch) {
		k.change(func() {
			for i, h := range batch {
				h.detached(failed[i])
			}
			batch = k.leaving.next(most)
		})
		if batch == nil {
			return
		}
	}
}

// detached notes the outcome of an attempt to free h. mu is held.
func (h *Kept) detached(err error) {
	k := h.k
	if err == nil {
		h.meet(freed)
		return
	}
	k.complain(&k.unfreed, "locks of clients that have gone could not be freed yet", err)
	if k.now() >= h.end || k.freeing.Err() != nil {
		h.meet(abandoned)
	} else {
		h.meet(unfreed)
	}
}

// detach makes one attempt to free the holds of batch, all of one slot: as many at once as it can, the others
// one by one. It returns what went wrong, for each. mu is not held.
func (k *Renewer) detach(batch []*Kept) (failed []error) {
	var err error
	done := make([]int64, len(batch))
	if len(batch) > 1 {
		all := make([]redlock.Renewal, len(batch))
		for i, h := range batch {
			all[i] = redlock.Renewal{Name: h.of.Name, Token: h.of.Token, Keeper: h.of.Keeper}
		}
		ctx, cancel := context.WithTimeout(k.freeing, mostPatience)
		done, err = k.engine.(Batcher).DetachAll(ctx, batch[0].slot.number, all)
		cancel()
	}
	for i, h := range batch {
		failed = append(failed, err)
		if err == nil && done[i] == 0 {
			ctx, cancel := context.WithTimeout(k.freeing, mostPatience)
			failed[i] = k.engine.Detach(ctx, h.of.Name, h.of.Token, h.of.Keeper, func() {
				k.change(func() { h.meet(freed) })
			})
			cancel()
		}
	}
	return failed
}
