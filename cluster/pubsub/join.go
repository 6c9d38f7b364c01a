package pubsub

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"

	"lockproxy/internal/slot"
)

// Outlet receives messages for a group of listeners, such as the clients of a loop.
type Outlet interface {
	// Deliver gets a message for t: the node's whole RESP2 reply, valid during the call. Messages of topics
	// of one kind come in the order of the node. It must not block. It reports true if it should get no more
	// before Space.
	Deliver(t *Topic, message []byte) (full bool)
	// Space returns a channel that is closed when there is room again.
	Space() <-chan struct{}
}

// attached is an Outlet of a topic: how many have joined through it, and how many of those are leaving,
// which get messages until the nodes have confirmed that.
type attached struct {
	to            Outlet
	uses, leaving int
}

// barrier waits for the answers of several nodes. Its fields are guarded by Subscriptions.mu.
type barrier struct {
	missing int           // answers to come, and 1 as long as its maker adds to them
	err     error         // why one of them will not come; nil: so far none has failed
	done    chan struct{} // closed when nothing is missing
}

// newBarrier is a barrier that also waits until whoever made it calls answerArrived.
func newBarrier() *barrier { return &barrier{missing: 1, done: make(chan struct{})} }

// answerArrived counts one answer, or that it will not come. o may be nil: nobody waits for that answer. mu
// is held.
func (o *barrier) answerArrived() {
	if o == nil {
		return
	}
	if o.missing--; o.missing == 0 {
		close(o.done)
	}
}

// Join subscribes to the topics of these names for out, and returns them once the nodes have
// confirmed: what is published from then on is delivered to out, and nothing comes behind the
// return that the nodes had before Join was called. Names differ from each other.
//
// Subscriptions that are lost later, with a connection or because a slot moves, are made again in
// silence for as long as it takes. Topics that notifications about keys may come over are
// subscribed at every master, and follow the topology.
//
// It blocks until ctx ends at most; a node that refuses for good ends it sooner. An error leaves
// nothing behind.
func (s *Subscriptions) Join(ctx context.Context, kind Kind, names []string, out Outlet) ([]*Topic, error) {
	o := newBarrier()
	topics := make([]*Topic, len(names))
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, fmt.Errorf("cluster: subscribe: %w", net.ErrClosed)
	}
	if err := s.afford(kind, names); err != nil {
		s.mu.Unlock()
		return nil, err
	}
	for i, name := range names {
		at := -1
		if kind == Shard {
			at = slot.Of([]byte(name))
		}
		topics[i] = s.topic(kind, name, at)
		topics[i].attachOutlet(out)
		s.awaitTopic(topics[i], o)
	}
	s.waitFor(ctx, o)
	defer s.mu.Unlock()
	err := o.outcome(ctx, topics)
	if err == nil {
		return topics, nil
	}
	for _, t := range topics {
		t.detachOutlet(out, 1, 0)
		s.endIfUnused(t, nil)
	}
	return nil, err
}

// Leave ends what Join began for out, and returns when the nodes have confirmed: by then, everything that
// they had published before is delivered. It blocks until ctx ends at most; the subscriptions end in any
// case.
func (s *Subscriptions) Leave(ctx context.Context, topics []*Topic, out Outlet) {
	o := newBarrier()
	s.mu.Lock()
	fenced := make(map[*feed]bool)
	for _, t := range topics {
		t.detachOutlet(out, 1, -1)
		if !t.used() {
			s.endIfUnused(t, o)
			continue
		}
		for _, l := range t.places() {
			if !fenced[l.feed] {
				fenced[l.feed] = true
				l.feed.sendPing(o)
			}
		}
	}
	s.waitFor(ctx, o)
	defer s.mu.Unlock()
	for _, t := range topics {
		t.detachOutlet(out, 0, 1)
	}
}

// waitFor gives up mu, which is held, until nothing is missing in o, or ctx or s ends. It is held again when
// waitFor returns. The maker of o adds nothing from now on.
func (s *Subscriptions) waitFor(ctx context.Context, o *barrier) {
	o.answerArrived()
	s.mu.Unlock()
	select {
	case <-o.done:
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	s.mu.Lock()
}

// outcome says why a join to topics was in vain, if it was: then they forget it. mu is held.
func (o *barrier) outcome(ctx context.Context, topics []*Topic) error {
	if o.missing == 0 && o.err == nil {
		return nil
	}
	for _, t := range topics {
		t.joins = slices.DeleteFunc(t.joins, func(j join) bool { return j.barrier == o })
	}
	err := o.err
	if err == nil { // it was waited for in vain
		err = cmp.Or(context.Cause(ctx), net.ErrClosed)
		if i := slices.IndexFunc(topics, func(t *Topic) bool { return t.reason != nil }); i >= 0 {
			err = fmt.Errorf("%w (%w)", err, topics[i].reason)
		}
	}
	return fmt.Errorf("cluster: subscribe: %w", err)
}

// awaitTopic subscribes t at its nodes once more, so that o ends behind everything that they have sent so
// far. mu is held. Nodes that are asked already are asked again: only the answer to what is sent now comes
// behind all that they had before.
func (s *Subscriptions) awaitTopic(t *Topic, o *barrier) {
	o.missing++
	t.asked++
	s.placeTopic(t)
	for _, l := range t.places() {
		if !l.leaving && l.sent < t.asked {
			l.feed.sendSubscribe(l)
		}
	}
	t.joins = append(t.joins, join{o, t.asked})
}

// attachOutlet counts one more listener through out. mu is held. An outlet is there once, however many have
// joined through it.
func (t *Topic) attachOutlet(out Outlet) {
	for i := range t.outlets {
		if t.outlets[i].to == out {
			t.outlets[i].uses++
			return
		}
	}
	t.outlets = append(t.outlets, attached{to: out, uses: 1})
}

// detachOutlet counts down the listeners through out, and those who are leaving. mu is held. uses and leaving
// are subtracted; -1 adds. out must be attached.
func (t *Topic) detachOutlet(out Outlet, uses, leaving int) {
	i := slices.IndexFunc(t.outlets, func(a attached) bool { return a.to == out })
	a := &t.outlets[i]
	a.uses -= uses
	a.leaving -= leaving
	if a.uses == 0 && a.leaving == 0 {
		t.outlets = slices.Delete(t.outlets, i, i+1)
	}
}
