package quorum

import (
	"sync"
	"time"

	"lockproxy/internal/subscription"
)

// nodeSubscriptions is one subscription on all nodes. All nodes publish the same message, one after the
// other. It is passed on when a majority has published it: by then the lock is free on a majority.
type nodeSubscriptions struct {
	q      *Engine
	notify func(subscription.Change)
	strict bool     // never pass on what only a minority published
	stops  []func() // by node

	mu   sync.Mutex
	over bool
	live map[int]bool // by node: subscriptions that stand
	// By payload, for patience at most.
	told map[string]*toldMessage
}

// toldMessage is a message that some nodes have published.
type toldMessage struct {
	// The numbers of the nodes that have published it.
	by map[int]bool
	// Forgets it after patience.
	timer *time.Timer
	sent  bool
}

// patience is how long a majority may take to publish the same message. What comes later counts as another
// message, which wakes waiters once more and does no harm.
const patience = 10 * time.Millisecond

// Listen implements locks.engine. It is live while it stands on a majority of nodes. Slot -1 is for messages
// about holds that are kept alive: of those, only what a majority published is passed on.
func (q *Engine) Listen(slot int, channel string, notify func(subscription.Change)) (cancel func()) {
	c := &nodeSubscriptions{
		q: q, notify: notify, strict: slot < 0, live: make(map[int]bool), told: make(map[string]*toldMessage),
	}
	for i, node := range q.nodes {
		c.stops = append(c.stops, node.Subscribe(channel, func(e subscription.Change) { c.heardEvent(i, e) }))
	}
	return c.closeAll
}

// closeAll ends all subscriptions.
func (c *nodeSubscriptions) closeAll() {
	c.mu.Lock()
	c.over = true
	for _, t := range c.told {
		t.timer.Stop()
	}
	clear(c.told)
	c.mu.Unlock()
	for _, stop := range c.stops {
		stop()
	}
}

// heardEvent takes an event of node i. notify is called with mu held, so that it hears events in order.
func (c *nodeSubscriptions) heardEvent(i int, e subscription.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	if e.Kind != subscription.Message {
		before := len(c.live) >= c.q.need
		if e.Kind == subscription.Live {
			c.live[i] = true
		} else {
			delete(c.live, i)
		}
		now := len(c.live) >= c.q.need
		if now != before || e.Kind == subscription.Refused && !now {
			c.notify(e)
		}
		return
	}
	word := string(e.Payload)
	t := c.told[word]
	if t != nil && t.by[i] { // this node has published it before: it is another message
		t.timer.Stop()
		t = nil
	}
	if t == nil {
		t = &toldMessage{by: make(map[int]bool)}
		c.told[word] = t
		t.timer = time.AfterFunc(patience, func() { c.passLate(word, t) })
	}
	t.by[i] = true
	if len(t.by) >= c.q.need && !t.sent {
		t.sent = true
		c.notify(e)
	}
}

// passLate passes on what too few nodes published in time, then forgets it. A waiter that asks in vain costs
// little; one that is not woken would wait for its timer. Word about holds that are kept alive is not passed
// on: see strict.
func (c *nodeSubscriptions) passLate(word string, t *toldMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.told[word] != t {
		return
	}
	if !t.sent && !c.strict {
		t.sent = true
		c.notify(subscription.Change{Kind: subscription.Message, Payload: []byte(word)})
	}
	delete(c.told, word)
}
