package pubsub

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

const (
	feedTick = 500 * time.Millisecond
	// feedPing and feedDead are after how many ticks without a byte from a node it is asked for a sign of
	// life, and given up. They are not times: a proxy that stood still has missed ticks, but not the node.
	feedPing = 2
	feedDead = 5
	feedIdle = 30 * time.Second // a feed without topics is closed
)

var (
	errFeedSilent = errors.New("the node gives no sign of life")
	errFeedIdle   = errors.New("no topics")
)

// feed is the subscription connection to one node. The replies come in the order of our commands, with
// messages in between. It speaks RESP2, but RESP3 where its login is renewed: in RESP2 a subscriber cannot
// say AUTH. What comes is the same then, except for the first byte of a push.
//
// A node that loses a slot ends a subscription unasked, and then our own UNSUBSCRIBE is answered with an
// error. So a PING follows each UNSUBSCRIBE, and only its reply counts as the answer. The fields are guarded
// by Subscriptions.mu.
type feed struct {
	*feedConn
	s     *Subscriptions
	addr  string
	stuck atomic.Bool // it waits for an outlet, and reads nothing

	elsewhere  bool                         // its name leads to another node by now
	subscribed map[topicKey]*subscriptionAt // what it has subscribed or is about to
	owed       []owedReply                  // replies that are to come, oldest first
	pinged     bool                         // a PING is among them
	busy       time.Time                    // when it had a topic last
	heard      uint64                       // reads up to the last tick
	silent     int                          // ticks since one of them

	full []Outlet // only for the goroutine that reads: outlets that are full
}

// owedReply is one reply that the node owes.
type owedReply struct {
	verb    feedVerb
	at      *subscriptionAt // of subscribe and unsubscribe
	number  uint64          // of subscribe
	barrier *barrier        // waits for it; or nil
}

type feedVerb uint8

const (
	subscribe feedVerb = iota
	unsubscribe
	ping
	auth
)

// words are the names of the kinds of topics, in commands and in replies.
var words = [...][2]string{
	Classic: {subscribe: "subscribe", unsubscribe: "unsubscribe"},
	Pattern: {subscribe: "psubscribe", unsubscribe: "punsubscribe"},
	Shard:   {subscribe: "ssubscribe", unsubscribe: "sunsubscribe"},
}

func newFeed(s *Subscriptions, addr string) *feed {
	f := &feed{s: s, addr: addr, busy: time.Now(), subscribed: make(map[topicKey]*subscriptionAt)}
	f.feedConn = newFeedConn(f, &s.mu)
	return f
}

// subscribe sends SUBSCRIBE for l, perhaps once more. mu is held.
func (f *feed) subscribe(l *subscriptionAt) {
	l.sent = l.topic.asked
	f.send(owedReply{verb: subscribe, at: l, number: l.sent}, words[l.topic.Kind][subscribe], l.topic.Name)
}

// leave unsubscribes l, which belongs to f until the node has confirmed that. o, if not nil, waits for that.
// mu is held.
func (f *feed) leave(l *subscriptionAt, o *barrier) {
	if l.leaving {
		if o != nil {
			f.await(o)
		}
		return
	}
	l.leaving = true
	if o != nil {
		o.missing++
	}
	f.send(owedReply{verb: unsubscribe, at: l, barrier: o}, words[l.topic.Kind][unsubscribe], l.topic.Name)
	f.queue(askFeed)
}

// await has o wait until everything that the node has sent up to now is handled. mu is held.
func (f *feed) await(o *barrier) {
	o.missing++
	f.send(owedReply{verb: ping, barrier: o}, "PING")
}

// forget removes l, which is not subscribed any more, from f. mu is held.
func (f *feed) forget(l *subscriptionAt) {
	t := l.topic
	if l.live() && f.addr == t.home {
		f.s.lose(t)
	}
	delete(f.subscribed, t.key())
	t.places = slices.DeleteFunc(slices.Clone(t.places), func(o *subscriptionAt) bool { return o == l })
	t.counts(f.addr, false)
	f.busy = time.Now()
	f.s.settle(t)
	f.s.forgetIfOver(t)
}

