package proxy

import (
	"cmp"
	"context"
	"slices"

	"lockproxy/cluster"
)

// This file is how a client that stays connected gives up thousands of subscriptions at once.

// leaveAll is leave for all seats of these kinds where they are many: each round of the loop deals with some
// of them. left is called for each when it is given up, and end makes the answer then.
func (s *session) leaveAll(kinds []cluster.TopicKind, left func(se *seat), end func() []byte) {
	box := s.w.hub.box
	s.parkTask(func(ctx context.Context) func() []byte {
		var seats []*seat
		var topics []*cluster.Topic
		next := func() {
			if s.gone {
				topics = nil
				return
			}
			for _, se := range seats {
				s.stand(se.topic.Kind, se)
				left(se)
			}
			seats, topics = s.nextSeats(kinds)
			s.countMemory()
		}
		for s.nextRound(next) && len(topics) > 0 {
			s.w.server.upstream.Leave(ctx, topics, box)
		}
		return end
	}, box.Post, nil)
}

// nextSeats are the next seats that leaveAll gives up, the oldest of them first. From now on they do not
// count.
func (s *session) nextSeats(kinds []cluster.TopicKind) (seats []*seat, topics []*cluster.Topic) {
	for _, kind := range kinds {
		if s.listens == nil {
			break
		}
		for _, se := range s.listens.seats[kind] {
			if len(seats) == seatRound {
				break
			}
			seats = append(seats, se)
		}
	}
	slices.SortFunc(seats, func(a, b *seat) int { return cmp.Compare(a.order, b.order) })
	for _, se := range seats {
		topics, se.leaving = append(topics, se.topic), true
		s.w.hub.discount(se)
	}
	return seats, topics
}

// nextRound runs f in the next round of the loop behind the messages that have come, and waits for it. It
// must not be called on the loop. false: that has ended.
func (s *session) nextRound(f func()) bool {
	done := make(chan struct{})
	s.w.hub.box.Post(func() {
		s.w.loop.Post(func() {
			f()
			close(done)
		})
	})
	select {
	case <-done:
		return true
	case <-s.w.loop.Done():
		return false
	}
}
