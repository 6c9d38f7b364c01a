package proxy

import (
	"cmp"
	"context"
	"slices"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

// This file is how a client that stays connected gives up thousands of subscriptions at once.

// leaveAll is leave for all seats of these kinds where they are many: each round of the loop deals with some
// of them. left is called for each when it is given up, and end makes the answer then.
func (l *subscriber) leaveAll(kinds []cluster.TopicKind, left func(se *seat), end func() []byte) {
	box := l.h.worker().hub.box
	l.tasks.start(func(ctx context.Context) func() []byte {
		var seats []*seat
		var topics []*cluster.Topic
		next := func() {
			if l.h.Gone() {
				topics = nil
				return
			}
			for _, se := range seats {
				l.stand(se.topic.Kind, se)
				left(se)
			}
			seats, topics = l.nextSeats(kinds)
			l.h.CountMemory()
		}
		for l.nextRound(next) && len(topics) > 0 {
			l.h.worker().server.upstream.Leave(ctx, topics, box)
		}
		return end
	}, box.Post, nil)
}

// leaveNamed is unsubscribe from the topics that raw names, a command of many. Each round of the loop deals
// with some of them.
func (l *subscriber) leaveNamed(kind cluster.TopicKind, raw []byte) {
	tag, box := l.h.CurrentTag(), l.h.worker().hub.box
	l.h.KeepFor(tag, 3*len(raw)) // the command, its names, and the confirmations
	l.tasks.start(func(ctx context.Context) func() []byte {
		args, _, _ := resp.Split(raw, nil) // it was read before
		names := make([]string, 0, len(args))
		for _, name := range args[1:] {
			names = append(names, string(name))
		}
		out := roomForConfirmations(args[1:])
		var leaving []string
		var topics []*cluster.Topic
		next := func() {
			if topics = nil; l.h.Gone() {
				names = nil
				return
			}
			if len(leaving) > 0 {
				out = l.confirmUnsubscribed(out, kind, leaving)
			}
			leaving = names[:min(seatRound, len(names))]
			names = names[len(leaving):]
			topics = l.leaveSoon(kind, leaving)
		}
		for len(names) > 0 && l.nextRound(next) {
			if len(topics) > 0 {
				l.h.worker().server.upstream.Leave(ctx, topics, box)
			}
		}
		return func() []byte {
			l.h.Speak(tag)
			return l.confirmUnsubscribed(out, kind, leaving)
		}
	}, box.Post, nil)
}

// leaveSoon has the seats at topics of these names count no more, and returns the topics.
func (l *subscriber) leaveSoon(kind cluster.TopicKind, names []string) (topics []*cluster.Topic) {
	for _, name := range names {
		if se := l.seat(kind, name); se != nil && !se.leaving {
			topics, se.leaving = append(topics, se.topic), true
			l.h.worker().hub.discount(se)
		}
	}
	return topics
}

// nextSeats are the next seats that leaveAll gives up, the oldest of them first. From now on they do not
// count.
func (l *subscriber) nextSeats(kinds []cluster.TopicKind) (seats []*seat, topics []*cluster.Topic) {
	for _, kind := range kinds {
		if l.has == nil {
			break
		}
		for _, se := range l.has.seats[kind] {
			if len(seats) == seatRound {
				break
			}
			seats = append(seats, se)
		}
	}
	slices.SortFunc(seats, func(a, b *seat) int { return cmp.Compare(a.order, b.order) })
	for _, se := range seats {
		topics, se.leaving = append(topics, se.topic), true
		l.h.worker().hub.discount(se)
	}
	return seats, topics
}

// eachRound has do deal with names, some of them in each round of the loop, and returns the last ones, which
// are left: no more than that many. It must not be called on the loop.
func (l *subscriber) eachRound(names []string, left int, do func(some []string)) []string {
	for len(names) > left {
		some := names[:min(seatRound, len(names))]
		if !l.nextRound(func() { do(some) }) {
			break
		}
		names = names[len(some):]
	}
	return names
}

// nextRound runs f in the next round of the loop behind the messages that have come, and waits for it. It
// must not be called on the loop. false: that has ended.
func (l *subscriber) nextRound(f func()) bool {
	done := make(chan struct{})
	l.h.worker().hub.box.Post(func() {
		l.h.worker().loop.Post(func() {
			f()
			close(done)
		})
	})
	select {
	case <-done:
		return true
	case <-l.h.worker().loop.Done():
		return false
	}
}
