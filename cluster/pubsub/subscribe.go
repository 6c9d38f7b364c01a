package pubsub

import (
	"errors"
	"fmt"
	"slices"

	"lockproxy/internal/subscription"
)

// Subscribe calls notify for the messages of channel, and never blocks. slot is the slot of channel, which is
// a shard channel if Sharded says so. With slot -1 it is a classic channel, at any master: PUBLISH at any
// node reaches it. A name must always come with the same slot. Subscribers of one channel share one
// subscription, and all channels of one node share one connection.
//
// The channel is subscribed at the right node, however long that takes, and then notify gets Live. When the
// connection is lost or the slot moves, notify gets Lost, and the channel is subscribed again. Events of a
// channel come one after the other, in order. They may come before Subscribe returns, and those of other
// channels with them: so the caller holds no lock that a notify takes. notify must not block, must not call
// Subscribe, and must leave payload unchanged; it may call cancel.
//
// cancel ends the subscription and never blocks; an event that is on its way may still come. After Close no
// more events come.
func (s *Subscriptions) Subscribe(
	slot int, channel string, notify func(subscription.Change),
) (cancel func()) {
	m := &member{notify: notify, slot: slot, lost: true}
	s.mu.Lock()
	defer s.unlockAndTell()
	s.admitMember(m, channel)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.expelMember(m)
	}
}

// Sharded says that channels with a slot are shard channels: Server.ShardChannels.
func (s *Subscriptions) Sharded() bool { return s.nodes.Topology().Server.ShardChannels }

// member is one caller of Subscribe. Its fields are guarded by Subscriptions.mu.
type member struct {
	notify func(subscription.Change)
	topic  *Topic
	slot   int  // -1: a classic channel in any case
	lost   bool // it was not told Live last: so it is not told Lost twice
}

// admitMember makes m, which is lost, a member of the topic called name. mu is held.
func (s *Subscriptions) admitMember(m *member, name string) {
	kind := Classic
	if m.slot >= 0 && s.Sharded() {
		kind = Shard
	}
	m.topic = s.topic(kind, name, m.slot)
	m.topic.members = append(m.topic.members, m)
	s.placeTopic(m.topic)
	s.restoreTopic(m.topic)
}

// expelMember takes m out of its topic, which ends with its last listener. mu is held.
func (s *Subscriptions) expelMember(m *member) {
	t := m.topic
	t.members = slices.DeleteFunc(t.members, func(o *member) bool { return o == m })
	s.endIfUnused(t, nil)
}

// rekey moves members to other topics, because their channels have become shard channels, or classic ones.
// mu is held.
func (s *Subscriptions) rekey() {
	for _, t := range s.index.all {
		if len(t.members) == 0 || t.members[0].slot < 0 || (t.Kind == Shard) == s.Sharded() {
			continue
		}
		s.loseTopic(t)
		for _, m := range slices.Clone(t.members) {
			s.expelMember(m)
			s.admitMember(m, t.Name)
		}
	}
}

// memberEvent is one that a member is still to be told of.
type memberEvent struct {
	to *member
	subscription.Change
}

// noteEvent has m told of an event. mu is held. unlockAndTell tells it. Events wait for that if mu is given
// up in another way.
func (s *Subscriptions) noteEvent(m *member, e subscription.Change) {
	s.events = append(s.events, memberEvent{m, e})
}

// loseTopic has the members of t told that they may miss messages. mu is held.
func (s *Subscriptions) loseTopic(t *Topic) {
	for _, m := range t.members {
		if !m.lost {
			m.lost = true
			s.noteEvent(m, subscription.Change{Kind: subscription.Lost})
		}
	}
}

// restoreTopic has the members that are lost told, if t is live, that messages come again. mu is held.
func (s *Subscriptions) restoreTopic(t *Topic) {
	for _, m := range t.members {
		if m.lost && t.live() {
			m.lost = false
			s.noteEvent(m, subscription.Change{Kind: subscription.Live})
		}
	}
}

// refuseTopic has the members of t that are lost told that a node refuses it for good. mu is held.
func (s *Subscriptions) refuseTopic(t *Topic) {
	for _, m := range t.members {
		if m.lost {
			s.noteEvent(m, subscription.Change{Kind: subscription.Refused,
				Err: fmt.Errorf("cluster: subscribe: %w", t.reason)})
		}
	}
}

// unlockAndTell gives up mu, and tells members of what has happened, unless s is closed. telling comes before
// mu, and events are taken with both held: so they are told one after the other, in their order, by whoever
// comes first. A notify may call cancel, since mu is free.
func (s *Subscriptions) unlockAndTell() {
	for len(s.events) > 0 {
		s.mu.Unlock()
		s.telling.Lock()
		s.mu.Lock()
		events := s.events
		s.events = nil
		if s.closed {
			events = nil
		}
		s.mu.Unlock()
		for _, e := range events {
			e.to.notify(e.Change)
		}
		s.telling.Unlock()
		s.mu.Lock()
	}
	s.mu.Unlock()
}

// errMoved is why a topic is subscribed anew elsewhere. It is the reason of a join that waits for that.
var errMoved = errors.New("its slot has moved")
