package pubsub

import (
	"bytes"
	"math"
	"strconv"

	"github.com/tidwall/redcon"

	"lockproxy/cluster/pipe"
	"lockproxy/cluster/pubsub"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
	"lockproxy/proxy/client"
)

// PublishSteps bounds the steps that a loop takes to find out whom a message concerns; there may be a million
// patterns.
const PublishSteps = 1 << 16

// Publish implements commands.Subscriptions. Messages on channels go to the node where these are subscribed.
// So all messages have one order, and no client gets one before the node has counted it. It goes behind the
// subscriptions that came before it. PUBLISH takes the short way, the command as it is, where no client of
// the proxy is concerned: the node's count is right then.
func (l *Subscriber) Publish(shard bool) {
	call := l.h.Call()
	channel, slot := call.Args[1], commands.AnySlot
	if shard {
		slot = l.shardSlot()
	}
	first := l.hub.underway.concernedRequests(channel, shard)
	topics, left := l.hub.upstream.Concerned(channel, shard, PublishSteps)
	switch {
	// To wait, or to find out whom it concerns, would hold up the loop.
	case len(first) > 0 || left < 0:
		l.publishApart(first, shard, slot)
	case len(topics) == 0:
		l.h.Actions().Forward(l.publishSlot(shard, slot))
	default:
		slot = l.publishSlot(shard, slot)
		node := l.h.Pool().MasterOf(slot)
		before := countedAt(topics, node)
		l.h.Actions().Ask(pipe.ToSlot(slot), call.Raw, commands.Asking{}, func(reply []byte) []byte {
			// The proxy's own subscription may have come to the node, or left it, while the command was on
			// its way: the node has counted it at most as often as it was there at one of both times.
			return countListeners(reply, topics, max(before, countedAt(topics, node)))
		})
	}
}

// shardSlot is the slot of the shard channel of the current command.
func (l *Subscriber) shardSlot() int {
	call := l.h.Call()
	if call.Place != nil { // a long command
		return call.Place.Slot
	}
	return slot.Of(call.Args[1])
}

// publishSlot returns a slot of the master that has to publish; for a shard channel that is the given one.
// Where there is one master any slot will do.
func (l *Subscriber) publishSlot(shard bool, ofShard int) int {
	switch pool := l.h.Pool(); {
	case client.Masters(l.h) == 1:
		return commands.AnySlot
	case shard:
		return ofShard
	default:
		if slot := pool.SlotAt(l.hub.upstream.Home()); slot != commands.AnySlot {
			return slot
		}
		return pool.SomeSlot(l.h.About().ID)
	}
}

// publishApart is Publish behind first, with goroutines that find out whom the message concerns, and count.
// What the client publishes later waits. slot is the slot of a shard channel.
func (l *Subscriber) publishApart(first []*subscribeRequest, shard bool, slot int) {
	call := l.h.Call()
	channel, raw := client.Lasting(call.Args[1]), client.Lasting(call.Raw)
	node := l.h.Pool().MasterOf(l.publishSlot(shard, slot))
	var topics []*pubsub.Topic
	var before int
	l.keepApart(len(channel)+len(raw), func() {
		awaitRequests(first)
		topics, _ = l.hub.upstream.Concerned(channel, shard, math.MaxInt)
		before = countedAt(topics, node)
	}, func() {
		slot := l.publishSlot(shard, slot)
		// Another master publishes now, at which nobody has counted before.
		if now := l.h.Pool().MasterOf(slot); now != node {
			node, before = now, 0
		}
		l.h.Actions().Ask(pipe.ToSlot(slot), raw, commands.Asking{}, func(reply []byte) []byte {
			reply = bytes.Clone(reply)
			client.Apart(l.h, func() {
				reply = countListeners(reply, topics, max(before, countedAt(topics, node)))
			}, func() []byte { return reply })
			return nil
		})
	})
}

// countListeners corrects a node's count of receivers: own of them are the proxy, which counts with each of
// its clients instead. It runs on any goroutine. An error of the node stays as it is.
func countListeners(reply []byte, topics []*pubsub.Topic, own int) []byte {
	if reply[0] != ':' {
		return reply
	}
	n, _ := strconv.Atoi(string(reply[1 : len(reply)-2]))
	return redcon.AppendInt(nil, int64(max(n-own, 0)+listenersOf(topics)))
}

// Recount is countListeners for a PUBLISH or SPUBLISH that ran in a transaction, if that takes no more than
// most steps. left: as for Concerned. raw is the command as it was queued, node the one that has run it.
func (l *Subscriber) Recount(raw, reply []byte, node string, most int) (_ []byte, left int) {
	args, _, err := resp.Split(raw, nil)
	if err != nil || len(args) != 3 {
		return reply, most
	}
	topics, left := l.hub.upstream.Concerned(args[1], len(args[0]) == len("spublish"), most)
	if left < 0 || len(topics) == 0 {
		return reply, left
	}
	return countListeners(reply, topics, countedAt(topics, node)), left
}

// countedAt returns how many of the receivers that node counts are the proxy itself.
func countedAt(topics []*pubsub.Topic, node string) (n int) {
	for _, t := range topics {
		n += t.CountedAt(node)
	}
	return n
}

// Shards implements commands.Subscriptions.
func (l *Subscriber) Shards() bool { return l.hub.upstream.Sharded() }
