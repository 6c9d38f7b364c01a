package pubsub

import (
	"bytes"
	"context"
	"strconv"

	"lockproxy/cluster"
	"lockproxy/internal/subscription"
)

// pauseReading implements feedUser: it waits until outlets that are full have room again. Meanwhile the node
// waits too, or closes by a limit of its own.
func (f *feed) pauseReading(ctx context.Context) {
	if len(f.full) == 0 {
		return
	}
	f.stuck.Store(true)
	for i, out := range f.full {
		select {
		case <-out.Space():
		case <-ctx.Done():
		}
		f.full[i] = nil
	}
	f.full = f.full[:0]
	f.reads.Add(1) // the node was not silent
	f.stuck.Store(false)
}

// How messages of the kinds of topics begin.
var (
	messageHead  = []byte("*3\r\n$7\r\nmessage\r\n")
	pmessageHead = []byte("*4\r\n$8\r\npmessage\r\n")
	smessageHead = []byte("*3\r\n$8\r\nsmessage\r\n")
)

// takeFrame implements feedUser.
func (f *feed) takeFrame(frame []byte) error {
	if frame[0] == '>' {
		frame[0] = '*'
	}
	switch {
	case bytes.HasPrefix(frame, messageHead):
		return f.message(Classic, frame, frame[len(messageHead):])
	case bytes.HasPrefix(frame, pmessageHead):
		return f.message(Pattern, frame, frame[len(pmessageHead):])
	case bytes.HasPrefix(frame, smessageHead):
		return f.message(Shard, frame, frame[len(smessageHead):])
	}
	return f.take(frame)
}

// message passes frame on to the listeners of its topic. rest is its end: the pattern if it has one, the
// channel, the payload.
func (f *feed) message(kind Kind, frame, rest []byte) error {
	name, rest, ok := bulk(rest)
	channel := name
	if kind == Pattern && ok {
		channel, rest, ok = bulk(rest)
	}
	if !ok {
		return errFeedOrder
	}
	f.s.mu.Lock()
	defer f.s.unlock()
	l := f.subscribed[topicKey{kind, string(name)}]
	if l == nil || !l.stands || l.topic.everywhere && f.addr != l.topic.home && !notifiesOfKeys(channel) {
		return nil
	}
	t := l.topic
	for _, o := range t.outlets {
		if o.to.Deliver(t, frame) {
			f.full = append(f.full, o.to)
		}
	}
	if !l.live() || len(t.members) == 0 {
		return nil
	}
	payload, _, ok := bulk(rest)
	if !ok {
		return errFeedOrder
	}
	payload = bytes.Clone(payload)
	for _, m := range t.members {
		f.s.note(m, subscription.Change{Kind: subscription.Message, Payload: payload})
	}
	return nil
}

// bulk cuts a bulk string off b, whose framing has been checked.
func bulk(b []byte) (text, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '$' {
		return nil, nil, false
	}
	line := bytes.IndexByte(b, '\r')
	if line < 0 {
		return nil, nil, false
	}
	n, err := strconv.Atoi(string(b[1:line]))
	if err != nil || n < 0 || n > len(b)-line-4 {
		return nil, nil, false
	}
	b = b[line+2:]
	return b[:n:n], b[n+2:], true
}

// confirmed notes that f has subscribed the topic of d. mu is held.
func (f *feed) confirmed(d owedReply) {
	l, t := d.at, d.at.topic
	if f.subscribed[t.key()] != l {
		return
	}
	l.stands = true
	t.counts(f.addr, true)
	delete(f.s.resting, f.addr)
	if !l.leaving && d.number >= l.since {
		l.answer = d.number
		if f.addr == t.home {
			t.tries, t.reason = 0, nil
			f.s.restore(t)
		}
	}
	f.s.settle(t)
}

// unsubscribed notes that the node has ended the subscription of d, as asked. It may have been asked for
// that topic again since. mu is held.
func (f *feed) unsubscribed(d owedReply) {
	l, t := d.at, d.at.topic
	switch {
	case f.subscribed[t.key()] != l:
	case l.leaving:
		f.forget(l)
	default:
		l.stands = false
		t.counts(f.addr, false)
	}
}

// withdrawn handles a subscription that the node ended by itself, as it does when the slot moves away. mu is
// held.
func (f *feed) withdrawn(key topicKey) {
	l := f.subscribed[key]
	if l == nil || !l.live() { // as after an UNSUBSCRIBE of ours
		return
	}
	l.topic.reason = errMoved
	f.forget(l)
	f.s.again(l.topic, movedPause)
	f.s.nodes.Refresh()
}

// refused handles an error reply to a SUBSCRIBE. mu is held.
func (f *feed) refused(d owedReply, text string) {
	l, t := d.at, d.at.topic
	if f.subscribed[t.key()] != l || l.leaving {
		return
	}
	t.reason = cluster.NodeError{Addr: f.addr, Err: SubscribeError(text)}
	pause := maxResubscribe
	switch {
	case passes(text) && l.stands: // there must not be subscriptions at two nodes
		if l.live() && f.addr == t.home {
			f.s.lose(t)
		}
		f.leave(l, nil)
		pause = t.pause()
	case passes(text):
		f.forget(l)
		pause = t.pause()
	default:
		// Callers who have not joined yet get the error; for the others it is tried again.
		f.s.refuse(t)
		t.endJoins(d.number, t.reason)
		if l.stands {
			pause = 0
			break
		}
		f.forget(l)
	}
	if pause > 0 {
		f.s.again(t, pause)
	}
	f.s.endIfUnused(t, nil)
	f.s.nodes.Refresh()
}

// SubscribeError is the text of an error reply of a node, as the errors of Join and of Refused wrap it.
type SubscribeError string

func (e SubscribeError) Error() string { return string(e) }
