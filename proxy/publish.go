package proxy

import (
	"strconv"

	"github.com/tidwall/redcon"

	"lockproxy/cluster"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	slots "lockproxy/internal/slot"
)

// Publish implements commands.Subscriber. What is published on channels goes to the node where they are
// subscribed, so that all of it has one order, and nothing of it comes to clients before the
// node has it counted.
func (s *session) Publish(shard bool) {
	call := &s.w.call
	channel, upstream := call.Args[1], s.w.server.upstream
	slot := commands.AnySlot
	switch {
	case s.Masters() == 1:
	case shard:
		slot = slots.Of(channel)
	default:
		if slot = s.w.pipes.SlotAt(upstream.Home()); slot == commands.AnySlot {
			slot = s.w.pipes.SomeSlot(s.ID)
		}
	}
	topics := upstream.Concerned(channel, shard)
	if len(topics) == 0 {
		s.forward(slot, call.Command, call.Raw)
		return
	}
	node := s.w.pipes.MasterOf(slot)
	before := countedAt(topics, node)
	s.Send(slot, call.Raw, false, func(reply []byte) []byte {
		return countListeners(reply, topics, max(before, countedAt(topics, node)))
	}, nil)
}

// countListeners makes a node's count of receivers, of which own are the proxy itself, one of its clients.
func countListeners(reply []byte, topics []*cluster.Topic, own int) []byte {
	if reply[0] != ':' {
		return reply
	}
	n, _ := strconv.Atoi(string(reply[1 : len(reply)-2]))
	n = max(n-own, 0)
	for _, t := range topics {
		n += t.Listeners()
	}
	return redcon.AppendInt(nil, int64(n))
}

// recount is countListeners for PUBLISH or SPUBLISH that ran in a transaction.
func (s *session) recount(raw, reply []byte, node string) []byte {
	args, _, err := resp.Split(raw, nil)
	if err != nil || len(args) != 3 {
		return reply
	}
	topics := s.w.server.upstream.Concerned(args[1], len(args[0]) == len("spublish"))
	if len(topics) == 0 {
		return reply
	}
	return countListeners(reply, topics, countedAt(topics, node))
}

// countedAt is how many of the receivers that node counts are the proxy's own.
func countedAt(topics []*cluster.Topic, node string) (n int) {
	for _, t := range topics {
		n += t.CountedAt(node)
	}
	return n
}

// Shards implements commands.Subscriber.
func (s *session) Shards() bool { return s.w.server.upstream.Sharded() }
