package keepalive

import (
	"errors"
	"math/rand/v2"
	"time"

	"lockproxy/redlock"
)

// mostKeys is the most holds that a batch has. So one script runs for a short time, and one error concerns
// few holds.
const mostKeys = 64

// slot has the holds of one slot. It has one batch under way at a time. Guarded by Renewer.mu; times count
// from Renewer.born.
type slot struct {
	k      *Renewer
	number int
	holds  agenda[*Kept] // by when something is due for them
	ready  []*Kept       // those that wait for a batch, in this order; some may have gone on meanwhile
	busy   bool          // a batch is under way
	due    date[*slot]   // in Renewer.agenda: when something is due here
	queue  *batchQueue   // in which it waits for its turn
	turn   date[*slot]   // there: when the lease ends that does so first of those that are ready
	resume time.Duration // no batch is sent before
	fails  int           // failed batches in a row
	// After a batch failed, its holds are asked one by one: a slot that moves refuses scripts on several
	// keys. alone counts those that are left to ask so; penalty doubles with each one that fails.
	alone, penalty int
}

// slotOf returns the slot of that number, a new one if needed.
func (k *Renewer) slotOf(number int) *slot {
	s := k.slots[number]
	if s == nil {
		s = &slot{k: k, number: number}
		s.due.owner, s.turn.owner = s, s
		k.slots[number] = s
	}
	return s
}

// tidySlot puts s into its place in the agenda, or forgets it if it is empty.
func (s *slot) tidySlot() {
	at, idle := s.holds.firstDue(), !s.busy && s.turn.place == 0
	if idle && len(s.ready) > 0 {
		at = min(at, s.resume)
	}
	if at < never {
		s.k.agenda.putDate(&s.due, at)
		return
	}
	s.k.agenda.removeDate(&s.due)
	if idle && s.k.slots[s.number] == s { // not another one by now
		delete(s.k.slots, s.number)
	}
}

// removeHold takes h out.
func (s *slot) removeHold(h *Kept) {
	s.holds.removeDate(&h.due)
	s.tidySlot()
}

// actSlot does what is due first, and has s wait for a batch if there is somebody to ask about.
func (s *slot) actSlot(now time.Duration) {
	if s.holds.firstDue() <= now {
		s.holds[0].owner.actHold(now)
	}
	s.queueSlot(now)
}

// queueSlot puts s into the queue of its master, or into its right place there: what is due now may not be
// able to wait as long as what was due before. The order is by when the first lease ends. mu is held, here
// and below.
func (s *slot) queueSlot(now time.Duration) {
	if s.busy || now < s.resume || len(s.ready) == 0 {
		s.tidySlot()
		return
	}
	if s.turn.place == 0 {
		s.turn.at, s.queue = never, s.k.queueOf(s.number)
	}
	at := s.turn.at
	for _, h := range s.ready {
		at = min(at, h.until)
	}
	s.queue.waiting.putDate(&s.turn, at)
	s.tidySlot()
	s.queue.serveSlots(now)
}

// batch returns the holds to ask about now: those that are ready, and those that soon will be. Those that are
// asked about early save a batch of their own.
func (s *slot) batch(now time.Duration) (batch []holdQuestion) {
	most := mostKeys
	if s.alone > 0 {
		most = 1
	}
	for len(s.ready) > 0 && len(batch) < most {
		h := s.ready[0]
		if s.ready = s.ready[1:]; len(s.ready) == 0 {
			s.ready = nil
		}
		if h.state == ready || h.state == readyAgain {
			batch = append(batch, h.askHold(now))
		}
	}
	if len(batch) == 0 {
		return nil
	}
	if s.alone > 0 {
		s.alone--
		return batch
	}
	for len(s.holds) > 0 && len(batch) < most {
		h := s.holds[0].owner
		soon := h.until - h.of.Lease*3/4
		if h.of.Lease <= 2*batch[0].h.of.Lease { // from now on they are renewed together
			soon = h.until - h.of.Lease*11/12
		}
		if h.state != resting || h.exhausted() || now < soon || now >= h.until {
			break
		}
		batch = append(batch, h.askHold(now))
	}
	return batch
}

// batchFailed makes s pause after a failed batch of n holds; each further failure makes the pause longer.
// others says that the master answered others meanwhile, so that it is not just slow. What is refused about
// several holds is no trouble as long as it is not refused about one. A pause is 20 ms at first, doubles up
// to a second, and varies, so that slots do not come back in step.
func (s *slot) batchFailed(n int, err error, others bool) {
	_, refused := errors.AsType[redlock.ReplyError](err)
	if n > 1 && (others || refused) {
		s.penalty = min(max(2*s.penalty, mostKeys), 1<<20)
		s.alone = s.penalty
	}
	pause := min(20*time.Millisecond<<min(s.fails, 10), time.Second)
	s.fails++
	s.resume = s.k.now() + pause/2 + rand.N(pause/2)
	if n == 1 || !refused {
		s.k.complain(err)
	}
}