// send queues a command. mu is held.
func (f *feed) send(d owedReply, command ...string) {
	f.owed = append(f.owed, d)
	f.queue(resp.AppendCommandStrings(nil, command...))
}

// run connects and serves the connection until it fails or is not needed any more.
func (f *feed) run() {
	proto := 2
	if f.s.nodes.Login().Renewed {
		proto = 3
	}
	err := f.begin(f.s.ctx, f.s.nodes, f.addr, proto)
	if err == nil {
		err = f.end(f.watch())
	}
	f.die(err)
}

// watch checks the connection until it has ended, or should end for the reason that is returned.
func (f *feed) watch() error {
	tick := time.NewTicker(feedTick)
	defer tick.Stop()
	for {
		select {
		case <-f.life().Done():
			return context.Cause(f.life())
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
	s.unlock()
	level := slog.LevelWarn
	if rest.failures > 1 {
		level = slog.LevelDebug // it was logged already
	}
	s.log.Log(s.ctx, level, "subscription connection lost",
		"node", f.addr, "topics", len(all), "err", err)
	s.nodes.Refresh()
}

// check checks f once a tick. It pings a silent node, and then gives it up; and it ends a feed that is not
// needed.
func (f *feed) check() error {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if req := f.renewal(); req != nil {
		f.owed = append(f.owed, owedReply{verb: auth})
		f.queue(req)
	}
	f.silent++
	if n := f.reads.Load(); n != f.heard {
		f.heard, f.silent = n, 0
	}
	switch {
	case f.elsewhere:
		return errNamed
	case len(f.subscribed) == 0 && time.Since(f.busy) > feedIdle:
		if f.s.feeds[f.addr] == f {
			delete(f.s.feeds, f.addr)
		}
		return errFeedIdle
	case f.stuck.Load():
	case f.silent >= feedDead:
		return errFeedSilent
	case f.silent >= feedPing && !f.pinged:
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

// errNamed ends a connection to a node that has not what it should have: its name may lead to another one by
// now.
var errNamed = errors.New("its name is looked up again")

var errFeedOrder = errors.New("the node answered what it was not asked")

// take handles a frame that is no message: the reply to the oldest command, or word of a subscription which
// the node has ended.
func (f *feed) take(frame []byte) error {
	v, _, err := resp.Parse(frame)
	if err != nil {
		return err
	}
	word, name := string(v.Str), ""
	if v.Kind == '*' && len(v.Elems) > 0 {
		word = string(v.Elems[0].Str)
	}
	f.s.mu.Lock()
	defer f.s.unlock()
	if len(v.Elems) >= 3 {
		name = string(v.Elems[1].Str)
		for kind, verbs := range words {
			if word == verbs[unsubscribe] {
				f.withdrawn(topicKey{Kind(kind), name})
				return nil
			}
		}
	}
	failed := v.IsError()
	switch {
	case failed && len(f.owed) == 0:
		return cluster.Said(word)
	case len(f.owed) == 0:
		return errFeedOrder
	case failed && f.owed[0].verb == unsubscribe: // the PING behind it is answered
		return nil
	case !failed && !f.owed[0].answeredBy(word, name):
		return errFeedOrder
	}
	d := f.owed[0]
	f.owed = f.owed[1:]
	switch {
	case d.verb == ping:
		f.pinged = false
	case failed && d.verb == subscribe:
		f.refused(d, word)
		if passes(word) && cluster.Named(f.addr) {
			return errNamed
		}
	case failed:
		f.s.log.Warn(cluster.NotRenewed, "node", f.addr, "err", cluster.Explain(cluster.Said(word)))
	case d.verb == subscribe:
		f.confirmed(d)
	case d.verb == unsubscribe:
		f.unsubscribed(d)
	}
	d.barrier.arrived()
	return nil
}

// answeredBy says that a reply which begins with word, and is about the topic of that name, answers d.
func (d *owedReply) answeredBy(word, name string) bool {
	switch d.verb {
	case subscribe:
		return word == words[d.at.topic.Kind][subscribe] && name == d.at.topic.Name
	case auth:
		return strings.EqualFold(word, "ok")
	}
	return strings.EqualFold(word, "pong")
}
