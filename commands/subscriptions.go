package commands

import "lockproxy/cluster/pubsub"

// Subscriptions is what publishing and subscribing need. Subscribe, Unsubscribe, End and
// Publish each answer the command.
type Subscriptions interface {
	// Subscribe has the client listen to the topics of these names, which are copied, and confirms
	// each of them once everything that is published from then on reaches the client.
	Subscribe(kind pubsub.Kind, names [][]byte)
	// Unsubscribe ends subscriptions and confirms that for each name, also those without a subscription.
	// Without names: for all names of that kind, as in Redis.
	Unsubscribe(kind pubsub.Kind, names [][]byte)
	// End ends all subscriptions of the client, and answers with what end then returns. Messages may come
	// until end is called, in the protocol that the client speaks; only end may change that.
	End(end func() []byte)
	// Publish forwards the command, PUBLISH or SPUBLISH, and answers with the number of
	// receivers that a server would tell to which the clients of the proxy are connected.
	Publish(shard bool)
	// Shards says that the upstream has shard channels.
	Shards() bool
	// Settled runs then, which asks for something, once the earlier subscriptions of clients of the proxy
	// are confirmed: at once, or within some bound. It is given the command raw, valid until then returns.
	Settled(raw []byte, then func(raw []byte))
	// SubscriberCounts counts subscribers. It is for a Merge over the masters of now.
	SubscriberCounts() SubscriberCounts
}

// SubscriberCounts tells apart the clients that listen through this proxy and the proxy itself, which the
// nodes count as one subscriber. Safe for concurrent use.
type SubscriberCounts interface {
	// Listeners is how many clients of the proxy listen to a topic.
	Listeners(kind pubsub.Kind, name []byte) int
	// Own is how many subscribers to a topic at master i are the proxy itself: 1 or 0.
	Own(kind pubsub.Kind, name []byte, i int) int
	// Heard are the names of the topics that clients listen to.
	Heard(kind pubsub.Kind) []string
	// OwnTopics is to how many topics the proxy is subscribed at master i.
	OwnTopics(kind pubsub.Kind, i int) int
}

// Barred is the refusal of c, a command of n arguments with its name, to a client of RESP2 with
// subscriptions; nil: it may send it. A command that cannot be right is not barred: it gets its own error
// elsewhere. In RESP3 messages are pushes, which nobody takes for answers, so any command may be sent.
func (c *Command) Barred(n int) (refusal []byte) {
	if c.Flags&InSubscriber != 0 || !c.Fits(n) {
		return nil
	}
	return rejects(c, "Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / "+
		"RESET are allowed in this context", c.Name)
}
