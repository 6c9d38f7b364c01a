package proxy

import (
	"bytes"
	"math"
	"strconv"

	"github.com/tidwall/redcon"

	"lockproxy/cluster"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	slots "lockproxy/internal/slot"
	"lockproxy/proxy/client"
)

// publishSteps is how many steps a loop takes to find out whom a message concerns; there may be a million
// patterns.
const publishSteps = 1 << 16

// Publish implements commands.Subscriptions. What is published on channels goes to the node where they are
// subscribed, so that all of it has one order, and nothing of it comes to clients before the
// node has it counted.
func (c subscriptions) Publish(shard bool) {
	s := c.s
	call := &s.w.call
	channel := call.Args[1]
	topics, left := s.w.server.upstream.Concerned(channel, shard, publishSteps)
	slot := s.publishSlot(channel, shard)
	switch {
	case left < 0:
		s.publishApart(client.Lasting(channel), client.Lasting(call.Raw))
	case len(topics) == 0:
		s.router.forward(slot, call.Command, call.Raw)
	default:
		node := s.w.pipes.MasterOf(slot)
		before := countedAt(topics, node)
		s.Actions().Ask(cluster.ToSlot(slot), call.Raw, commands.Asking{}, func(reply []byte) []byte {
			return countListeners(reply, topics, max(before, countedAt(topics, node)))
		})
	}
}

func (s *session) publishSlot(channel []byte, shard bool) int {
	switch {
	case s.w.masters() == 1:
		return commands.AnySlot
	case shard && s.w.call.Place != nil: // a long command
		return s.w.call.Place.Slot
	case shard:
		return slots.Of(channel)
	}
	if slot := s.w.pipes.SlotAt(s.w.server.upstream.Home()); slot != commands.AnySlot {
		return slot
	}
	return s.w.pipes.SomeSlot(s.ID)
}

// publishApart is Publish on a channel where goroutines find out whom it concerns, and count them. What the
// client publishes later waits.
func (s *session) publishApart(channel, raw []byte) {
	size := len(channel) + len(raw)
	s.held += size
	node := s.w.pipes.MasterOf(s.publishSlot(channel, false))
	var topics []*cluster.Topic
	var before int
	s.apart(func() {
		topics, _ = s.w.server.upstream.Concerned(channel, false, math.MaxInt)
		before = countedAt(topics, node)
	}, func() []byte {
		if !s.gone {
			s.held -= size
		}
		slot := s.publishSlot(channel, false)
		if now := s.w.pipes.MasterOf(slot); now != node {
			node, before = now, 0
		}
		s.Actions().Ask(cluster.ToSlot(slot), raw, commands.Asking{}, func(reply []byte) []byte {
			reply = bytes.Clone(reply)
			s.apart(func() {
				reply = countListeners(reply, topics, max(before, countedAt(topics, node)))
			}, func() []byte { return reply })
			return nil
		})
		return nil
	})
}

// apart has a goroutine run task for the current command, which then answers or has go on. Later commands of
// the client wait for it.
func (s *session) apart(task func(), then func() []byte) {
	s.Actions().Await(func(done func([]byte)) {
		go func() { // ends by itself
			task()
			done(nil)
		}()
	}, func([]byte) []byte { return then() }, nil)
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

// recount is countListeners for PUBLISH or SPUBLISH that ran in a transaction, if that takes no more than
// most steps. left: as with Concerned.
func (s *session) recount(raw, reply []byte, node string, most int) (_ []byte, left int) {
	args, _, err := resp.Split(raw, nil)
	if err != nil || len(args) != 3 {
		return reply, most
	}
	topics, left := s.w.server.upstream.Concerned(args[1], len(args[0]) == len("spublish"), most)
	if left < 0 || len(topics) == 0 {
		return reply, left
	}
	return countListeners(reply, topics, countedAt(topics, node)), left
}

// countedAt is how many of the receivers that node counts are the proxy's own.
func countedAt(topics []*cluster.Topic, node string) (n int) {
	for _, t := range topics {
		n += t.CountedAt(node)
	}
	return n
}

// Shards implements commands.Subscriptions.
func (c subscriptions) Shards() bool { return c.s.w.server.upstream.Sharded() }
