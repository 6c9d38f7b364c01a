package keepalive

import (
	"fmt"
	"time"
)

// masterBatches bounds the batches under way to one master. More of them would only wait there until their
// time is over and they are asked again. And a master that hangs must not hold up the others.
const masterBatches = 64

// masterQueue holds what goes to one master: the batches under way, and the groups that wait for their turn,
// ordered by when their first lease ends. Guarded by Renewer.mu.
type masterQueue struct {
	master  string
	busy    int // goroutines, one for each batch under way
	waiting timerHeap[*groupTurn]
	served  time.Duration // when the last batch was sent that the master has answered
}

// groupTurn is a group that waits in a queue.
type groupTurn struct {
	s     *slotGroup
	e     *masterQueue
	until time.Duration
	index int32
}

func (t *groupTurn) key() time.Duration { return t.until }
func (t *groupTurn) place() *int32      { return &t.index }

// serve asks a batch of s as soon as the queue of its master allows, if there is one to ask. mu is held, here
// and below unless a comment says otherwise.
func (k *Renewer) serve(s *slotGroup, now time.Duration) {
	if s.turn != nil { // what is due now may not be able to wait as long as what was due before
		k.wait(s.turn.e, s)
		return
	}
	if s.busy || now < s.resume || len(s.ready) == 0 {
		k.tidy(s)
		return
	}
	master := k.engine.Master(s.slot)
	e := k.queues[master]
	if e == nil {
		e = &masterQueue{master: master}
		k.queues[master] = e
	}
	k.wait(e, s)
	if e.busy < masterBatches {
		e.busy++
		if s, batch := k.next(e, now); s != nil {
			k.work.Go(func() { k.rounds(e, s, batch) }) // ends when nobody waits in the queue, or k.ctx ends
		}
	}
}

// wait puts s into the queue, or into its right place there.
func (k *Renewer) wait(e *masterQueue, s *slotGroup) {
	if s.turn == nil {
		s.turn = &groupTurn{s: s, e: e, until: never, index: -1}
	}
	for _, h := range s.ready {
		s.turn.until = min(s.turn.until, h.until)
	}
	e.waiting.put(s.turn)
	k.tidy(s)
}

// next returns the batch to ask now. If there is none, the caller leaves the queue.
func (k *Renewer) next(e *masterQueue, now time.Duration) (*slotGroup, []question) {
	for len(e.waiting) > 0 {
		s := e.waiting[0].s
		e.waiting.remove(s.turn)
		s.turn = nil
		batch := k.batch(s, now)
		s.busy = len(batch) > 0
		k.tidy(s)
		if s.busy {
			return s, batch
		}
	}
	if e.busy--; e.busy == 0 {
		delete(k.queues, e.master)
	}
	return nil, nil
}

// rounds asks batch after batch of a queue. mu is not held.
//
// A batch whose answer is late gives up its place: another goroutine goes on with the queue, where its holds
// may be asked about again, and this one only waits for the answer, which still counts.
func (k *Renewer) rounds(e *masterQueue, s *slotGroup, batch []question) {
	for s != nil {
		a := &asking{began: k.now(), batch: batch}
		limit := patience(batch)
		timer := time.AfterFunc(limit, func() {
			k.change(func() {
				if a.over {
					return
				}
				k.settle(e, s, a, nil, fmt.Errorf("no answer within %v yet", limit))
				if s, batch := k.advance(e, s); s != nil {
					k.work.Go(func() { k.rounds(e, s, batch) })
				}
			})
		})
		left, err := k.ask(s.slot, batch, hearing*limit)
		timer.Stop()
		k.change(func() {
			late := a.over
			k.settle(e, s, a, left, err)
			if late {
				s = nil
				return
			}
			s, batch = k.advance(e, s)
		})
	}
}

// advance ends the round of s, and returns the next one of the queue.
func (k *Renewer) advance(e *masterQueue, s *slotGroup) (*slotGroup, []question) {
	now := k.now()
	s.busy = false
	switch {
	case len(s.ready) == 0:
		s.alone = 0
		k.tidy(s)
	case now < s.resume:
		k.tidy(s)
	default:
		k.wait(e, s)
	}
	return k.next(e, now)
}
