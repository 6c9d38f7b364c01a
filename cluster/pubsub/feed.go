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
	// feedTick is how often a feed is looked at.
	feedTick = 500 * time.Millisecond
	// feedPing and feedDead are after how many ticks without a byte from a node it is asked for a sign of
	// life, and given up. They are not times: while a proxy stands still no ticks are counted, and what the
	// node has said waits in the socket.
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

	elsewhere  bool                          // its name leads to another node by now
	subscribed map[TopicName]*subscriptionAt // what it has subscribed or is about to
	owed       []owedReply                   // replies that are to come, oldest first
	pinged     bool                          // a PING is among them
	refused    []owedReply                   // beside a script: sent again at a tick
	busy       time.Time                     // when it had a topic last
	heard      uint64                        // reads up to the last tick
	silent     int                           // ticks since one of them

	full []Outlet // only for the goroutine that reads: outlets that are full
}

// owedReply is one reply that the node owes. Of an UNSUBSCRIBE it is the reply to the PING behind it.
type owedReply struct {
	verb    feedVerb
	at      *subscriptionAt // of subscribe and unsubscribe; else nil
	number  uint64          // of subscribe: Topic.asked when it was sent
	barrier *barrier        // waits for it; or nil
	said    bool            // of unsubscribe: it was answered, and the PING behind it was not yet
	refused bool            // of unsubscribe: that answer was BUSY
}

type feedVerb uint8

const (
	subscribe feedVerb = iota
	unsubscribe
	ping
	auth
)

// Words are the names of the kinds of topics, in commands and in replies.
var Words = [...]struct{ Subscribe, Unsubscribe string }{
	Classic: {"subscribe", "unsubscribe"},
	Pattern: {"psubscribe", "punsubscribe"},
	Shard:   {"ssubscribe", "sunsubscribe"},
}

// newFeed is a feed that is not connected. What is queued until runFeed has connected goes first.
func newFeed(s *Subscriptions, addr string) *feed {
	f := &feed{s: s, addr: addr, busy: time.Now(), subscribed: make(map[TopicName]*subscriptionAt)}
	f.feedConn = newFeedConn(f, &s.mu)
	return f
}

// sendSubscribe sends SUBSCRIBE for l, perhaps once more. mu is held. A second SUBSCRIBE changes nothing at
// the node; but its reply comes behind all that the node has sent until then, which is what a join waits for.
func (f *feed) sendSubscribe(l *subscriptionAt) {
	l.sent = l.topic.asked
	f.sendCommand(owedReply{verb: subscribe, at: l, number: l.sent},
		Words[l.topic.Kind].Subscribe, l.topic.Name)
}

// sendUnsubscribe unsubscribes l, which belongs to f until the node has confirmed that. o, if not nil, waits
// for that; if it is on its way already, o waits for a PING behind it. mu is held.
func (f *feed) sendUnsubscribe(l *subscriptionAt, o *barrier) {
	if l.leaving {
		if o != nil {
			f.sendPing(o)
		}
		return
	}
	l.leaving = true
	if o != nil {
		o.missing++
	}
	f.sendCommand(owedReply{verb: unsubscribe, at: l, barrier: o},
		Words[l.topic.Kind].Unsubscribe, l.topic.Name)
	f.queueRequest(resp.AppendCommandStrings(nil, "PING"))
}

// sendPing has o wait until everything that the node has sent up to now is handled. mu is held.
func (f *feed) sendPing(o *barrier) {
	o.missing++
	f.sendCommand(owedReply{verb: ping, barrier: o}, "PING")
}

// forgetSubscription removes l, which is not subscribed any more, from f. mu is held. Its members are told if
// it was the one at home, joins no longer wait for it, and a topic that nobody listens to ends.
func (f *feed) forgetSubscription(l *subscriptionAt) {
	t := l.topic
	if l.live() && f.addr == t.home {
		f.s.loseTopic(t)
	}
	delete(f.subscribed, t.TopicName)
	places := slices.DeleteFunc(slices.Clone(t.places()), func(o *subscriptionAt) bool { return o == l })
	t.where.Store(&places)
	f.busy = time.Now()
	f.s.settleJoins(t)
	f.s.forgetIfOver(t)
}

// sendCommand queues a command. mu is held. Each must be followed by one reply that answers d, or the order
// is lost.
func (f *feed) sendCommand(d owedReply, command ...string) {
	f.owed = append(f.owed, d)
	f.queueRequest(resp.AppendCommandStrings(nil, command...))
}

// runFeed connects and serves the connection until it fails or is not needed any more. It is the goroutine of
// the feed.
func (f *feed) runFeed() {
	proto := 2
	if f.s.nodes.Login().Renewed {
		proto = 3
	}
	err := f.beginConn(f.s.ctx, f.s.nodes, f.addr, proto)
	if err == nil {
		err = f.endConn(f.watchFeed())
	}
	f.die(err)
}

// watchFeed checks the connection until it has ended, or should end for the reason that is returned.
func (f *feed) watchFeed() error {
	tick := time.NewTicker(feedTick)
	defer tick.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return context.Cause(f.ctx)
		case <-tick.C:
		}
		if err := f.checkFeed(); err != nil {
			return err
		}
	}
}

