package pubsub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"lockproxy/internal/subscription"
)

// Subscribe calls notify for the messages of channel, and returns once the node has confirmed the
// subscription. slot is the slot of channel, which is a shard channel if Sharded says so. With slot -1 it is
// a classic channel, at any master: PUBLISH at any node reaches it. A name must always come with the same
// slot. Subscribers of one channel share one subscription, and all channels of one node share one
// connection.
//
// When the connection is lost or the slot moves, notify gets Lost. The channel is subscribed again at the
// right node, however long that takes, and then notify gets Live. Events of a channel come one after the
// other, in order. notify must not block, must not call Subscribe, and must leave payload unchanged; it may
// call cancel.
//
// cancel ends the subscription and never blocks; an event that is on its way may still come. Subscribe
// blocks until ctx ends at most; if a node refuses for good, as without the right to do so, it ends sooner.
// After Close no more events come.
func (s *Subscriptions) Subscribe(
	ctx context.Context, slot int, channel string, notify func(subscription.Event),
) (cancel func(), err error) {
	m := &member{notify: notify, slot: slot, ready: make(chan struct{})}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, fmt.Errorf("cluster: subscribe: %w", net.ErrClosed)
	}
	s.admit(m, channel)
	if t := m.topic; t.live() && !t.lapsed {
		m.joined = true
		close(m.ready)
	}
	s.mu.Unlock()

	cancel = func() { s.leave(m) }
	select {
	case <-m.ready:
		if m.err != nil {
			return nil, fmt.Errorf("cluster: subscribe: %w", m.err)
		}
		return cancel, nil
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	return nil, fmt.Errorf("cluster: subscribe: %w", m.topic.explain(ctx))
}

// Sharded says that channels with a slot are shard channels: Server.ShardChannels.
func (s *Subscriptions) Sharded() bool { return s.nodes.Topology().Server.ShardChannels }

// member is one caller of Subscribe. Its fields are guarded by Subscriptions.mu.
type member struct {
	notify func(subscription.Event)
	topic  *Topic
	slot   int
	joined bool          // the topic was live once
	lost   bool          // it was told Lost last
	gone   bool          // cancelled
	ready  chan struct{} // closed when joined is set, or err
	err    error
}

// admit makes m a member of the topic called name. mu is held.
func (s *Subscriptions) admit(m *member, name string) {
	kind := Classic
	if m.slot >= 0 && s.Sharded() {
		kind = Shard
	}
	m.topic = s.topic(kind, name, m.slot)
	m.topic.members = append(slices.Clip(m.topic.members), m)
	s.place(m.topic)
}

// leave takes m out of its topic, which ends with its last listener.
func (s *Subscriptions) leave(m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.gone {
		return
	}
	m.gone = true
	s.expel(m)
}

// expel is leave for a member that may come back. mu is held.
func (s *Subscriptions) expel(m *member) {
	t := m.topic
	t.members = slices.DeleteFunc(slices.Clone(t.members), func(o *member) bool { return o == m })
	s.endIfUnused(t, nil)
}

// rekey moves members to other topics, because their channels have become shard channels, or classic ones.
// mu is held.
func (s *Subscriptions) rekey() (left []*Topic) {
	for _, t := range s.topics {
		if len(t.members) == 0 {
			continue
		}
		m := t.members[0]
		if m.slot < 0 || (t.Kind == Shard) == s.Sharded() {
			continue
		}
		for _, m := range t.members {
			s.expel(m)
			s.admit(m, t.Name)
			m.topic.lapsed = true
		}
		left = append(left, m.topic)
	}
	return left
}

// explain is the error if t was waited for in vain. mu is held.
func (t *Topic) explain(ctx context.Context) error {
	err := context.Cause(ctx)
	if err == nil {
		err = net.ErrClosed
	}
	if t.reason != nil {
		return fmt.Errorf("%w (%w)", err, t.reason)
	}
	return err
}

// tell gives Lost and Live to the members of t, if they are due, and lets in those who wait for t to be
// live. mu is not held.
func (s *Subscriptions) tell(t *Topic) {
	t.order.Lock()
	defer t.order.Unlock()
	var lost, back []*member
	s.mu.Lock()
	live := t.live()
	for _, m := range t.members {
		if t.lapsed && m.joined && !m.lost {
			m.lost = true
			lost = append(lost, m)
		}
		switch {
		case !live:
		case !m.joined:
			m.joined = true
			close(m.ready)
		case m.lost:
			m.lost = false
			back = append(back, m)
		}
	}
	t.lapsed = false
	s.mu.Unlock()
	for _, m := range lost {
		m.notify(subscription.Event{Kind: subscription.Lost})
	}
	for _, m := range back {
		m.notify(subscription.Event{Kind: subscription.Live})
	}
}

// hand gives payload, a message of t at l, to the members. mu is not held.
func (s *Subscriptions) hand(t *Topic, l *subscriptionAt, payload []byte) {
	t.order.Lock()
	defer t.order.Unlock()
	s.mu.Lock()
	var members []*member
	if l.live {
		members = t.members
	}
	s.mu.Unlock()
	for _, m := range members {
		m.notify(subscription.Event{Kind: subscription.Message, Payload: payload})
	}
}

// turnAway tells the members of t that wait that the node refuses. mu is held.
func (t *Topic) turnAway(why error) {
	var stay []*member
	for _, m := range t.members {
		if m.joined {
			stay = append(stay, m)
			continue
		}
		m.gone, m.err = true, why
		close(m.ready)
	}
	t.members = stay
}

var errMoved = errors.New("its slot has moved")
