// Package pubsub is SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE and the messages to their clients. Each channel is
// subscribed once at a node, however many clients listen, and each loop gets each message once:
//
//	node --> pubsub.Topic --> mailbox, of each loop --> Hub --> subscription --> client.Host: the client
//
//	SUBSCRIBE --> Subscriber --> Upstream.Join --> a subscription each --> the confirmations, as one answer
//	PUBLISH   --> Subscriber.Publish --> the node where channels are subscribed --> how many have got it
//
// A Hub has the subscriptions of one loop's clients, a Subscriber those of one client; both belong to the
// loop. Messages come on the goroutine of a node; the mailbox hands them out on the loop, in their order. Its
// limit holds up that node when clients are slower, and never the loop.
//
// A message reaches a client after the confirmation of its subscription, and messages under way come before
// the confirmation of UNSUBSCRIBE: joining and leaving are completed through the mailbox, behind the
// messages. Requests about thousands of topics take several rounds of the loop (PerRound).
//
// The number that PUBLISH returns counts the proxy's clients one by one, although the node counts one
// connection.
package pubsub

import (
	"context"
	"sync/atomic"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pubsub"
	"lockproxy/commands"
	"lockproxy/internal/loop"
	"lockproxy/proxy/client"
)

// Upstream is what the clients' subscriptions need of the upstream.
type Upstream interface {
	// Join subscribes to topics for out.
	Join(
		ctx context.Context,
		kind pubsub.Kind,
		names []string,
		out pubsub.Outlet,
	) ([]*pubsub.Topic, error)
	// Leave ends the subscriptions of out to topics.
	Leave(ctx context.Context, topics []*pubsub.Topic, out pubsub.Outlet)
	// Concerned returns the topics that get a message published on channel, if finding them takes no more
	// than most steps of some nanoseconds each. left is how many steps are left; negative: it takes more.
	Concerned(channel []byte, shard bool, most int) (topics []*pubsub.Topic, left int)
	// Topic returns the topic of that name, or nil.
	Topic(kind pubsub.Kind, name []byte) *pubsub.Topic
	// Topics are all topics of a kind.
	Topics(kind pubsub.Kind) []*pubsub.Topic
	// Sharded says that ordinary channels are subscribed with SSUBSCRIBE and published with SPUBLISH.
	Sharded() bool
	// Home is the address of the master at which channels and patterns are subscribed.
	Home() string
}

// Hub has the subscriptions of the clients of one loop, and belongs to the loop. All loops share the
// subscription at the node:
//
//	node --> pubsub.Topic --> mailbox of each loop --> listeners --> subscriptions: clients
type Hub struct {
	loop      *loop.Loop
	upstream  Upstream
	underway  *Underway
	budget    time.Duration // how long a node may be silent
	late      func() bool
	box       *mailbox
	listeners map[*pubsub.Topic]*listeners
	next      uint64 // order of the next subscription

	messages atomic.Uint64   // messages given to clients
	taken    [3]atomic.Int64 // subscriptions, by kind
}

// listeners are the clients of one loop that listen to one topic.
type listeners struct {
	all []*subscription
	// A new one goes behind them, so it gets nothing of a portion that came before it.
	due int // the first ones, which have not been given the current portion yet
}

// subscription is one client that listens to one topic.
type subscription struct {
	of      *Subscriber
	topic   *pubsub.Topic
	at      int    // in listeners.all
	order   uint64 // its age among the subscriptions of the loop
	behind  uint32 // the command that subscribed
	told    bool   // that command has been answered, and messages may be sent
	leaving bool   // it is being ended: it no longer counts, but gets the messages under way
}

// NewHub returns the Hub of l. underway is shared by all loops. Nodes have at least budget to confirm a
// request. late says that the round of the loop has taken long. It belongs to l, which calls everything but
// Counts.
func NewHub(
	l *loop.Loop, upstream Upstream, underway *Underway, budget time.Duration, late func() bool,
) *Hub {
	h := &Hub{
		loop:      l,
		upstream:  upstream,
		underway:  underway,
		budget:    budget,
		late:      late,
		listeners: make(map[*pubsub.Topic]*listeners),
	}
	h.box = newMailbox(l, h.handPortion)
	return h
}

// The messages of a topic are given to at least handLeast clients at a time. No more are given once handMost
// connections of the loop have output, so that it is written before there is more.
const (
	handLeast = 16
	handMost  = 256
)

// handPortion is the handFunc of the loop. It may close any client that it gives messages to. It goes from
// the last of those due to the first, so that whoever leaves meanwhile, or comes, disturbs none.
func (h *Hub) handPortion(p *portion, most int, again bool) (given int, done bool) {
	a := h.listeners[p.topic]
	if a == nil {
		return 0, true
	}
	if !again {
		a.due = len(a.all)
	}
	n := 0
	for a.due > 0 && (n == 0 || n%handLeast > 0 || n*p.size < most && !h.isFull()) {
		a.due--
		n++
		sub := a.all[a.due]
		for _, message := range p.messages {
			sub.giveMessage(message)
		}
	}
	h.messages.Add(uint64(n * len(p.messages)))
	return n * p.size, a.due == 0
}

