package redlock

import "time"

// laneWidth is how many batches may be under way to one master. More would only wait there,
// past their time, and then be asked again; and one that hangs must not keep the others from theirs.
const laneWidth = 64

// lane is the way to one master: the batches that are under way to it, and the shelves that wait
// for their turn, that whose first lease is over first in front. Guarded by keeping.mu.
type lane struct {
	master  string
	busy    int // goroutines, one for each batch under way
	waiting line[*turn]
	served  time.Duration // when the master answered last
}

// turn is a shelf that waits in a lane.
type turn struct {
	s     *shelf
	until time.Duration
	index int32
}

func (t *turn) key() time.Duration { return t.until }
func (t *turn) place() *int32      { return &t.index }

// serve has a batch of s asked as soon as its lane allows, if there is one. mu is held, as in
// all below that does not say otherwise.
func (k *keeping) serve(s *shelf, now time.Duration) {
	if s.busy || s.turn != nil || now < s.resume || len(s.ready) == 0 {
		k.tidy(s)
		return
	}
	master := k.l.engine.master(s.slot)
	e := k.lanes[master]
	if e == nil {
		e = &lane{master: master}
		k.lanes[master] = e
	}
	k.wait(e, s)
	if e.busy < laneWidth {
		e.busy++
		if s, batch := k.next(e, now); s != nil {
			k.l.back.work.Go(func() { k.rounds(e, s, batch) }) // ends when nobody waits in the lane, or k.ctx ends
		}
	}
}

// wait puts s into the lane.
func (k *keeping) wait(e *lane, s *shelf) {
	s.turn = &turn{s: s, until: never, index: -1}
	for _, h := range s.ready {
		s.turn.until = min(s.turn.until, h.until)
	}
	e.waiting.put(s.turn)
	k.tidy(s)
}

// next is the batch that is to be asked now; without one the caller leaves the lane.
func (k *keeping) next(e *lane, now time.Duration) (*shelf, []question) {
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
		delete(k.lanes, e.master)
	}
	return nil, nil
}

// rounds asks batch after batch of a lane. mu is not held.
func (k *keeping) rounds(e *lane, s *shelf, batch []question) {
	for s != nil {
		began := k.now()
		left, err := k.ask(s.slot, batch)
		k.change(func() {
			now := k.now()
			k.settle(e, s, batch, began, left, err)
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
			s, batch = k.next(e, now)
		})
	}
}
