package pubsub

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/glob"
)

// Subscriptions are all topics with listeners.
//
//	members, outlets --> Topic --> subscriptionAt --> feed: one connection to one node
//	                          \--> loose: waits to be subscribed again
type Subscriptions struct {
	nodes Nodes
	log   *slog.Logger
	ctx   context.Context // ends when they are closed
	end   context.CancelFunc
	tasks sync.WaitGroup         // feeds
	home  atomic.Pointer[string] // address of the master for topics without a slot; "": there is none

	// telling is held while members are told of events, one after the other. It is locked before mu.
	telling sync.Mutex

	// mu guards all that follows and every field of topics, members and feeds, if
	// nothing else is said. It is never held while notify functions run.
	mu      sync.Mutex
	closed  bool
	index   topicIndex           // all topics
	events  []memberEvent        // that members are still to be told of, in their order
	price   int                  // of the topics: countedPrice
	feeds   map[string]*feed     // by address
	resting map[string]feedPause // by address: nodes whose last connection failed
	loose   map[*Topic]time.Time // topics that wait for placeTopic, and until when
	timer   *time.Timer          // of the next in loose, or nil
	rings   time.Time            // when it does
}

// feedPause is a pause before the next connection to a node that fails.
type feedPause struct {
	failures int // in a row
	until    time.Time
}

// Nodes are where topics are subscribed: the upstream, or a single server.
type Nodes interface {
	cluster.NodeDialer
	// Topology is the latest view of them.
	Topology() *cluster.Topology
	// Refresh hints that the topology may be out of date. It never blocks.
	Refresh()
}

// New returns the subscriptions at nodes, none so far. The caller calls Moved with each new topology, and
// Close in the end.
func New(nodes Nodes, log *slog.Logger) *Subscriptions {
	s := &Subscriptions{
		nodes:   nodes,
		log:     log,
		index:   topicIndex{all: make(map[TopicName]*Topic)},
		loose:   make(map[*Topic]time.Time),
		feeds:   make(map[string]*feed),
		resting: make(map[string]feedPause),
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.home.Store(new(string))
	s.Moved()
	return s
}

// topic finds or makes a topic. The caller is about to become a listener. mu is held. slot counts only for a
// new one; -1: it has none.
func (s *Subscriptions) topic(kind Kind, name string, slot int) *Topic {
	t := s.index.all[TopicName{kind, name}]
	if t == nil {
		t = &Topic{TopicName: TopicName{kind, name}, slot: slot}
		switch kind {
		case Classic:
			t.everywhere = notifiesOfKeys([]byte(name))
		case Pattern:
			t.everywhere = glob.CanBegin([]byte(name), keyspacePrefix) ||
				glob.CanBegin([]byte(name), keyeventPrefix)
		}
		t.where.Store(new([]*subscriptionAt))
		s.index.addTopic(t)
		s.price += countedPrice(kind, name)
	}
	return t
}

// Close ends all connections, without an event. It waits for them. Whoever waits in Join or Leave gets an
// error, or returns.
func (s *Subscriptions) Close() {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.end()
	s.tasks.Wait()
}