// isFull says that this round of the loop has enough to do.
func (h *Hub) isFull() bool { return h.loop.Unwritten() >= handMost || h.late() }

// addListener adds sub to the listeners of its topic. From now on PUBLISH counts it.
func (h *Hub) addListener(sub *subscription) {
	a := h.listeners[sub.topic]
	if a == nil {
		a = &listeners{}
		h.listeners[sub.topic] = a
	}
	a.putAt(sub, len(a.all))
	sub.topic.Count(1)
	h.taken[sub.topic.Kind].Add(1)
}

// putAt gives sub place i, which may be one past the end.
func (a *listeners) putAt(sub *subscription, i int) {
	if i == len(a.all) {
		a.all = append(a.all, nil)
	}
	a.all[i], sub.at = sub, i
}

// takeOut takes sub out. Those that have the current portion stay behind those that do not. The gap is filled
// by the last one that is due, and the gap that leaves by the very last one: nobody is moved along.
func (a *listeners) takeOut(sub *subscription) {
	free := sub.at
	if free < a.due {
		a.due--
		a.putAt(a.all[a.due], free)
		free = a.due
	}
	last := len(a.all) - 1
	if free < last {
		a.putAt(a.all[last], free)
	}
	a.all[last] = nil
	a.all = a.all[:last]
}

// removeListener is the counterpart of addListener.
func (h *Hub) removeListener(sub *subscription) {
	a := h.listeners[sub.topic]
	a.takeOut(sub)
	if len(a.all) == 0 {
		delete(h.listeners, sub.topic)
	}
	if !sub.leaving {
		h.uncountListener(sub)
	}
}

// uncountListener stops counting sub. It is called once for each subscription: when it begins to leave, or
// when it is removed.
func (h *Hub) uncountListener(sub *subscription) {
	sub.topic.Count(-1)
	h.taken[sub.topic.Kind].Add(-1)
}

// releaseTopics leaves topics without waiting for it. Its context is over from the beginning: the nodes are
// asked, and nobody waits for their answers.
func (h *Hub) releaseTopics(topics []*pubsub.Topic) {
	if len(topics) == 0 {
		return
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	go h.upstream.Leave(over, topics, h.box) // ends at once
}

// Counts returns how many subscriptions its clients have, by kind, and how many messages they were given. Any
// goroutine may call it.
func (h *Hub) Counts() (now [3]int64, messages uint64) {
	for kind := range now {
		now[kind] = h.taken[kind].Load()
	}
	return now, h.messages.Load()
}

// Idle says that nobody listens to anything.
func (h *Hub) Idle() bool { return len(h.listeners) == 0 }

// ourTopics implements commands.SubscriberCounts, for the masters of one moment.
type ourTopics struct {
	upstream Upstream
	masters  []*cluster.Node
}

// Settled implements commands.Subscriptions. then runs on the loop, at once if no subscription is under way.
func (l *Subscriber) Settled(raw []byte, then func(raw []byte)) {
	first := l.hub.underway.allRequests()
	if len(first) == 0 {
		then(raw)
		return
	}
	raw = client.Lasting(raw)
	l.keepApart(len(raw), func() { awaitRequests(first) }, func() { then(raw) })
}

// keepApart runs task on a goroutine. Behind it the loop calls then, which goes on with the current command.
// Until then the command counts as keeping size bytes.
func (l *Subscriber) keepApart(size int, task, then func()) {
	tag := l.h.CurrentTag()
	l.h.KeepFor(tag, size)
	client.Apart(l.h, task, func() []byte {
		l.h.KeepFor(tag, -size)
		then()
		return nil
	})
}

// SubscriberCounts implements commands.Subscriptions.
func (l *Subscriber) SubscriberCounts() commands.SubscriberCounts {
	return ourTopics{l.hub.upstream, l.h.Pool().Topology().Masters}
}

// Listeners implements commands.SubscriberCounts.
func (c ourTopics) Listeners(kind pubsub.Kind, name []byte) int {
	if t := c.upstream.Topic(kind, name); t != nil {
		return t.Listeners()
	}
	return 0
}

// Own implements commands.SubscriberCounts.
func (c ourTopics) Own(kind pubsub.Kind, name []byte, i int) int {
	if t := c.upstream.Topic(kind, name); t != nil {
		return t.CountedAt(c.masters[i].Addr)
	}
	return 0
}

// Heard implements commands.SubscriberCounts.
func (c ourTopics) Heard(kind pubsub.Kind) (names []string) {
	for _, t := range c.upstream.Topics(kind) {
		if t.Listeners() > 0 {
			names = append(names, t.Name)
		}
	}
	return names
}

// OwnTopics implements commands.SubscriberCounts.
func (c ourTopics) OwnTopics(kind pubsub.Kind, i int) int {
	return countedAt(c.upstream.Topics(kind), c.masters[i].Addr)
}
