// Package pubsub subscribes at the nodes of the upstream for everybody in this process: one subscription for
// each topic and node, however many clients listen, and one connection to each node.
//
//	Join, Subscribe --> Topic --> subscriptionAt --> feed: the connection to one node
//	      |                                            |
//	      +---- Outlet.Deliver, or notify <------------+ messages, in the order of the node
//
// A Topic is a channel, a pattern or a shard channel. Its home is the master that it is subscribed at: the
// master of its slot, or any master if it has no slot. Topics of notifications about keys are subscribed at
// all masters, because each notifies of its own keys only.
//
// Join is for clients: what is published after it has returned is delivered, and lost subscriptions are made
// again in silence. Subscribe is for locks: it tells when messages come, and when they may be missed.
//
// Topics move when the topology changes (Moved), when nodes end subscriptions because they lose a slot, and
// when connections break. A topic without its subscription waits in loose, with pauses that grow, until
// placeTopic has found it a home again.
package pubsub

import (
	"slices"
	"sync/atomic"
)

// Kind is what a Topic is.
type Kind uint8

// The kinds of topics.
const (
	Classic Kind = iota // a channel of SUBSCRIBE
	Pattern             // of PSUBSCRIBE
	Shard               // a shard channel, of SSUBSCRIBE
)

// TopicName says which Topic is meant.
type TopicName struct {
	Kind Kind
	Name string
}

// Topic is something that this process is subscribed to. Its name does not change.
type Topic struct {
	TopicName

	slot       int  // a node that has it is the home; -1: that of all topics without
	everywhere bool // it is subscribed at every master, for notifications of the key space

	heard atomic.Int64                      // clients that listen to it; see Count
	where atomic.Pointer[[]*subscriptionAt] // see places

	// Subscriptions.mu guards the rest.

	members []*member
	outlets []attached
	home    string // address of the node where it has to be subscribed; "": no node serves its slot
	asked   uint64 // rises with each join; each SUBSCRIBE bears the number of its time, which is not 0
	joins   []join // that wait for an answer, the oldest first
	tries   int    // failures in a row, which make the pauses grow
	reason  error  // of the last one; nil: it is live, or new
}

// subscriptionAt is the subscription of a topic at one node.
type subscriptionAt struct {
	topic   *Topic
	feed    *feed
	since   uint64 // SUBSCRIBEs with this number and later ones count
	sent    uint64 // number of the latest one
	answer  uint64 // number of the latest that was confirmed
	leaving bool   // it is to end, or has been asked to

	stands atomic.Bool // we are subscribed at the node; loops look at it without a lock
}

// places are the subscriptions of t, one a node. The slice is replaced, never changed, for loops read it
// without a lock.
func (t *Topic) places() []*subscriptionAt { return *t.where.Load() }

// join is a barrier that waits for the SUBSCRIBE of that number.
type join struct {
	barrier *barrier
	number  uint64
}

// used says that somebody listens. Those who are leaving do not count.
func (t *Topic) used() bool {
	return len(t.members) > 0 || slices.ContainsFunc(t.outlets, func(a attached) bool { return a.uses > 0 })
}

// live says that the home has confirmed; other nodes may still be missing.
func (t *Topic) live() bool {
	l := t.at(t.home)
	return l != nil && l.live()
}

// live says that the node has confirmed, and nothing else was asked for since then.
func (l *subscriptionAt) live() bool { return !l.leaving && l.answer >= l.since }

// at is the subscription at addr, or nil.
func (t *Topic) at(addr string) *subscriptionAt {
	for _, l := range t.places() {
		if l.feed.addr == addr {
			return l
		}
	}
	return nil
}

// The names of channels on which a master tells its own subscribers, and nobody else, of its keys.
const (
	keyspacePrefix = "__keyspace@"
	keyeventPrefix = "__keyevent@"
)

// notifiesOfKeys says that what is published on channel concerns the keys of one node.
func notifiesOfKeys(channel []byte) bool {
	return len(channel) >= len(keyspacePrefix) &&
		(string(channel[:len(keyspacePrefix)]) == keyspacePrefix ||
			string(channel[:len(keyeventPrefix)]) == keyeventPrefix)
}
