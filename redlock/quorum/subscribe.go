package quorum

import (
	"context"
	"errors"
	"sync"
	"time"

	"lockproxy/internal/subscription"
)

// subscriptions are one subscription on all nodes. Each of them tells of the same thing, one after the
// other: it is passed on when a majority has, and then the lock is free on a majority.
type subscriptions struct {
	q       *Engine
	channel string
	notify  func(subscription.Event)
	strict  bool // what only a minority tells is not passed on
	ctx     context.Context
	end     context.CancelFunc

	mu    sync.Mutex
	over  bool
	stops []func()
	live  map[int]bool // subscriptions that are
	told  map[string]*told
}

// told is a message that some have told.
type told struct {
	by    map[int]bool
	timer *time.Timer
	sent  bool
}

// listenTimeout bounds one attempt to subscribe on a node.
const listenTimeout = 5 * time.Second

// patience is for how long a majority may take to tell the same.
const patience = 10 * time.Millisecond

// Listen implements locks.engine. It returns when a majority of nodes has confirmed; the others follow. A
// slot of -1 is for word about holds that are kept alive: only a majority's is passed on.
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

// listen subscribes on node i, for as long as it takes. tried is told how each attempt went.
func (c *subscriptions) listen(i int, tried func(error)) {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		ctx, cancel := context.WithTimeout(c.ctx, listenTimeout)
		stop, err := c.q.nodes[i].Subscribe(ctx, c.channel, func(e subscription.Event) { c.heard(i, e) })
		cancel()
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
		if err == nil {
			return
		}
		select {
		case <-time.After(pause):
		case <-c.ctx.Done():
			tried(errors.Join(err, c.ctx.Err()))
			return
		}
	}
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

// heard is what node i tells.
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
	if t != nil && t.by[i] { // again: another one
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

// late passes on what too few have told in time, and then forgets it.
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
