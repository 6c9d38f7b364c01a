package pubsub

import (
	"context"
	"maps"
	"slices"

	"github.com/tidwall/redcon"

	"lockproxy/cluster/pubsub"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
	"lockproxy/proxy/tracking"
)

// Subscriber has the subscriptions of one client. It belongs to the loop. own is here for the rules of the
// client's user, which a new subscription makes old.
type Subscriber struct {
	h     Host
	hub   *Hub
	own   *tracking.Connections
	tasks Starter
	has   subscriptions
}

// Host is a session as its subscriptions see it, beside what all features see.
type Host interface {
	client.Host
	Reply(reply []byte)
	// PushMessage gives the client a message, behind the answer to command tag.
	PushMessage(message []byte, behind uint32, told bool) bool
	KeepFor(tag uint32, n int)
	CountMemory()
}

// Starter runs tasks for a client on goroutines.
type Starter interface {
	// Start runs task on a goroutine; meanwhile no further command of the client is read. post brings end to
	// the loop, where it makes the answer to the current command.
	Start(task func(ctx context.Context) (end func() []byte), post func(func()) bool)
}

// NewSubscriber returns the Subscriber of a client of the hub's loop; own are its connections.
func NewSubscriber(h Host, hub *Hub, own *tracking.Connections, tasks Starter) Subscriber {
	return Subscriber{h: h, hub: hub, own: own, tasks: tasks}
}

// Listens says that the client listens to something.
func (l *Subscriber) Listens() bool { return l.has.bytes > 0 }

// Memory is how many bytes its subscriptions take.
func (l *Subscriber) Memory() int { return l.has.bytes }

// Names returns the names of all topics of a kind that it listens to. They are sorted, and a copy.
func (l *Subscriber) Names(kind pubsub.Kind) (names []string) {
	return slices.Sorted(maps.Keys(l.has.byName[kind]))
}

// subscriptions are those of one client, by the kind and name of their topics. Without any it is the zero
// value.
type subscriptions struct {
	byName [3]map[string]*subscription
	bytes  int // of the names, and the cost of each subscription
}

// findSubscription returns the client's subscription to a topic, or nil.
func (l *Subscriber) findSubscription(kind pubsub.Kind, name string) *subscription {
	return l.has.byName[kind][name]
}

// cost is the memory of a subscription besides its name: in the session, on the loop, in the index of
// channels, and for the connection to the node.
const cost = 700

// addSubscription makes the client listen to t, beginning after the answer to command tag.
func (l *Subscriber) addSubscription(kind pubsub.Kind, t *pubsub.Topic, tag uint32) {
	sub := &subscription{of: l, topic: t, order: l.hub.next, behind: tag}
	l.hub.next++
	l.has.byName[kind][t.Name] = sub
	l.has.bytes += len(t.Name) + cost
	l.h.About().Topics[kind] = len(l.has.byName[kind])
	l.hub.addListener(sub)
}

// removeSubscription is the counterpart of addSubscription. The topic stays subscribed: whoever calls it
// leaves that.
func (l *Subscriber) removeSubscription(sub *subscription) {
	kind := sub.topic.Kind
	l.hub.removeListener(sub)
	delete(l.has.byName[kind], sub.topic.Name)
	l.has.bytes -= len(sub.topic.Name) + cost
	l.h.About().Topics[kind] = len(l.has.byName[kind])
	if !l.h.About().Subscribed() {
		l.has = subscriptions{}
	}
}

// Leave ends all subscriptions of a client that has gone. It returns at once; many are left over several
// rounds.
func (l *Subscriber) Leave() {
	if !l.Listens() { // most clients
		return
	}
	has := l.has
	l.has = subscriptions{}
	has.leaveTopics(l.hub)
}

// PerRound is how many subscriptions are made or ended in one round of the loop.
const PerRound = 1024

// leaveTopics ends all subscriptions, some in each round.
func (l *subscriptions) leaveTopics(h *Hub) {
	var left []*pubsub.Topic
	n := 0
	for _, subs := range l.byName {
		for name, sub := range subs {
			if n++; n > PerRound {
				h.releaseTopics(left)
				h.loop.Post(func() { l.leaveTopics(h) })
				return
			}
			delete(subs, name)
			h.removeListener(sub)
			if !sub.leaving { // unsubscribing leaves the others
				left = append(left, sub.topic)
			}
		}
	}
	h.releaseTopics(left)
}

// confirmedCount is the number in confirmations: channels and patterns are counted together. So it is at
// Redis, where shard channels are counted by themselves.
func (l *Subscriber) confirmedCount(kind pubsub.Kind) int64 {
	if kind == pubsub.Shard {
		return int64(l.h.About().Topics[kind])
	}
	return int64(l.h.About().Topics[pubsub.Classic] + l.h.About().Topics[pubsub.Pattern])
}

// appendConfirmation appends one: the word, the name, and the count as it is now.
func (l *Subscriber) appendConfirmation(dst []byte, word string, kind pubsub.Kind, name string) []byte {
	dst = resp.AppendPush(dst, l.h.About().Proto, 3)
	dst = redcon.AppendBulkString(dst, word)
	dst = redcon.AppendBulkString(dst, name)
	return redcon.AppendInt(dst, l.confirmedCount(kind))
}

// giveMessage gives the client a published message. It may close the client, if that lets too much wait for
// it.
func (sub *subscription) giveMessage(message []byte) {
	if !sub.of.h.Gone() { // a client that has gone is about to leave
		sub.told = sub.of.h.PushMessage(message, sub.behind, sub.told)
	}
}
