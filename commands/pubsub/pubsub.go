package pubsub

import (
	"github.com/tidwall/redcon"

	"lockproxy/cluster/pubsub"
	"lockproxy/commands"
	"lockproxy/commands/merge"
	"lockproxy/internal/glob"
	"lockproxy/internal/resp"
)

// A name that the client listens to already is confirmed as well. Without names all topics of the kind are
// left.
func subscribe(c *commands.Call)    { c.Subscriptions().Subscribe(pubsub.Classic, c.Args[1:]) }
func psubscribe(c *commands.Call)   { c.Subscriptions().Subscribe(pubsub.Pattern, c.Args[1:]) }
func unsubscribe(c *commands.Call)  { c.Subscriptions().Unsubscribe(pubsub.Classic, c.Args[1:]) }
func punsubscribe(c *commands.Call) { c.Subscriptions().Unsubscribe(pubsub.Pattern, c.Args[1:]) }
func publish(c *commands.Call)      { c.Subscriptions().Publish(false) }
func spublish(c *commands.Call)     { c.Subscriptions().Publish(true) }

func ssubscribe(c *commands.Call)   { c.Subscriptions().Subscribe(pubsub.Shard, c.Args[1:]) }
func sunsubscribe(c *commands.Call) { c.Subscriptions().Unsubscribe(pubsub.Shard, c.Args[1:]) }

// ofShards is for commands about shard channels, all of one slot. Servers older than 7.0 have none, and do
// not know these commands.
func ofShards(run func(c *commands.Call)) func(c *commands.Call) {
	return func(c *commands.Call) {
		switch {
		case !c.Subscriptions().Shards():
			c.Reply(commands.UnknownCommand(c.Args))
		case crossesSlots(c):
			c.Reply(commands.ErrorReply(commands.ErrCrossSlot))
		default:
			run(c)
		}
	}
}

// crossesSlots says that the arguments are of several slots, which a cluster does not accept. A slot is
// worked out for each name, so for a long command a goroutine has done it before.
func crossesSlots(c *commands.Call) bool {
	if !c.Server.Clustered() {
		return false
	}
	if c.Place != nil { // a long command
		return c.Place.Err == commands.ErrCrossSlot
	}
	_, err := c.Command.Slot(c.Args)
	return err == commands.ErrCrossSlot
}

// channels is PUBSUB CHANNELS [pattern] and PUBSUB SHARDCHANNELS [pattern]. A node compares the pattern with
// all names at once, so the proxy does it with a dear one. The replies may have names that clients of this
// proxy alone listen to, those that others listen to, and both; each comes once.
func channels(kind pubsub.Kind) func(c *commands.Call) {
	return func(c *commands.Call) {
		pattern := []byte(nil)
		if len(c.Args) == 3 {
			// not nil, even if it is empty: that pattern fits the empty name only
			pattern = append([]byte{}, c.Args[2]...)
		}
		raw, here := c.Raw, glob.Price(pattern) > pubsub.CheapPattern
		if here {
			raw = resp.AppendCommand(nil, c.Args[:2]...)
		}
		broadcastApart(c, raw, func(counts commands.SubscriberCounts, replies [][]byte) []byte {
			return mergeChannels(counts, kind, pattern, here, replies)
		})
	}
}

// matchSteps bounds the steps that a goroutine takes to compare names with a pattern: some seconds. Beyond
// that the answer is errLongMatch, and not a list with something missing.
const matchSteps = 1 << 30

var errLongMatch = []byte("-ERR comparing that pattern with the names of all channels takes too long\r\n")

// mergeChannels has the names of the nodes and of the proxy's clients. here says that the nodes have not
// compared theirs with pattern. It runs on a goroutine. replies stand in the order of the masters, by which
// counts knows them.
func mergeChannels(counts commands.SubscriberCounts, kind pubsub.Kind, pattern []byte, here bool,
	replies [][]byte) []byte {
	seen := make(map[string]bool)
	var names []byte
	// below 0 once they are used up
	left := matchSteps
	add := func(name []byte, fits bool) {
		ok := fits || pattern == nil
		if !ok && left >= 0 {
			ok, left = glob.MatchWithin(pattern, name, left)
		}
		if ok && !seen[string(name)] {
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
			// A node may have it only because the proxy is still subscribed there, for clients that have
			// left.
			if counts.Own(kind, name, i) == 0 || counts.Listeners(kind, name) > 0 {
				add(name, !here)
			}
		}
	}
	for _, name := range counts.Heard(kind) { // also while a subscription is being made again
		add([]byte(name), false)
	}
	if left < 0 {
		return errLongMatch
	}
	return append(redcon.AppendArray(nil, len(seen)), names...)
}

// numSub is PUBSUB NUMSUB [channel ...] and PUBSUB SHARDNUMSUB [channel ...].
func numSub(kind pubsub.Kind) func(c *commands.Call) {
	return func(c *commands.Call) {
		broadcastApart(c, c.Raw, func(counts commands.SubscriberCounts, replies [][]byte) []byte {
			return mergeNumSub(counts, kind, replies)
		})
	}
}

// Each master answers for all names, in the order of the command: name and number in turn. The names come
// from the first reply.
func mergeNumSub(ours commands.SubscriberCounts, kind pubsub.Kind, replies [][]byte) []byte {
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
			// The proxy may have subscribed, or left, since the master answered: so less than none may be
			// left.
			counts[j] += max(n-int64(ours.Own(kind, name, i)), 0)
		}
	}
	out := redcon.AppendArray(nil, len(names))
	for j := 0; j < len(names); j += 2 {
		name, _ := resp.BulkReply(names[j])
		out = append(out, names[j]...)
		out = redcon.AppendInt(out, counts[j]+int64(ours.Listeners(kind, name)))
	}
	return out
}

// numPat is PUBSUB NUMPAT. Nodes tell how many patterns they have, but not which. So patterns that clients of
// several nodes have in common count more than once.
func numPat(c *commands.Call) {
	broadcastApart(c, c.Raw, func(counts commands.SubscriberCounts, replies [][]byte) []byte {
		sum := int64(len(counts.Heard(pubsub.Pattern)))
		for i, reply := range replies {
			n, ok := resp.IntegerReply(reply)
			if !ok {
				return resp.ErrUnexpected
			}
			sum += max(n-int64(counts.OwnTopics(pubsub.Pattern, i)), 0)
		}
		return redcon.AppendInt(nil, sum)
	})
}

// broadcastApart sends raw, the command, to all masters, behind the subscriptions that came before it. A
// goroutine combines what they answer, unless that is an error: there may be a million names in the replies,
// or in the counts. The counts are safe for that. combine must not touch the call, which is over by then, nor
// anything of the loop.
func broadcastApart(c *commands.Call, raw []byte, combine func(commands.SubscriberCounts, [][]byte) []byte) {
	actions := c.Actions
	actions.Subscriptions().Settled(raw, func(raw []byte) {
		counts := actions.Subscriptions().SubscriberCounts()
		actions.AskAll(raw, commands.Reread, func(_ int, replies [][]byte) []byte {
			if err := merge.FirstError(replies); err != nil {
				return err
			}
			commands.Beside(actions, func() []byte { return combine(counts, replies) })
			return nil
		})
	})
}

// publishes is for PUBLISH in a transaction: the node's number lacks the clients of this proxy.
func publishes([][]byte) commands.Queued { return commands.Queued{DB: -1, Publishes: true} }
