package pubsub

import (
	"cmp"
	"context"
	"slices"

	"github.com/tidwall/redcon"

	"lockproxy/cluster/pubsub"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
)

// This file ends subscriptions of a client that stays connected: a few at once, or thousands over many rounds
// of the loop.

// unsubscribing is a command that ends subscriptions:
//
//	startUnsubscribing --> turnRound: the first PerRound of them --> Leave --> turnRound ... --> makeAnswer
//
// From turnRound on the subscriptions of a round do not count any more, but their client still gets the
// messages on the way. It loses them when the nodes have confirmed, with the messages before that.
type unsubscribing struct {
	l     *Subscriber
	tag   uint32
	kinds []pubsub.Kind // those of names, or of everything that ends
	all   bool          // names has nothing: whatever the client listens to ends
	names []string      // for later rounds

	round  []pubsub.TopicName // that end now
	topics []*pubsub.Topic    // of round, which are being left
	last   bool               // no round follows
	out    []byte             // confirmations
	then   func() []byte      // makes the answer; nil: that is out
}

// Unsubscribe implements commands.Subscriptions: the client stops listening to topics of these names; none:
// to all of that kind. Names that it does not listen to are confirmed, too, as Redis does.
func (l *Subscriber) Unsubscribe(kind pubsub.Kind, names [][]byte) {
	u := &unsubscribing{l: l, tag: l.h.CurrentTag(), kinds: []pubsub.Kind{kind}, all: len(names) == 0}
	if len(names) > PerRound {
		raw := client.Lasting(l.h.Call().Raw)
		l.h.KeepFor(u.tag, 3*len(raw)) // the command, its names, and the confirmations
		u.startUnsubscribing(func() { u.names, u.out = namesOf(raw) })
		return
	}
	if u.all && l.h.About().Topics[kind] > PerRound {
		room := l.roomForAll(kind)
		l.h.KeepFor(u.tag, room)
		u.out = make([]byte, 0, room)
	}
	u.names = texts(names)
	u.startUnsubscribing(nil)
}

// End implements commands.Subscriptions. It ends all kinds, for RESET and for a client that has half-closed.
// There are no confirmations: end makes the answer.
func (l *Subscriber) End(end func() []byte) {
	kinds := []pubsub.Kind{pubsub.Classic, pubsub.Pattern, pubsub.Shard}
	(&unsubscribing{l: l, tag: l.h.CurrentTag(), kinds: kinds, all: true, then: end}).startUnsubscribing(nil)
}

// startUnsubscribing runs the command. prepare, if not nil, is called before on a goroutine. If no topic is
// left it is answered at once; otherwise a task asks the nodes, a round at a time.
func (u *unsubscribing) startUnsubscribing(prepare func()) {
	if prepare == nil {
		if u.turnRound(); u.last && len(u.topics) == 0 {
			u.l.h.Reply(u.makeAnswer())
			return
		}
	}
	box := u.l.hub.box
	u.l.tasks.Start(func(ctx context.Context) func() []byte {
		if prepare != nil {
			prepare()
		}
		for !u.last || len(u.topics) > 0 {
			if len(u.topics) > 0 {
				u.l.hub.upstream.Leave(ctx, u.topics, box)
			}
			if u.last || !u.l.nextRound(u.turnRound) {
				break
			}
		}
		return u.makeAnswer
	}, box.Post)
}

// turnRound ends a round, and begins the next one: from now on its subscriptions do not count. It runs on the
// loop.
func (u *unsubscribing) turnRound() {
	u.confirmRound()
	switch {
	case u.l.h.Gone():
		u.last = true
	case u.all:
		u.round, u.last = u.l.oldestTopics(u.kinds)
	default:
		now := u.names[:min(PerRound, len(u.names))]
		u.names = u.names[len(now):]
		u.last = len(u.names) == 0
		for _, name := range now {
			u.round = append(u.round, pubsub.TopicName{Kind: u.kinds[0], Name: name})
		}
	}
	for _, t := range u.round {
		if sub := u.l.findSubscription(t.Kind, t.Name); sub != nil && !sub.leaving {
			u.topics, sub.leaving = append(u.topics, sub.topic), true
			u.l.hub.uncountListener(sub)
		}
	}
}

// confirmRound ends the subscriptions of the round. A subscription may have gone already, with its client or
// by a command that was sent before.
func (u *unsubscribing) confirmRound() {
	for _, t := range u.round {
		if sub := u.l.findSubscription(t.Kind, t.Name); sub != nil {
			u.l.removeSubscription(sub)
		}
		if u.then == nil {
			u.out = u.l.appendConfirmation(u.out, pubsub.Words[t.Kind].Unsubscribe, t.Kind, t.Name)
		}
	}
	u.round, u.topics = u.round[:0], nil
	u.l.h.CountMemory()
}

// makeAnswer makes the answer. First it ends the last round.
func (u *unsubscribing) makeAnswer() []byte {
	if u.then == nil {
		u.l.h.Answers().Speak(u.tag)
	}
	u.confirmRound()
	switch {
	case u.then != nil:
		return u.then()
	case len(u.out) == 0: // it listened to nothing
		proto, kind := u.l.h.About().Proto, u.kinds[0]
		u.out = resp.AppendPush(u.out, proto, 3)
		u.out = redcon.AppendBulkString(u.out, pubsub.Words[kind].Unsubscribe)
		u.out = resp.AppendNull(u.out, proto)
		u.out = redcon.AppendInt(u.out, u.l.confirmedCount(kind))
	}
	return u.out
}

// oldestTopics returns subscriptions of some kinds, at most PerRound, the oldest first. all: there are no
// more.
func (l *Subscriber) oldestTopics(kinds []pubsub.Kind) (some []pubsub.TopicName, all bool) {
	var subs []*subscription
	all = true
	for _, kind := range kinds {
		for _, sub := range l.has.byName[kind] {
			if len(subs) == PerRound {
				all = false
				break
			}
			subs = append(subs, sub)
		}
	}
	slices.SortFunc(subs, func(a, b *subscription) int { return cmp.Compare(a.order, b.order) })
	for _, sub := range subs {
		some = append(some, sub.topic.TopicName)
	}
	return some, all
}

// roomForAll is how long the confirmations may be, for all topics of a kind. With so much room the
// confirmations never have to be copied while they grow.
func (l *Subscriber) roomForAll(kind pubsub.Kind) int {
	names := l.has.bytes // of all kinds
	for _, subs := range l.has.byName {
		names -= len(subs) * cost
	}
	return names + len(l.has.byName[kind])*confirmationRoom
}
