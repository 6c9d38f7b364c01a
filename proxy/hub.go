package proxy

import (
	"context"
	"sync/atomic"

	"lockproxy/cluster"
	"lockproxy/commands"
)

// PubSub is what the clients' subscriptions need of the upstream.
type PubSub interface {
	// Join subscribes to topics for out.
	Join(ctx context.Context, kind cluster.TopicKind, names []string, out cluster.Outlet) ([]*cluster.Topic, error)
	// Leave ends that.
	Leave(ctx context.Context, topics []*cluster.Topic, out cluster.Outlet)
	// Concerned are the topics over which a message comes that is published on channel, if it takes no more
	// than most steps, of some nanoseconds each, to find them. left is how many of them are left; below 0: it
	// takes more.
	Concerned(channel []byte, shard bool, most int) (topics []*cluster.Topic, left int)
	// Topic is the topic of that name, or nil.
	Topic(kind cluster.TopicKind, name []byte) *cluster.Topic
	// Topics are all topics of a kind.
	Topics(kind cluster.TopicKind) []*cluster.Topic
	// Home is the address of the master at which channels and patterns are subscribed.
	Home() string
}

// hub is what the clients of one loop listen to. It belongs to the loop. What they have in common with
// those of other loops is the subscription at the node:
//
//	node --> cluster.Topic --> mailbox of each loop --> audience --> seats: sessions
type hub struct {
	worker    *worker
	box       *mailbox
	audiences map[*cluster.Topic]*audience

	messages atomic.Uint64   // handed to clients
	taken    [3]atomic.Int64 // seats, by kind
}

// audience are the sessions of one loop that listen to one topic.
type audience struct{ seats []*seat }

// seat is one client in one audience.
type seat struct {
	subscriber *subscriber
	topic      *cluster.Topic
	at         int    // in audience.seats
	order      uint64 // of the session's seats
	behind     uint32 // the command that subscribed, until told
	told       bool   // that command is answered, and messages may come
	leaving    bool   // its end has been asked for: it counts no more, and gets what is on its way
}

func newHub(w *worker) *hub {
	h := &hub{worker: w, audiences: make(map[*cluster.Topic]*audience)}
	h.box = newMailbox(w.loop, h.hand)
	return h
}

// hand gives a message to all who listen to t. Any of them may be closed for it.
func (h *hub) hand(t *cluster.Topic, message []byte) int {
	a := h.audiences[t]
	if a == nil {
		return 0
	}
	n := len(a.seats)
	h.messages.Add(uint64(n))
	for i := n - 1; i >= 0; i-- { // who is closed makes place for one who has it already
		a.seats[i].message(message)
	}
	return n * len(message)
}

// sit makes se a part of the audience of its topic.
func (h *hub) sit(se *seat) {
	a := h.audiences[se.topic]
	if a == nil {
		a = &audience{}
		h.audiences[se.topic] = a
	}
	se.at = len(a.seats)
	a.seats = append(a.seats, se)
	se.topic.Count(1)
	h.taken[se.topic.Kind].Add(1)
}

// stand is the counterpart of sit.
func (h *hub) stand(se *seat) {
	a := h.audiences[se.topic]
	last := a.seats[len(a.seats)-1]
	a.seats[se.at], last.at = last, se.at
	a.seats[len(a.seats)-1] = nil
	a.seats = a.seats[:len(a.seats)-1]
	if len(a.seats) == 0 {
		delete(h.audiences, se.topic)
	}
	if !se.leaving {
		h.discount(se)
	}
}

// discount has se count no more.
func (h *hub) discount(se *seat) {
	se.topic.Count(-1)
	h.taken[se.topic.Kind].Add(-1)
}

// release gives topics up without waiting for it.
func (h *hub) release(topics []*cluster.Topic) {
	if len(topics) == 0 {
		return
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	go h.worker.server.upstream.Leave(over, topics, h.box) // ends at once
}

// subscriptions counts what clients listen to, by kind, and the messages that they were given.
func (s *Server) subscriptions() (now map[string]int64, messages uint64) {
	now = make(map[string]int64)
	for _, w := range s.workers {
		for kind, name := range []string{cluster.Classic: "channel", cluster.Pattern: "pattern", cluster.Shard: "shard"} {
			now[name] += w.hub.taken[kind].Load()
		}
		messages += w.hub.messages.Load()
	}
	return now, messages
}

// ourTopics implements commands.Census for the masters of one moment.
type ourTopics struct {
	upstream Upstream
	masters  []*cluster.Node
}

// Census implements commands.Subscriptions.
func (c subscriptions) Census() commands.Census {
	s := c.s
	return ourTopics{s.w.server.upstream, s.w.pipes.Topology().Masters}
}

func (c ourTopics) Listeners(kind cluster.TopicKind, name []byte) int {
	if t := c.upstream.Topic(kind, name); t != nil {
		return t.Listeners()
	}
	return 0
}

func (c ourTopics) Own(kind cluster.TopicKind, name []byte, i int) int {
	if t := c.upstream.Topic(kind, name); t != nil {
		return t.CountedAt(c.masters[i].Addr)
	}
	return 0
}

func (c ourTopics) Heard(kind cluster.TopicKind) (names []string) {
	for _, t := range c.upstream.Topics(kind) {
		if t.Listeners() > 0 {
			names = append(names, t.Name)
		}
	}
	return names
}

func (c ourTopics) OwnTopics(kind cluster.TopicKind, i int) (n int) {
	for _, t := range c.upstream.Topics(kind) {
		n += t.CountedAt(c.masters[i].Addr)
	}
	return n
}
