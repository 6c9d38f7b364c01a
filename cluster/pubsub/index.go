package pubsub

import (
	"slices"
	"sync"

	"lockproxy/cluster"
	"lockproxy/internal/glob"
)

// This file counts listeners, for the replies of PUBLISH and PUBSUB: clients must see the other clients of
// this process there, and not the subscriptions that the process itself has at nodes. All of it may be
// called on a loop: nothing here waits.

// Count notes that n more clients listen to t. n may be negative.
func (t *Topic) Count(n int) { t.heard.Add(int64(n)) }

// Listeners is how many clients of this process listen to t.
func (t *Topic) Listeners() int { return int(t.heard.Load()) }

// CountedAt is how many subscribers of t at the node at addr are this process: 1 or 0. A shard channel is
// counted wherever it is.
func (t *Topic) CountedAt(addr string) int {
	for _, l := range t.places() {
		if l.stands.Load() && (t.Kind == Shard || l.feed.addr == addr) {
			return 1
		}
	}
	return 0
}

// topicsAtOnce is how many topics are listed before the lock is released for a moment.
const topicsAtOnce = 1024

// topicIndex has all topics. It changes only while Subscriptions.mu is held, too. So who holds that reads it
// as it is, and others do not wait for that, which may be held for long.
type topicIndex struct {
	mu       sync.RWMutex // held for single look-ups and changes, and topicsAtOnce
	all      map[TopicName]*Topic
	patterns []*Topic // those of them that are; never changed in place
}

// addTopic adds t, which is not there yet. append may write behind the end of patterns that a reader has:
// readers do not look there.
func (c *topicIndex) addTopic(t *Topic) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[t.TopicName] = t
	if t.Kind == Pattern {
		c.patterns = append(c.patterns, t)
	}
}

// removeTopic takes t out, and copies patterns, which a reader may be going through.
func (c *topicIndex) removeTopic(t *Topic) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, t.TopicName)
	if t.Kind == Pattern {
		c.patterns = slices.DeleteFunc(slices.Clone(c.patterns), func(o *Topic) bool { return o == t })
	}
}

// Topic is the topic of that name, or nil.
func (s *Subscriptions) Topic(kind Kind, name []byte) *Topic {
	t, _ := s.index.findTopic(kind, name)
	return t
}

// findTopic is the topic of that name, or nil, and all patterns: who publishes takes the lock once. A name
// that is longer than any topic's is not looked up, because that takes longer the longer it is.
func (c *topicIndex) findTopic(kind Kind, name []byte) (t *Topic, patterns []*Topic) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if len(name) <= cluster.MaxShared {
		t = c.all[TopicName{kind, string(name)}]
	}
	return t, c.patterns
}

// Topics are all topics of a kind, in no order. Those that come or go meanwhile may be among them, even
// twice. The slice of patterns must not be changed.
func (s *Subscriptions) Topics(kind Kind) []*Topic {
	c := &s.index
	c.mu.RLock()
	defer c.mu.RUnlock()
	if kind == Pattern {
		return c.patterns
	}
	all, seen := make([]*Topic, 0, len(c.all)), 0
	for _, t := range c.all {
		if t.Kind == kind {
			all = append(all, t)
		}
		if seen++; seen%topicsAtOnce == 0 {
			c.mu.RUnlock() // a loop that publishes may wait behind a goroutine that waits for a write lock
			c.mu.RLock()
		}
	}
	return all
}

// Steps that Concerned counts for a topic, besides those of its pattern.
const (
	stepsToTopic = 4  // it looks at one
	stepsOfTopic = 16 // and the caller deals with one that is concerned
)

// Concerned are the topics that get a message which is published on channel, a shard channel or not. It
// gives up if finding them would take more than most steps, of some nanoseconds each. left is how many steps
// are left; a negative one means that it has given up.
func (s *Subscriptions) Concerned(channel []byte, shard bool, most int) (topics []*Topic, left int) {
	kind := Classic
	if shard {
		kind = Shard
	}
	t, patterns := s.index.findTopic(kind, channel)
	if t != nil {
		topics = append(topics, t)
	}
	if left = most; shard { // no pattern fits its name
		return topics, left
	}
	for _, p := range patterns {
		var ok bool
		if ok, left = glob.MatchWithin([]byte(p.Name), channel, left-stepsToTopic); ok {
			topics = append(topics, p)
			left -= stepsOfTopic
		}
		if left < 0 {
			return nil, left
		}
	}
	return topics, left
}

// Home is the address of the master at which classic channels and patterns are subscribed; "" if there is
// none. What is published there comes to them in the order of the replies.
func (s *Subscriptions) Home() string { return *s.home.Load() }
