package pubsub

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

const (
	feedTick = 500 * time.Millisecond
	feedPing = time.Second             // silence after which a node is asked for a sign of life
	feedDead = 2500 * time.Millisecond // silence after which it is given up
	feedIdle = 30 * time.Second        // a feed without topics is closed
)

var (
	errFeedSilent = errors.New("the node gives no sign of life")
	errFeedIdle   = errors.New("no topics")
)

// feed is the subscription connection to one node. It speaks RESP2: there, every command of ours has its
// reply in the order of the commands, with messages in between. A node that loses a slot says by itself that
// a topic was unsubscribed, and then the reply to our own command is an error. So a PING follows each
// UNSUBSCRIBE, and only the reply to that is taken for an answer. The fields are guarded by Subscriptions.mu.
type feed struct {
	*cluster.Conn
	s     *Subscriptions
	addr  string
	stuck atomic.Bool // it waits for an outlet, and reads nothing

	subscribed map[topicKey]*subscriptionAt // what it has subscribed or is about to
	owed       []owedReply                  // replies that are to come, oldest first
	pinged     bool                         // a PING is among them
	busy       time.Time                    // when it had a topic last

	full []Outlet // of the goroutine that reads: they should be given no more now
}

// owedReply is one reply that the node owes.
type owedReply struct {
	verb    verb
	at      *subscriptionAt // of subscribe and unsubscribe
	number  uint64          // of subscribe
	barrier *barrier        // waits for it; or nil
}

type verb uint8

const (
	subscribe verb = iota
	unsubscribe
	ping
)

// words are the verbs of the kinds of topics, as commands and as their replies.
var words = [...][2]string{
	Classic: {subscribe: "subscribe", unsubscribe: "unsubscribe"},
	Pattern: {subscribe: "psubscribe", unsubscribe: "punsubscribe"},
	Shard:   {subscribe: "ssubscribe", unsubscribe: "sunsubscribe"},
}

func newFeed(s *Subscriptions, addr string) *feed {
	f := &feed{s: s, addr: addr, busy: time.Now(), subscribed: make(map[topicKey]*subscriptionAt)}
	f.Conn = cluster.NewConn(f, &s.mu)
	return f
}

// subscribe asks for l, perhaps once more. mu is held.
func (f *feed) subscribe(l *subscriptionAt) {
	l.sent = l.topic.asked
	f.send(owedReply{verb: subscribe, at: l, number: l.sent}, words[l.topic.Kind][subscribe], l.topic.Name)
}

// leave unsubscribes l, which belongs to f until the node has said so. o, if not nil, waits for that. mu is
// held.
func (f *feed) leave(l *subscriptionAt, o *barrier) {
	if l.leaving {
		if o != nil {
			f.await(o)
		}
		return
	}
	l.leaving, l.live = true, false
	if o != nil {
		o.missing++
	}
	f.send(owedReply{verb: unsubscribe, at: l, barrier: o}, words[l.topic.Kind][unsubscribe], l.topic.Name)
	f.Queue(askFeed)
}

// await has o wait until everything that the node says now has been dealt with. mu is held.
func (f *feed) await(o *barrier) {
	o.missing++
	f.send(owedReply{verb: ping, barrier: o}, "PING")
}

// forget takes l away from f, which is not subscribed any more. mu is held.
func (f *feed) forget(l *subscriptionAt) {
	t := l.topic
	delete(f.subscribed, t.key())
	for i, o := range t.places {
		if o == l {
			t.places = append(t.places[:i:i], t.places[i+1:]...)
			break
		}
	}
	t.lapsed = t.lapsed || l.live && f.addr == t.home
	l.live, l.stands = false, false
	t.counts(f.addr, false)
	f.busy = time.Now()
	f.s.settle(t)
	f.s.forgetIfOver(t)
}

// send queues a command. mu is held.
func (f *feed) send(d owedReply, command ...string) {
	f.owed = append(f.owed, d)
	f.Queue(resp.AppendCommandStrings(nil, command...))
}

// run connects and serves the connection until it fails or is not needed any more.
func (f *feed) run() {
	err := f.Begin(f.s.ctx, f.s.nodes, f.addr)
	if err == nil {
		err = f.End(f.watch())
	}
	f.die(err)
}

// watch looks at the connection until it has ended, or is to end for the reason that is returned.
func (f *feed) watch() error {
	tick := time.NewTicker(feedTick)
	defer tick.Stop()
	for {
		select {
		case <-f.Context().Done():
			return context.Cause(f.Context())
		case <-tick.C:
		}
		if err := f.check(); err != nil {
			return err
		}
	}
}

