package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"lockproxy/internal/resp"
)

const (
	feedTick  = 500 * time.Millisecond
	feedPing  = time.Second             // silence after which a node is asked for a sign of life
	feedDead  = 2500 * time.Millisecond // silence after which it is given up
	feedIdle  = 30 * time.Second        // a feed without topics is closed
	feedWrite = 2 * time.Second
)

var (
	errFeedSilent = errors.New("the node gives no sign of life")
	errFeedIdle   = errors.New("no topics")
)

// feed is the subscription connection to one node. It speaks RESP2: there, every
// command of ours has its reply in the order of the commands, with messages in between.
// That a topic was unsubscribed the node also says by itself, when a slot leaves it, and the reply to
// a command is an error then: a PING follows, and only its reply is taken for an answer.
//
// Two goroutines serve it: run reads, write writes. Its fields are guarded by
// subscriptions.mu.
type feed struct {
	s     *subscriptions
	addr  string
	heard atomic.Int64 // when bytes came last, in ns since born
	stuck atomic.Bool  // it waits for an outlet, and reads nothing
	born  time.Time

	legs   map[topicKey]*leg // what it has subscribed or is about to
	out    []byte            // to be written
	owed   []debt            // replies that are to come, oldest first
	pinged bool              // a PING is among them
	busy   time.Time         // when it had a topic last
	wake   chan struct{}     // something is in out

	full []Outlet // of run: they should be given no more now
}

// debt is one reply that the node owes.
type debt struct {
	verb   verb
	leg    *leg   // of subscribe and unsubscribe
	number uint64 // of subscribe
	op     *op    // waits for it; or nil
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

func newFeed(s *subscriptions, addr string) *feed {
	now := time.Now()
	return &feed{s: s, addr: addr, born: now, busy: now, legs: make(map[topicKey]*leg), wake: make(chan struct{}, 1)}
}

// subscribe asks for l, perhaps once more. mu is held.
func (f *feed) subscribe(l *leg) {
	l.sent = l.topic.asked
	f.send(debt{verb: subscribe, leg: l, number: l.sent}, words[l.topic.Kind][subscribe], l.topic.Name)
}

// leave unsubscribes l, which belongs to f until the node has said so. o, if not nil, waits for that. mu is held.
func (f *feed) leave(l *leg, o *op) {
	if l.leaving {
		if o != nil {
			f.fence(o)
		}
		return
	}
	l.leaving, l.live = true, false
	if o != nil {
		o.missing++
	}
	f.send(debt{verb: unsubscribe, leg: l, op: o}, words[l.topic.Kind][unsubscribe], l.topic.Name)
	f.out = resp.AppendCommandStrings(f.out, "PING")
}

// fence has o wait until everything that the node says now has been dealt with. mu is held.
func (f *feed) fence(o *op) {
	o.missing++
	f.send(debt{verb: ping, op: o}, "PING")
}

// forget takes l away from f, which is not subscribed any more. mu is held.
func (f *feed) forget(l *leg) {
	t := l.topic
	delete(f.legs, t.key())
	for i, o := range t.legs {
		if o == l {
			t.legs = append(t.legs[:i:i], t.legs[i+1:]...)
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
func (f *feed) send(d debt, command ...string) {
	f.owed = append(f.owed, d)
	f.out = resp.AppendCommandStrings(f.out, command...)
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// run connects and serves the connection until it fails or is not needed any more.
func (f *feed) run() {
	conn, err := f.s.u.Dial(f.s.ctx, f.addr, Mode{Proto: 2}, nil)
	if err != nil {
		f.die(err)
		return
	}
	f.heard.Store(int64(time.Since(f.born)))
	ctx, cancel := context.WithCancelCause(f.s.ctx)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	written := make(chan struct{})
	go func() { // ends when ctx does, which run sees to
		f.write(ctx, cancel, conn)
		close(written)
	}()
	err = f.read(ctx, conn)
	if ctx.Err() != nil {
		err = context.Cause(ctx) // why this side closed
	}
	cancel(err)
	stop()
	conn.Close()
	<-written
	f.die(err)
}

// die gives up all topics of f.
func (f *feed) die(err error) {
	s := f.s
	s.mu.Lock()
	if s.feeds[f.addr] == f {
		delete(s.feeds, f.addr)
	}
	var all []*Topic
	for _, l := range f.legs {
		all = append(all, l.topic)
		l.topic.reason = err
		f.forget(l)
	}
	for _, d := range f.owed {
		d.op.arrived()
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
	s.u.o.Log.Log(s.ctx, level, "subscription connection lost", "node", f.addr, "topics", len(all), "err", err)
	s.u.Refresh()
	for _, t := range all {
		s.tell(t)
	}
}

// write writes what is queued, and watches over the connection.
func (f *feed) write(ctx context.Context, fail context.CancelCauseFunc, conn net.Conn) {
	tick := time.NewTicker(feedTick)
	defer tick.Stop()
	var spare []byte
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		case <-tick.C:
			if err := f.check(); err != nil {
				fail(err)
				return
			}
		}
		f.s.mu.Lock()
		out := f.out
		f.out = spare[:0]
		f.s.mu.Unlock()
		if len(out) > 0 {
			conn.SetWriteDeadline(time.Now().Add(feedWrite))
			if _, err := conn.Write(out); err != nil {
				fail(fmt.Errorf("write: %w", err))
				return
			}
		}
		spare = out
		if cap(spare) > 1<<20 {
			spare = nil
		}
	}
}

// check looks at f once a tick: a silent node is pinged and then given up, and
// so is a feed that nobody needs.
func (f *feed) check() error {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	silent := time.Since(f.born) - time.Duration(f.heard.Load())
	switch {
	case len(f.legs) == 0 && time.Since(f.busy) > feedIdle:
		if f.s.feeds[f.addr] == f {
			delete(f.s.feeds, f.addr)
		}
		return errFeedIdle
	case f.stuck.Load():
	case silent > feedDead:
		return errFeedSilent
	case silent > feedPing && !f.pinged:
		f.pinged = true
		f.send(debt{verb: ping}, "PING")
	}
	if len(f.legs) > 0 {
		f.busy = time.Now()
	}
	return nil
}

var errFeedOrder = errors.New("the node answered what it was not asked")

// take deals with one frame that is no message: a reply to the oldest command.
func (f *feed) take(frame []byte) error {
	v, _, err := resp.Parse(frame)
	if err != nil {
		return err
	}
	if isError(v) {
		switch d, ok := f.settle(func(d debt) bool { return d.verb != unsubscribe }); {
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
		d, ok := f.settle(func(d debt) bool { return d.verb != subscribe })
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
			d, ok := f.settle(func(d debt) bool {
				return d.verb == subscribe && d.leg.topic.Kind == TopicKind(kind) && d.leg.topic.Name == name
			})
			if !ok {
				return errFeedOrder
			}
			f.s.confirmed(f, d)
			return nil
		case verbs[unsubscribe]:
			f.s.withdrawn(f, topicKey{TopicKind(kind), name})
			return nil
		}
	}
	return errFeedOrder
}

// settle takes the oldest debt off the list, if it fits. Otherwise it only returns it.
func (f *feed) settle(fits func(debt) bool) (debt, bool) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if len(f.owed) == 0 {
		return debt{}, false
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
func (f *feed) paid(d debt) {
	if d.op == nil {
		return
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	d.op.arrived()
}
