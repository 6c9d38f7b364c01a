package keepalive

import (
	"context"
	"fmt"
	"time"

	"lockproxy/redlock"
)

const (
	// masterBatches bounds the batches under way to one master. More of them would only wait there until
	// their time is over and they are asked again. And a master that hangs must not hold up the others.
	masterBatches = 64
	// leastPatience and mostPatience bound how long an answer may take before the question is asked again.
	leastPatience, mostPatience = 100 * time.Millisecond, 5 * time.Second
	// hearing is how many times its patience a request may take until its answer is of no use any more: a
	// lease has six of them, unless it is a long one.
	hearing = 8
)

// batchQueue holds what goes to one master: the batches under way, and the slots that wait for their turn,
// ordered by when their first lease ends. Guarded by Renewer.mu. It exists only while something waits or is
// under way.
type batchQueue struct {
	k *Renewer
	// As Engine names it; "" is one queue, too.
	master  string
	busy    int // batches under way
	waiting agenda[*slot]
	served  time.Duration // when the last batch was sent that the master has answered
}

// queueOf returns the queue of the master that has a slot, a new one if needed.
func (k *Renewer) queueOf(slot int) *batchQueue {
	master := k.engine.Master(slot)
	q := k.queues[master]
	if q == nil {
		q = &batchQueue{k: k, master: master}
		k.queues[master] = q
	}
	return q
}

// serveSlots sends batches of those that wait, as many as may be under way. It is called whenever a slot
// begins to wait, or a batch is over.
func (q *batchQueue) serveSlots(now time.Duration) {
	for q.busy < masterBatches && len(q.waiting) > 0 {
		s := q.waiting[0].owner
		q.waiting.removeDate(&s.turn)
		if batch := s.batch(now); len(batch) > 0 {
			s.busy = true
			q.busy++
			// ends with the answer, or with k.ctx
			q.k.work.Go((&sentBatch{s: s, queue: q, batch: batch}).runBatch)
		}
		s.tidySlot()
	}
	if q.busy == 0 {
		delete(q.k.queues, q.master)
	}
}

// holdQuestion is what a batch asks about one hold.
type holdQuestion struct {
	redlock.Renew // without a lease it only asks whether the hold lasts

	h    *Kept
	next int64 // Kept.next, which is the fence if the answer is that the keeper has the hold
	hint hint  // the hint that made it be asked, if one did
}

// sentBatch is a batch that was sent. Guarded by Renewer.mu.
type sentBatch struct {
	s     *slot
	queue *batchQueue
	batch []holdQuestion
	began time.Duration
	over  bool // it was answered, or its patience is over
}

// runBatch asks. If no answer comes within its patience, others of the queue may be asked, and its holds
// asked about again; the answer still counts. It blocks, on a goroutine of its own. mu is not held.
func (a *sentBatch) runBatch() {
	k, limit := a.s.k, a.patience()
	a.began = k.now()
	timer := time.AfterFunc(limit, func() {
		k.changeHolds(func() {
			if !a.over {
				a.settleBatch(nil, fmt.Errorf("no answer within %v yet", limit))
			}
		})
	})
	asks := make([]redlock.Renew, len(a.batch))
	for i, q := range a.batch {
		asks[i] = q.Renew
	}
	ctx, cancel := context.WithTimeout(k.ctx, hearing*limit)
	left, err := k.engine.Keep(ctx, a.s.number, asks)
	cancel()
	timer.Stop()
	k.changeHolds(func() { a.settleBatch(left, err) })
}

// patience is how long the answer may take before the holds are asked about again: a sixth of the shortest
// lease, so that there is time for that.
func (a *sentBatch) patience() time.Duration {
	limit := mostPatience
	for _, q := range a.batch {
		limit = min(limit, max(q.h.of.Lease/6, leastPatience))
	}
	return limit
}

// settleBatch takes the answer: on time, or none within its patience, or later than that. What the master
// says late is as true as what it says on time, unless it is about an earlier grant. left has the answers in
// the order of the batch, in ms, and is nil with an error. mu is held.
func (a *sentBatch) settleBatch(left []int64, err error) {
	s, late := a.s, a.over
	a.over = true
	switch {
	case err == nil:
		a.queue.served = max(a.queue.served, a.began)
		if s.fails = 0; len(a.batch) > 1 {
			s.penalty = 0
		}
	case late:
		return
	default:
		s.batchFailed(len(a.batch), err, a.queue.served > a.began)
	}
	for i, q := range a.batch {
		switch {
		case err != nil:
			if q.h.meetEvent(silent) {
				q.h.hint = max(q.h.hint, q.hint)
			}
		case !late || q.Fence == q.h.of.Fence && q.next == q.h.next:
			q.h.takeAnswer(q, a.began, time.Duration(left[i])*time.Millisecond, late)
		}
	}
	if late {
		return
	}
	s.busy = false
	a.queue.busy--
	if len(s.ready) == 0 {
		s.alone = 0
	}
	now := s.k.now()
	s.queueSlot(now)
	a.queue.serveSlots(now)
}
