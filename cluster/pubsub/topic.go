// Package pubsub is subscribed at the nodes of the upstream for everybody in this process: one subscription a
// topic and node, however many clients listen, and one connection a node.
//
//	Join, Subscribe --> Topic --> subscriptionAt --> feed: the connection to one node
//	      |                                            |
//	      +---- Outlet.Deliver, or notify <------------+ messages, in the order of the node
//
// A Topic is a channel, a pattern or a shard channel. Its home is the master that it is subscribed at: that
// of its slot, or any for what has no slot. Topics that tell of keys are subscribed at all masters, for each
// tells of its own keys only.
//
// Join is for clients: what is published behind its return is delivered, and lost subscriptions are made
// again in silence. Subscribe is for locks: it is told when messages may have been missed, and when they come
// again.
//
// The topology moves topics about (Moved), nodes end subscriptions when they lose a slot, connections break.
// A topic whose subscription is gone waits in loose, with pauses that grow, until place has found it a home
// again.
package pubsub

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/retry"
	"lockproxy/internal/glob"
)

// Kind is what a Topic is.
type Kind uint8

// The kinds of topics.
const (
	Classic Kind = iota // a channel of SUBSCRIBE
	Pattern             // of PSUBSCRIBE
	Shard               // a shard channel, of SSUBSCRIBE
)

// Topic is something that this process is subscribed to. The exported fields do not
// change.
type Topic struct {
	Kind Kind
	Name string

	slot       int  // a node that has it is the home; -1: that of all topics without
	everywhere bool // it is subscribed at every master, for notifications of the key space

	heard   atomic.Int64             // clients that listen to it; see Count
	counted atomic.Pointer[[]string] // addresses of the nodes that count us as a subscriber

	// order is held while events are handed to members, so that they come one by one. It
	// is locked before Subscriptions.mu, which guards the rest.
	order sync.Mutex

	members []*member // copied when it changes
	outlets []attached
	places  []*subscriptionAt
	home    string // address of the node where it has to be subscribed; "": there is none
	asked   uint64 // rises with each caller of Join; each SUBSCRIBE bears the number of its time
	joins   []join // that wait for an answer, the oldest first
	lapsed  bool   // a live subscription was lost, and members are not told yet
	tries   int    // failures in a row
	reason  error  // of the last one
}

// subscriptionAt is the subscription of a topic at one node.
type subscriptionAt struct {
	topic   *Topic
	feed    *feed
	since   uint64 // SUBSCRIBEs with this number and later ones count
	sent    uint64 // number of the latest one
	answer  uint64 // and of the latest that was confirmed
	live    bool   // the node confirmed, and nothing else was asked for since then
	stands  bool   // the node has us as a subscriber
	leaving bool   // it is to end, or has been asked to
}

// join is a barrier that waits for the SUBSCRIBE of that number.
type join struct {
	barrier *barrier
	number  uint64
}

type topicKey struct {
	kind Kind
	name string
}

func (t *Topic) key() topicKey { return topicKey{t.Kind, t.Name} }

func (t *Topic) used() bool {
	return len(t.members) > 0 || slices.ContainsFunc(t.outlets, func(a attached) bool { return a.uses > 0 })
}

// live says that the home has confirmed: what is missing beyond it comes when it can.
func (t *Topic) live() bool {
	l := t.at(t.home)
	return l != nil && l.live
}

// at is the subscription at addr, or nil.
func (t *Topic) at(addr string) *subscriptionAt {
	for _, l := range t.places {
		if l.feed.addr == addr {
			return l
		}
	}
	return nil
}

// Pauses before a topic is subscribed again.
const (
	minResubscribe = 10 * time.Millisecond
	maxResubscribe = 500 * time.Millisecond
	// movedPause gives the topology time to follow: a new one ends the pause.
	movedPause = 50 * time.Millisecond
)

func backoff(tries int) time.Duration {
	return min(minResubscribe<<min(tries-1, 10), maxResubscribe)
}