// die gives up all topics of f. They wait in loose until they have another home, and barriers end, because
// what they wait for cannot come any more.
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
		f.forgetSubscription(l)
	}
	for _, d := range append(f.owed, f.refused...) {
		d.barrier.answerArrived()
	}
	f.owed = nil
	// Nobody is left who could miss it.
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
		s.placeLater(t, pause)
	}
	s.unlockAndTell()
	level := slog.LevelWarn
	if rest.failures > 1 {
		level = slog.LevelDebug // it was logged already
	}
	s.log.Log(s.ctx, level, "subscription connection lost",
		"node", f.addr, "topics", len(all), "err", err)
	// The node may be away, or no master any more.
	s.nodes.Refresh()
}

// checkFeed checks f once a tick. It pings a silent node, and then gives it up; and it ends a feed that is
// not needed. While it is stuck, silence says nothing, because nothing is read.
func (f *feed) checkFeed() error {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if req := f.renewal(); req != nil {
		f.owed = append(f.owed, owedReply{verb: auth})
		f.queueRequest(req)
	}
	for _, d := range f.refused {
		switch l := d.at; {
		case f.subscribed[l.topic.TopicName] != l, l.leaving != (d.verb == unsubscribe): // no longer wanted
		case l.leaving:
			l.leaving = false
			f.sendUnsubscribe(l, d.barrier)
		default:
			f.sendSubscribe(l)
		}
		d.barrier.answerArrived()
	}
	f.refused = nil
	f.silent++
	stuck := f.stuck.Load() // before reads, which rises before it ends
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
	case stuck:
	case f.silent >= feedDead:
		return errFeedSilent
	case f.silent >= feedPing && !f.pinged:
		f.pinged = true
		f.sendCommand(owedReply{verb: ping}, "PING")
	}
	if len(f.subscribed) > 0 {
		f.busy = time.Now()
	}
	return nil
}

// errNamed ends a connection to a node that has not what it should have: its name may lead to another one by
// now.
var errNamed = errors.New("its name is looked up again")

var errFeedOrder = errors.New("the node answered what it was not asked")

// takeReply handles a frame that is no message: the reply to the oldest command, or word of a subscription
// which the node has ended.
func (f *feed) takeReply(frame []byte) error {
	v, _, err := resp.Parse(frame)
	if err != nil {
		return err
	}
	word, name := string(v.Str), ""
	if v.Kind == '*' && len(v.Elems) > 0 {
		word = string(v.Elems[0].Str)
	}
	f.s.mu.Lock()
	defer f.s.unlockAndTell()
	if len(v.Elems) >= 3 {
		name = string(v.Elems[1].Str)
		for kind, verbs := range Words {
			if key := (TopicName{Kind(kind), name}); word == verbs.Unsubscribe {
				if len(f.owed) > 0 && f.owed[0].verb == unsubscribe && f.owed[0].at.topic.TopicName == key {
					f.owed[0].said = true
				}
				f.noteWithdrawn(key)
				return nil
			}
		}
	}
	// From here on it is a reply, and belongs to the oldest of owed.
	failed := v.IsError()
	switch {
	// as when the node turns its clients away
	case failed && len(f.owed) == 0:
		return cluster.Said(word)
	case len(f.owed) == 0:
		return errFeedOrder
	// The PING behind it is answered, too.
	case failed && f.owed[0].verb == unsubscribe && (!f.owed[0].said || ofSlot(word)):
		f.owed[0].said, f.owed[0].refused = true, busy(word)
		return nil
	case !failed && !f.owed[0].answeredBy(word, name):
		return errFeedOrder
	}
	d := f.owed[0]
	f.owed = f.owed[1:]
	switch {
	case d.refused:
		f.refused = append(f.refused, d)
		return nil
	case d.verb == ping:
		f.pinged = false
	case failed && d.verb == subscribe:
		f.noteRefused(d, word)
		// to where it is already: an empty host is that of the node itself
		to := word[strings.LastIndexByte(word, ' ')+1:]
		here := to == f.addr || strings.HasPrefix(to, ":") && strings.HasSuffix(f.addr, to)
		if cluster.Named(f.addr) &&
			(here && strings.HasPrefix(word, "MOVED ") || word == "CLUSTERDOWN Hash slot not served") {
			return errNamed
		}
	case failed && d.verb == auth: // the connection goes on under the login before
		f.s.log.Warn(cluster.NotRenewed, "node", f.addr, "err", cluster.Explain(cluster.Said(word)))
	case d.verb == subscribe:
		f.noteConfirmed(d)
	case d.verb == unsubscribe:
		f.noteUnsubscribed(d)
	}
	d.barrier.answerArrived()
	return nil
}

// answeredBy says that a reply which begins with word, and is about the topic of that name, answers d.
func (d *owedReply) answeredBy(word, name string) bool {
	switch d.verb {
	case subscribe:
		return word == Words[d.at.topic.Kind].Subscribe && name == d.at.topic.Name
	case auth:
		return strings.EqualFold(word, "ok")
	}
	return strings.EqualFold(word, "pong")
}
