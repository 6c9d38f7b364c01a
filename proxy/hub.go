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
type audience struct {
	seats []*seat
	due   int // so many of the first seats have not got the portion yet that is being handed out
}

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

// The messages of a topic are handed to at least handLeast seats in one go, and to no more once handMost
// connections of the loop have output, so that these are written before others have more.
const (
	handLeast = 16
	handMost  = 256
)

// hand is the handFunc of the loop. Any client may be closed for what it is given.
func (h *hub) hand(p *portion, most int, again bool) (given int, done bool) {
	a := h.audiences[p.topic]
	if a == nil {
		return 0, true
	}
	if !again {
		a.due = len(a.seats)
	}
	n := 0
	for a.due > 0 && (n == 0 || n%handLeast > 0 || n*p.size < most && !h.full()) {
		a.due--
		n++
		se := a.seats[a.due]
		for _, message := range p.messages {
			se.message(message)
		}
	}
	h.messages.Add(uint64(n * len(p.messages)))
	return n * p.size, a.due == 0
}

// full says that a round of the loop has enough to do.
func (h *hub) full() bool { return h.worker.loop.Unwritten() >= handMost || h.worker.late() }

// sit makes se a part of the audience of its topic.
func (h *hub) sit(se *seat) {
	a := h.audiences[se.topic]
	if a == nil {
		a = &audience{}
		h.audiences[se.topic] = a
	}
	a.put(se, len(a.seats))
	se.topic.Count(1)
	h.taken[se.topic.Kind].Add(1)
}

// put gives se place i, which may be one more than there are.
func (a *audience) put(se *seat, i int) {
	if i == len(a.seats) {
		a.seats = append(a.seats, nil)
	}
	a.seats[i], se.at = se, i
}

// remove takes se out. Who has got what is being handed out stays behind those who have not.
func (a *audience) remove(se *seat) {
	free := se.at
	if free < a.due {
		a.due--
		a.put(a.seats[a.due], free)
		free = a.due
	}
	last := len(a.seats) - 1
	if free < last {
		a.put(a.seats[last], free)
	}
	a.seats[last] = nil
	a.seats = a.seats[:last]
}

// stand is the counterpart of sit.
func (h *hub) stand(se *seat) {
	a := h.audiences[se.topic]
	a.remove(se)
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
