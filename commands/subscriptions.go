package commands

import (
	"lockproxy/cluster/pubsub"
	"lockproxy/internal/resp"
)

// Subscriptions is what publishing and subscribing need. Subscribe, Unsubscribe, End and
// Publish each answer the command.
type Subscriptions interface {
	// Subscribe has the client listen to the topics of these names, which are copied, and confirms
	// each of them once everything that is published from then on reaches the client.
	Subscribe(kind pubsub.Kind, names [][]byte)
	// Unsubscribe ends that and confirms it for each name, those of no subscription too. nil: for all
	// names of that kind.
	Unsubscribe(kind pubsub.Kind, names [][]byte)
	// End ends everything that the client listens to, and answers with what end then returns.
	// Messages come until end is called, in the protocol that the client speaks: only end may change that.
	End(end func() []byte)
	// Publish forwards the command, PUBLISH or SPUBLISH, and answers with the number of
	// receivers that a server would tell to which the clients of the proxy are connected.
	Publish(shard bool)
	// Shards says that the upstream has shard channels.
	Shards() bool
	// Settled runs then, which asks for something, once the subscriptions are confirmed that clients of the
	// proxy have asked for before: at once, or later within some bound. raw is the command, valid until then
	// returns.
	Settled(then func(raw []byte))
	// SubscriberCounts counts who listens. It is for a Merge of the masters as they are now.
	SubscriberCounts() SubscriberCounts
}

// SubscriberCounts tells the clients that listen through this proxy from the proxy itself, which
// the nodes take for one subscriber. Any goroutine may use it.
type SubscriberCounts interface {
	// Listeners is how many clients of the proxy listen to a topic.
	Listeners(kind pubsub.Kind, name []byte) int
	// Own is how many subscribers to a topic master i takes the proxy for: 1 or 0.
	Own(kind pubsub.Kind, name []byte, i int) int
	// Heard are the names of the topics that clients listen to.
	Heard(kind pubsub.Kind) []string
	// OwnTopics is how many topics master i has the proxy as a subscriber to.
	OwnTopics(kind pubsub.Kind, i int) int
}

// BarredTo says that a client of RESP2 which listens to something may not send c, a command of
// n arguments with its name. What cannot be right is left to whoever says so.
func (c *Command) BarredTo(n int) bool {
	return c.Flags&InSubscriber == 0 && (n == c.Arity || c.Arity < 0 && n >= -c.Arity)
}

// Barred is the reply to a command that is barred to subscribers.
func (c *Command) Barred() []byte {
	return resp.ErrorLine("ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / "+
		"RESET are allowed in this context", c.Name)
}
