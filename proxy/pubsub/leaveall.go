package pubsub

import (
	"cmp"
	"context"
	"slices"

	"lockproxy/cluster/pubsub"
	"lockproxy/internal/resp"
)

// This file ends thousands of subscriptions at once of a client that stays connected.

// leavingAll is the end of all subscriptions of some kinds, when they are many.
type leavingAll struct {
	kinds []pubsub.Kind
	room  int                                        // bytes that left appends, so that nothing is copied
	left  func(out []byte, sub *subscription) []byte // sub has ended
	end   func(out []byte) (answer []byte)
}

// leaveAll ends the subscriptions, some in each round of the loop.
func (l *Subscriber) leaveAll(all leavingAll) {
	box := l.hub.box
	l.tasks.Start(func(ctx context.Context) func() []byte {
		out := make([]byte, 0, all.room)
		var subs []*subscription
		var topics []*pubsub.Topic
		next := func() {
			if l.h.Gone() {
				topics = nil
				return
			}
			for _, sub := range subs {
				l.remove(sub.topic.Kind, sub)
				out = all.left(out, sub)
			}
			subs, topics = l.nextOnes(all.kinds)
			l.h.CountMemory()
		}
		for l.nextRound(next) && len(topics) > 0 {
			l.hub.upstream.Leave(ctx, topics, box)
		}
		return func() []byte { return all.end(out) }
	}, box.Post)
}

// leaveNamed ends the subscriptions to the topics that raw, a long command, names, some in each round of the
// loop.
func (l *Subscriber) leaveNamed(kind pubsub.Kind, raw []byte) {
	tag, box := l.h.CurrentTag(), l.hub.box
	l.h.KeepFor(tag, 3*len(raw)) // the command, its names, and the confirmations
	l.tasks.Start(func(ctx context.Context) func() []byte {
		args, _, _ := resp.Split(raw, nil) // it was valid before
		names := make([]string, 0, len(args))
		for _, name := range args[1:] {
			names = append(names, string(name))
		}
		out := roomForConfirmations(args[1:])
		var leaving []string
		var topics []*pubsub.Topic
		next := func() {
			if topics = nil; l.h.Gone() {
				names = nil
				return
			}
			if len(leaving) > 0 {
				out = l.confirmUnsubscribed(out, kind, leaving)
			}
			leaving = names[:min(PerRound, len(names))]
			names = names[len(leaving):]
			topics = l.leaveSoon(kind, leaving)
		}
		for len(names) > 0 && l.nextRound(next) {
			if len(topics) > 0 {
				l.hub.upstream.Leave(ctx, topics, box)
			}
		}
		return func() []byte {
			l.h.Answers().Speak(tag)
			return l.confirmUnsubscribed(out, kind, leaving)
		}
	}, box.Post)
}

// leaveSoon stops counting the subscriptions to topics of these names, and returns the topics.
func (l *Subscriber) leaveSoon(kind pubsub.Kind, names []string) (topics []*pubsub.Topic) {
	for _, name := range names {
		if sub := l.find(kind, name); sub != nil && !sub.leaving {
			topics, sub.leaving = append(topics, sub.topic), true
			l.hub.uncount(sub)
		}
	}
	return topics
}

// nextOnes returns the next subscriptions for leaveAll to end, the oldest first. From now on they do not
// count.
func (l *Subscriber) nextOnes(kinds []pubsub.Kind) (subs []*subscription, topics []*pubsub.Topic) {
	for _, kind := range kinds {
		if l.has == nil {
			break
		}
		for _, sub := range l.has.byName[kind] {
			if len(subs) == PerRound {
				break
			}
			subs = append(subs, sub)
		}
	}
	slices.SortFunc(subs, func(a, b *subscription) int { return cmp.Compare(a.order, b.order) })
	for _, sub := range subs {
		topics, sub.leaving = append(topics, sub.topic), true
		l.hub.uncount(sub)
	}
	return subs, topics
}

// eachRound calls do with some of the names in each round of the loop. It returns the last ones, at most
// left. It must not be called on the loop.
func (l *Subscriber) eachRound(names []string, left int, do func(some []string)) []string {
	for len(names) > left {
		some := names[:min(PerRound, len(names))]
		if !l.nextRound(func() { do(some) }) {
			break
		}
		names = names[len(some):]
	}
	return names
}

// nextRound runs f in the next round of the loop, behind the messages that have come, and waits for it. It
// must not be called on the loop. The result is false if the loop has ended.
func (l *Subscriber) nextRound(f func()) bool {
	done := make(chan struct{})
	l.hub.box.Post(func() {
		l.h.Loop().Post(func() {
			f()
			close(done)
		})
	})
	select {
	case <-done:
		return true
	case <-l.h.Loop().Done():
		return false
	}
}
