package keepalive

import (
	"context"
	"time"
)

// mostFreers bounds how many requests that free holds are under way, however many holds a client had that
// went away.
const mostFreers = 256

// leaving has the holds that are to be freed now, in turn, and counts who frees them. Renewer.mu guards it. A
// hold in it stands in no agenda: a freer has it next.
type leaving struct {
	holds  []*Kept
	freers int // goroutines that free holds
}

// addHold puts h behind the others. It says that one more freer is to start; that one is counted already.
func (l *leaving) addHold(h *Kept) (start bool) {
	l.holds = append(l.holds, h)
	if start = l.freers < mostFreers; start {
		l.freers++
	}
	return start
}

// nextHold takes the first hold. nil: there is none, and the freer who asks is counted no more.
func (l *leaving) nextHold() *Kept {
	if len(l.holds) == 0 {
		l.holds = nil
		l.freers--
		return nil
	}
	h := l.holds[0]
	l.holds[0], l.holds = nil, l.holds[1:]
	return h
}

// beginFreeing has h freed, at once or later. Close waits until h is freed or its lease is over. After
// unfreed it pauses: 20 ms at first, twice as long each time, 5 s at most. Renewer.mu is held.
func (h *Kept) beginFreeing(e holdEvent, from state) {
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
		h.waitUntil(at)
		return
	}
	if k.leaving.addHold(h) {
		k.work.Go(k.freeHolds) // ends when nothing is left to free
	}
	h.slot.removeHold(h)
}

// freeHolds frees holds, one attempt each at a time, until none is left. One whose lease is long over is not
// tried: others wait behind it. mu is not held.
func (k *Renewer) freeHolds() {
	var h *Kept
	for failed := error(nil); ; {
		k.changeHolds(func() {
			if h != nil {
				h.detached(failed)
			}
			for h = k.leaving.nextHold(); h != nil && k.now() > h.end+mostPatience; h = k.leaving.nextHold() {
				h.meetEvent(abandoned)
			}
		})
		if h == nil {
			return
		}
		ctx, cancel := context.WithTimeout(k.freeing, mostPatience)
		failed = k.engine.Detach(ctx, h.of.Name, h.of.Token, h.of.Keeper, func() {
			k.changeHolds(func() { h.meetEvent(freed) })
		})
		cancel()
	}
}

// detached notes the outcome of an attempt to free h. mu is held. It is tried again until end, unless Close
// has waited long enough.
func (h *Kept) detached(err error) {
	k := h.k
	if err == nil {
		h.meetEvent(freed)
		return
	}
	k.complain(err)
	if k.now() >= h.end || k.freeing.Err() != nil {
		h.meetEvent(abandoned)
	} else {
		h.meetEvent(unfreed)
	}
}
