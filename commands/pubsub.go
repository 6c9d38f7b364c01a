package commands

import (
	"github.com/tidwall/redcon"

	"lockproxy/cluster"
	"lockproxy/commands/merge"
	"lockproxy/internal/glob"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// Subscriptions is what publishing and subscribing need. Subscribe, Unsubscribe, End and
// Publish each answer the command.
type Subscriptions interface {
	// Subscribe has the client listen to the topics of these names, which are copied, and confirms
	// each of them once everything that is published from then on reaches the client.
	Subscribe(kind cluster.TopicKind, names [][]byte)
	// Unsubscribe ends that and confirms it for each name, those of no subscription too. nil: for all
	// names of that kind.
	Unsubscribe(kind cluster.TopicKind, names [][]byte)
	// End ends everything that the client listens to, and answers with what end then returns.
	// Messages come until end is called, in the protocol that the client speaks: only end may change that.
	End(end func() []byte)
	// Publish forwards the command, PUBLISH or SPUBLISH, and answers with the number of
	// receivers that a server would tell to which the clients of the proxy are connected.
	Publish(shard bool)
	// Shards says that the upstream has shard channels.
	Shards() bool
	// Census counts who listens. It is for a Merge of the masters as they are now.
	Census() Census
}

// Census tells the clients that listen through this proxy from the proxy itself, which
// the nodes take for one subscriber. Any goroutine may use it.
type Census interface {
	// Listeners is how many clients of the proxy listen to a topic.
	Listeners(kind cluster.TopicKind, name []byte) int
	// Own is how many subscribers to a topic master i takes the proxy for: 1 or 0.
	Own(kind cluster.TopicKind, name []byte, i int) int
	// Heard are the names of the topics that clients listen to.
	Heard(kind cluster.TopicKind) []string
	// OwnTopics is how many topics master i has the proxy as a subscriber to.
	OwnTopics(kind cluster.TopicKind, i int) int
}

func subscribe(c *Call)    { c.listen(cluster.Classic) }
func psubscribe(c *Call)   { c.listen(cluster.Pattern) }
func unsubscribe(c *Call)  { c.Subscriptions().Unsubscribe(cluster.Classic, c.named()) }
func punsubscribe(c *Call) { c.Subscriptions().Unsubscribe(cluster.Pattern, c.named()) }
func publish(c *Call)      { c.Subscriptions().Publish(false) }
func spublish(c *Call)     { c.Subscriptions().Publish(true) }

func ssubscribe(c *Call) {
	switch {
	case !c.Subscriptions().Shards():
		c.Reply(unknownCommand(c.Args))
	case c.crossesSlots():
		c.Reply(ErrorReply(ErrCrossSlot))
	default:
		c.listen(cluster.Shard)
	}
}

// maxTopicName is how many bytes the name of a topic has at most. All clients of the proxy are subscribed
// over one connection to a node, which would break for all of them if the node found a command on it too
// large.
const maxTopicName = cluster.MaxShared - 1<<10

// listen subscribes to the topics that the arguments name.
func (c *Call) listen(kind cluster.TopicKind) {
	for _, name := range c.Args[1:] {
		if len(name) > maxTopicName {
			c.Reply(resp.ErrorLine("ERR the name of a channel or a pattern has %d bytes at most through lockproxy, this one has %d",
				maxTopicName, len(name)))
			return
		}
	}
	c.Subscriptions().Subscribe(kind, c.Args[1:])
}

func sunsubscribe(c *Call) {
	switch {
	case !c.Subscriptions().Shards():
		c.Reply(unknownCommand(c.Args))
	case c.crossesSlots():
		c.Reply(ErrorReply(ErrCrossSlot))
	default:
		c.Subscriptions().Unsubscribe(cluster.Shard, c.named())
	}
}

// named are the arguments, nil if there are none.
func (c *Call) named() [][]byte {
	if len(c.Args) == 1 {
		return nil
	}
	return c.Args[1:]
}

// crossesSlots says that the arguments are of several slots, which a cluster does not take.
func (c *Call) crossesSlots() bool {
	if !c.Server.Clustered() || len(c.Args) < 3 {
		return false
	}
	if c.Place != nil { // a long command
		return c.Place.Err == ErrCrossSlot
	}
	first := slot.Of(c.Args[1])
	for _, name := range c.Args[2:] {
		if slot.Of(name) != first {
			return true
		}
	}
	return false
}

// BarredTo says that a client of RESP2 which listens to something may not send c, a command of
// n arguments with its name. What cannot be right is left to whoever says so.
func (c *Command) BarredTo(n int) bool {
	return c.Flags&InSubscriber == 0 && (n == c.Arity || c.Arity < 0 && n >= -c.Arity)
}

// Barred is the reply to a command that is barred to subscribers.
func (c *Command) Barred() []byte {
	return resp.ErrorLine("ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context", c.Name)
}

// channels is PUBSUB CHANNELS [pattern] and PUBSUB SHARDCHANNELS [pattern].
func channels(kind cluster.TopicKind) func(c *Call) {
	return func(c *Call) {
		census := c.Subscriptions().Census()
		pattern := []byte(nil)
		if len(c.Args) == 3 {
			pattern = append([]byte{}, c.Args[2]...)
		}
		c.broadcastApart(func(replies [][]byte) []byte { return mergeChannels(census, kind, pattern, replies) })
	}
}

func mergeChannels(census Census, kind cluster.TopicKind, pattern []byte, replies [][]byte) []byte {
	seen := make(map[string]bool)
	var names []byte
	add := func(name []byte) {
		if !seen[string(name)] {
			seen[string(name)] = true
			names = redcon.AppendBulk(names, name)
		}
	}
	for i, reply := range replies {
		all, ok := resp.Elements(reply)
		if !ok {
			return resp.ErrUnexpected
		}
		for _, elem := range all {
			name, _ := resp.BulkReply(elem)
			if census.Own(kind, name, i) == 0 || census.Listeners(kind, name) > 0 {
				add(name)
			}
		}
	}
	for _, name := range census.Heard(kind) { // also while a subscription is being made again
		if pattern == nil || glob.Match(pattern, []byte(name)) {
			add([]byte(name))
		}
	}
	return append(redcon.AppendArray(nil, len(seen)), names...)
}

// numSub is PUBSUB NUMSUB [channel ...] and PUBSUB SHARDNUMSUB [channel ...].
func numSub(kind cluster.TopicKind) func(c *Call) {
	return func(c *Call) {
		census := c.Subscriptions().Census()
		c.broadcastApart(func(replies [][]byte) []byte { return mergeNumSub(census, kind, replies) })
	}
}

func mergeNumSub(census Census, kind cluster.TopicKind, replies [][]byte) []byte {
	var names [][]byte
	var counts []int64
	for i, reply := range replies {
		pairs, ok := resp.Elements(reply)
		if i == 0 {
			names, counts = pairs, make([]int64, len(pairs))
		}
		if !ok || len(pairs)%2 != 0 || len(pairs) != len(names) {
			return resp.ErrUnexpected
		}
		for j := 0; j < len(pairs); j += 2 {
			name, _ := resp.BulkReply(pairs[j])
			n, _ := resp.IntegerReply(pairs[j+1])
			counts[j] += max(n-int64(census.Own(kind, name, i)), 0)
		}
	}
	out := redcon.AppendArray(nil, len(names))
	for j := 0; j < len(names); j += 2 {
		name, _ := resp.BulkReply(names[j])
		out = append(out, names[j]...)
		out = redcon.AppendInt(out, counts[j]+int64(census.Listeners(kind, name)))
	}
	return out
}

// numPat is PUBSUB NUMPAT. Nodes tell how many patterns they have, and not which: those that
// clients of several nodes have in common count more than once.
func numPat(c *Call) {
	census := c.Subscriptions().Census()
	c.broadcastApart(func(replies [][]byte) []byte {
		sum := int64(len(census.Heard(cluster.Pattern)))
		for i, reply := range replies {
			n, ok := resp.IntegerReply(reply)
			if !ok {
				return resp.ErrUnexpected
			}
			sum += max(n-int64(census.OwnTopics(cluster.Pattern, i)), 0)
		}
		return redcon.AppendInt(nil, sum)
	})
}

// broadcastApart sends the command to all masters and has a goroutine combine what they answer, unless that is
// an error: there may be a million names, in the replies or in the Census, which is safe for that.
func (c *Call) broadcastApart(combine func(replies [][]byte) []byte) {
	actions := c.Actions
	actions.AskAll(c.Raw, reread, func(_ int, replies [][]byte) []byte {
		if err := merge.FirstError(replies); err != nil {
			return err
		}
		actions.Await(func(done func([]byte)) {
			go func() { done(combine(replies)) }() // ends by itself
		}, func(reply []byte) []byte { return reply }, nil)
		return nil
	})
}