// die gives up all topics of f.
func (f *feed) die(err error) {
	s := f.s
	s.mu.Lock()
	if s.feeds[f.addr] == f {
		delete(s.feeds, f.addr)
	}
	var all []*Topic
	for _, l := range f.subscribed {
		all = append(all, l.topic)
		l.topic.reason = err
		f.forget(l)
	}
	for _, d := range f.owed {
		d.barrier.arrived()
	}
	f.owed = nil
	if s.closed || errors.Is(err, errFeedIdle) {
		s.mu.Unlock()
		return
	}
	rest := s.resting[f.addr]
	rest.failures++
	pause := backoff(rest.failures)
	rest.until = time.Now().Add(pause)
	s.resting[f.addr] = rest
	for _, t := range all {
		s.again(t, pause)
	}
	s.mu.Unlock()
	level := slog.LevelWarn
	if rest.failures > 1 {
		level = slog.LevelDebug // it was said already
	}
	s.log.Log(s.ctx, level, "subscription connection lost",
		"node", f.addr, "topics", len(all), "err", err)
	s.nodes.Refresh()
	for _, t := range all {
		s.tell(t)
	}
}

// check looks at f once a tick: a silent node is pinged and then given up, and
// so is a feed that nobody needs.
func (f *feed) check() error {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	switch silent := f.Silence(); {
	case len(f.subscribed) == 0 && time.Since(f.busy) > feedIdle:
		if f.s.feeds[f.addr] == f {
			delete(f.s.feeds, f.addr)
		}
		return errFeedIdle
	case f.stuck.Load():
	case silent > feedDead:
		return errFeedSilent
	case silent > feedPing && !f.pinged:
		f.pinged = true
		f.send(owedReply{verb: ping}, "PING")
	}
	if len(f.subscribed) > 0 {
		f.busy = time.Now()
	}
	return nil
}

// askFeed follows each UNSUBSCRIBE.
var askFeed = resp.AppendCommandStrings(nil, "PING")

var errFeedOrder = errors.New("the node answered what it was not asked")

// take deals with one frame that is no message: a reply to the oldest command.
func (f *feed) take(frame []byte) error {
	v, _, err := resp.Parse(frame)
	if err != nil {
		return err
	}
	if v.IsError() {
		switch d, ok := f.settle(func(d owedReply) bool { return d.verb != unsubscribe }); {
		case !ok && d.verb != unsubscribe:
			return errors.New(string(v.Str))
		case ok && d.verb == subscribe:
			f.s.refused(f, d, string(v.Str))
		case ok:
			f.paid(d)
		}
		return nil
	}
	word := v.Str
	if v.Kind == '*' && len(v.Elems) > 0 {
		word = v.Elems[0].Str
	}
	if string(bytes.ToLower(word)) == "pong" {
		d, ok := f.settle(func(d owedReply) bool { return d.verb != subscribe })
		if !ok {
			return errFeedOrder
		}
		if d.verb == unsubscribe {
			f.s.unsubscribed(f, d)
		}
		f.paid(d)
		return nil
	}
	if len(v.Elems) < 3 {
		return errFeedOrder
	}
	name := string(v.Elems[1].Str)
	for kind, verbs := range words {
		switch string(word) {
		case verbs[subscribe]:
			d, ok := f.settle(func(d owedReply) bool {
				return d.verb == subscribe && d.at.topic.Kind == Kind(kind) && d.at.topic.Name == name
			})
			if !ok {
				return errFeedOrder
			}
			f.s.confirmed(f, d)
			return nil
		case verbs[unsubscribe]:
			f.s.withdrawn(f, topicKey{Kind(kind), name})
			return nil
		}
	}
	return errFeedOrder
}

// settle takes the oldest owed reply off the list, if it fits. Otherwise it only returns it.
func (f *feed) settle(fits func(owedReply) bool) (owedReply, bool) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if len(f.owed) == 0 {
		return owedReply{}, false
	}
	d := f.owed[0]
	if !fits(d) {
		return d, false
	}
	f.owed = f.owed[1:]
	if d.verb == ping {
		f.pinged = false
	}
	return d, true
}

// paid tells who waits for d.
func (f *feed) paid(d owedReply) {
	if d.barrier == nil {
		return
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	d.barrier.arrived()
}