// Subscriptions are all topics that somebody listens to.
//
//	members, outlets --> Topic --> subscriptionAt --> feed: one connection to one node
//	                          \--> loose: waits to be subscribed again
type Subscriptions struct {
	nodes Nodes
	log   *slog.Logger
	ctx   context.Context // ends when they are closed
	end   context.CancelFunc
	tasks sync.WaitGroup // feeds
	home  atomic.Pointer[string]
	index index

	// mu guards all that follows and every field of topics, members and feeds, if
	// nothing else is said. It is never held while notify functions run.
	mu      sync.Mutex
	closed  bool
	topics  map[topicKey]*Topic
	feeds   map[string]*feed // by address
	resting map[string]rest  // by address: nodes whose last connection failed
	loose   map[*Topic]time.Time
	timer   *time.Timer // of the next in loose, or nil
	rings   time.Time   // when it does
}

// rest keeps new connections from a node that fails.
type rest struct {
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

// New returns the subscriptions at nodes, of which there are none yet. The caller has Moved called
// with each new topology, and Close in the end.
func New(nodes Nodes, log *slog.Logger) *Subscriptions {
	s := &Subscriptions{
		nodes:   nodes,
		log:     log,
		topics:  make(map[topicKey]*Topic),
		loose:   make(map[*Topic]time.Time),
		feeds:   make(map[string]*feed),
		resting: make(map[string]rest),
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.index.init()
	s.home.Store(new(string))
	s.Moved()
	return s
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

// topic finds or makes a topic. The caller is about to become a user of it. mu is held.
func (s *Subscriptions) topic(kind Kind, name string, slot int) *Topic {
	key := topicKey{kind, name}
	t := s.topics[key]
	if t == nil {
		t = &Topic{Kind: kind, Name: name, slot: slot}
		switch kind {
		case Classic:
			t.everywhere = notifiesOfKeys([]byte(name))
		case Pattern:
			t.everywhere = glob.CanBegin([]byte(name), keyspacePrefix) ||
				glob.CanBegin([]byte(name), keyeventPrefix)
		}
		t.counted.Store(new([]string))
		s.topics[key] = t
		s.index.add(t)
	}
	return t
}

// homeOf is where t belongs: the master of its slot. PUBLISH reaches
// subscribers at any node, so for a classic channel every master will do, and it
// stays where it is.
func (s *Subscriptions) homeOf(t *Topic) string {
	top := s.nodes.Topology()
	if t.slot < 0 || len(top.Masters) == 1 {
		return *s.home.Load()
	}
	if t.Kind != Shard && isMaster(top, t.home) {
		return t.home
	}
	switch n := top.Slots[t.slot]; {
	case n != nil:
		return n.Addr
	case t.Kind != Shard:
		return *s.home.Load()
	}
	return ""
}

func isMaster(t *cluster.Topology, addr string) bool {
	return addr != "" && slices.ContainsFunc(t.Masters, func(n *cluster.Node) bool { return n.Addr == addr })
}

// settleHome chooses the home of the topics without a slot. It stays where it is for as long as that
// is a master. mu is held.
func (s *Subscriptions) settleHome() {
	t := s.nodes.Topology()
	if isMaster(t, *s.home.Load()) {
		return
	}
	home := ""
	if len(t.Masters) > 0 {
		home = t.Masters[0].Addr
	}
	s.home.Store(&home)
}

// place sees to it that t is subscribed where it has to be, and nowhere else. mu is held.
func (s *Subscriptions) place(t *Topic) {
	if s.closed || !t.used() {
		return
	}
	delete(s.loose, t)
	was, home := t.home, s.homeOf(t)
	if was != home {
		t.lapsed = t.lapsed || t.live()
		t.home = home
	}
	masters := s.nodes.Topology().Masters
	for _, l := range slices.Clone(t.places) {
		addr := l.feed.addr
		isMaster := func(n *cluster.Node) bool { return n.Addr == addr }
		stays := addr == home || t.everywhere && slices.ContainsFunc(masters, isMaster)
		if !stays && !l.leaving {
			t.reason = errMoved
			l.feed.leave(l, nil)
		}
	}
	if home == "" {
		t.reason = errors.New("no node serves the slot")
		s.again(t, s.pause(t))
		return
	}
	s.connect(t, home)
	if t.everywhere {
		for _, n := range masters {
			s.connect(t, n.Addr)
		}
	}
	s.settle(t)
}

// connect subscribes t at addr, if it is not yet. mu is held.
func (s *Subscriptions) connect(t *Topic, addr string) {
	l := t.at(addr)
	if l != nil && !l.leaving {
		return
	}
	if l == nil {
		f := s.feeds[addr]
		if f == nil {
			if wait := time.Until(s.resting[addr].until); wait > 0 {
				s.again(t, wait)
				return
			}
			f = newFeed(s, addr)
			s.feeds[addr] = f
			s.tasks.Go(f.run) // ends with the connection, or with s.ctx
		}
		l = &subscriptionAt{topic: t, feed: f}
		t.places = append(t.places, l)
		f.subscribed[t.key()] = l
	}
	if l.leaving {
		t.asked++ // earlier ones are behind us
	}
	l.since, l.leaving = t.asked, false
	l.feed.subscribe(l)
}

// endIfUnused has t unsubscribed everywhere when nobody listens any more. o, if not nil, waits
// for that. mu is held.
func (s *Subscriptions) endIfUnused(t *Topic, o *barrier) {
	if t.used() {
		return
	}
	for _, l := range t.places {
		l.feed.leave(l, o)
	}
	s.forgetIfOver(t)
}

// forgetIfOver drops a topic that nobody listens to and no node knows. mu is held.
func (s *Subscriptions) forgetIfOver(t *Topic) {
	if t.used() || len(t.places) > 0 || s.topics[t.key()] != t {
		return
	}
	delete(s.topics, t.key())
	delete(s.loose, t)
	s.index.remove(t)
}

// settle ends the joins of t that have all they wait for: the home must have answered, and so must
// every other node that has been asked and can be reached. mu is held.
func (s *Subscriptions) settle(t *Topic) {
	home := t.at(t.home)
	if home == nil {
		return
	}
	answered := home.answer
	for _, l := range t.places {
		if !l.leaving {
			answered = min(answered, l.answer)
		}
	}
	for len(t.joins) > 0 && t.joins[0].number <= answered {
		t.joins[0].barrier.arrived()
		t.joins = t.joins[1:]
	}
}

// pause is how long t waits before it is tried again; it grows with each call.
// mu is held.
func (s *Subscriptions) pause(t *Topic) time.Duration {
	t.tries++
	return backoff(t.tries)
}

// again has t placed after a pause. mu is held.
func (s *Subscriptions) again(t *Topic, pause time.Duration) {
	if s.closed || !t.used() {
		return
	}
	due := time.Now().Add(pause)
	if old, ok := s.loose[t]; ok && old.Before(due) {
		due = old
	}
	s.loose[t] = due
	if s.timer != nil && !due.Before(s.rings) {
		return
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.rings = due
	s.timer = time.AfterFunc(time.Until(due), s.retry)
}

// retry places the topics whose pause is over.
func (s *Subscriptions) retry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = nil
	now := time.Now()
	waiting := s.loose
	s.loose = make(map[*Topic]time.Time)
	for t, due := range waiting {
		if due.After(now) {
			s.again(t, due.Sub(now))
		} else {
			s.place(t)
		}
	}
}

// Moved follows the topology: topics that belong elsewhere now are
// lost where they were and subscribed there.
func (s *Subscriptions) Moved() {
	s.mu.Lock()
	s.settleHome()
	told := s.rekey()
	for _, t := range s.topics {
		if s.place(t); t.lapsed {
			told = append(told, t)
		}
	}
	s.mu.Unlock()
	for _, t := range told {
		s.tell(t)
	}
}

// passes tells the errors that go away by themselves.
func passes(text string) bool {
	return retry.MayPass(text) || strings.HasPrefix(text, "BUSY ")
}

// Close ends all connections. Nobody is told.
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
