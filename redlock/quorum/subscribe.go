package quorum

import (
	"context"
	"sync"
	"time"

	"lockproxy/internal/subscription"
	"lockproxy/redlock"
)

// subscriptions is one subscription on all nodes. All nodes publish the same message, one after the other. It
// is passed on when a majority has published it: by then the lock is free on a majority.
type subscriptions struct {
	q       *Engine
	channel string
	notify  func(subscription.Event)
	strict  bool // never pass on what only a minority published
	ctx     context.Context
	end     context.CancelFunc

	mu    sync.Mutex
	over  bool
	stops []func()
	live  map[int]bool // by node: subscriptions that are confirmed
	told  map[string]*told
}

// told is a message that some nodes have published.
type told struct {
	by    map[int]bool
	timer *time.Timer
	sent  bool
}

// patience is how long a majority may take to publish the same message.
const patience = 10 * time.Millisecond

// Listen implements locks.engine. It returns when a majority of nodes has confirmed; the others follow. Slot
// -1 is for messages about holds that are kept alive: of those, only what a majority published is passed on.
func (q *Engine) Listen(
	ctx context.Context, slot int, channel string, notify func(subscription.Event),
) (cancel func(), err error) {
	c := &subscriptions{
		q: q, channel: channel, notify: notify, strict: slot < 0,
		live: make(map[int]bool), told: make(map[string]*told),
	}
	c.ctx, c.end = context.WithCancel(q.ctx)
	type answer struct{ err error }
	answers := make(chan answer, len(q.nodes))
	for i := range q.nodes {
		q.busy.Go(func() { // ends when the node has confirmed, or the subscription ends
			first := true
			c.listen(i, func(err error) {
				if first {
					answers <- answer{err}
				}
				first = false
			})
		})
	}
	confirmed, failed := 0, 0
	for {
		select {
		case a := <-answers:
			if a.err == nil {
				confirmed++
			} else {
				failed, err = failed+1, a.err
			}
		case <-ctx.Done():
			c.close()
			return nil, context.Cause(ctx)
		}
		switch {
		case confirmed >= q.need:
			return c.close, nil
		case len(q.nodes)-failed < q.need:
			c.close()
			return nil, err
		}
	}
}

// listen subscribes on node i, however long that takes. tried is told the outcome of each attempt.
func (c *subscriptions) listen(i int, tried func(error)) {
	redlock.Insist(c.ctx, func(ctx context.Context) error {
		stop, err := c.q.nodes[i].Subscribe(ctx, c.channel, func(e subscription.Event) { c.heard(i, e) })
		if err == nil {
			c.mu.Lock()
			over := c.over
			c.live[i] = true
			c.stops = append(c.stops, stop)
			c.mu.Unlock()
			if over {
				stop()
			}
		}
		tried(err)
		return err
	}, func(error) {})
}

// close ends all subscriptions.
func (c *subscriptions) close() {
	c.mu.Lock()
	c.over = true
	stops := c.stops
	c.stops = nil
	for _, t := range c.told {
		t.timer.Stop()
	}
	clear(c.told)
	c.mu.Unlock()
	c.end()
	for _, stop := range stops {
		stop()
	}
}

// heard takes an event of node i.
func (c *subscriptions) heard(i int, e subscription.Event) {
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
		if now := len(c.live) >= c.q.need; now != before {
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
		t = &told{by: make(map[int]bool)}
		c.told[word] = t
		t.timer = time.AfterFunc(patience, func() { c.late(word, t) })
	}
	t.by[i] = true
	if len(t.by) >= c.q.need && !t.sent {
		t.sent = true
		c.notify(e)
	}
}

// late passes on what too few nodes published in time, then forgets it.
func (c *subscriptions) late(word string, t *told) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.told[word] != t {
		return
	}
	if !t.sent && !c.strict {
		t.sent = true
		c.notify(subscription.Event{Kind: subscription.Message, Payload: []byte(word)})
	}
	delete(c.told, word)
}
