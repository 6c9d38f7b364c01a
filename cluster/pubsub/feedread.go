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

// takeFrame implements feedUser. A push of RESP3 becomes the array of RESP2 in place: listeners are passed
// that.
func (f *feed) takeFrame(frame []byte) error {
	if frame[0] == '>' {
		frame[0] = '*'
	}
	switch {
	case bytes.HasPrefix(frame, messageHead):
		return f.passMessage(Classic, frame, frame[len(messageHead):])
	case bytes.HasPrefix(frame, pmessageHead):
		return f.passMessage(Pattern, frame, frame[len(pmessageHead):])
	case bytes.HasPrefix(frame, smessageHead):
		return f.passMessage(Shard, frame, frame[len(smessageHead):])
	}
	return f.takeReply(frame)
}

// passMessage passes frame on to the listeners of its topic. rest is its end: the pattern if it has one, the
// channel, the payload. A topic that is subscribed everywhere gets what concerns no keys from its home only:
// every master has that, and listeners want it once. Outlets that are full are waited for when mu is free
// (pauseReading).
func (f *feed) passMessage(kind Kind, frame, rest []byte) error {
	name, rest, ok := cutBulk(rest)
	channel := name
	if kind == Pattern && ok {
		channel, rest, ok = cutBulk(rest)
	}
	if !ok {
		return errFeedOrder
	}
	f.s.mu.Lock()
	defer f.s.unlockAndTell()
	l := f.subscribed[TopicName{kind, string(name)}]
	if l == nil || !l.stands.Load() ||
		l.topic.everywhere && f.addr != l.topic.home && !notifiesOfKeys(channel) {
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
	payload, _, ok := cutBulk(rest)
	if !ok {
		return errFeedOrder
	}
	// Members get it when mu is free: by then the buffer has other bytes.
	payload = bytes.Clone(payload)
	for _, m := range t.members {
		f.s.noteEvent(m, subscription.Change{Kind: subscription.Message, Payload: payload})
	}
	return nil
}

// cutBulk cuts a bulk string off b, whose framing has been checked. It is not ok if b does not begin with
// one. text lies in b, and cannot grow into rest.
func cutBulk(b []byte) (text, rest []byte, ok bool) {
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

// noteConfirmed notes that f has subscribed the topic of d. mu is held. An answer to a SUBSCRIBE from before
// the last move does not count: messages may have been missed since. The node has proven to work, so it no
// longer rests.
func (f *feed) noteConfirmed(d owedReply) {
	l, t := d.at, d.at.topic
	if f.subscribed[t.TopicName] != l {
		return
	}
	l.stands.Store(true)
	delete(f.s.resting, f.addr)
	if !l.leaving && d.number >= l.since {
		l.answer = d.number
		if f.addr == t.home {
			t.tries, t.reason = 0, nil
			f.s.restoreTopic(t)
		}
	}
	f.s.settleJoins(t)
}

// noteUnsubscribed notes that the node has ended the subscription of d, as asked. It may have been asked for
// that topic again since. mu is held. Then its SUBSCRIBE is on the way, and l goes on.
func (f *feed) noteUnsubscribed(d owedReply) {
	l, t := d.at, d.at.topic
	switch {
	case f.subscribed[t.TopicName] != l:
	case l.leaving:
		f.forgetSubscription(l)
	default:
		l.stands.Store(false)
	}
}

// noteWithdrawn handles a subscription that the node ended by itself, as it does when the slot moves away. mu
// is held.
func (f *feed) noteWithdrawn(key TopicName) {
	l := f.subscribed[key]
	if l == nil || !l.live() { // as after an UNSUBSCRIBE of ours
		return
	}
	l.topic.reason = errMoved
	f.forgetSubscription(l)
	f.s.placeLater(l.topic, movedPause)
	f.s.nodes.Refresh()
}

// noteRefused handles an error reply to a SUBSCRIBE. mu is held. What may pass is tried again in growing
// pauses. What does not is told to whoever joins now, and tried again all the same, for those who have joined
// before.
func (f *feed) noteRefused(d owedReply, text string) {
	l, t := d.at, d.at.topic
	if f.subscribed[t.TopicName] != l || l.leaving {
		return
	}
	if busy(text) && l.stands.Load() { // it still stands: only the answer is missing
		f.refused = append(f.refused, d)
		return
	}
	t.reason = cluster.NodeError{Addr: f.addr, Err: SubscribeError(text)}
	// what does not pass by itself is tried seldom
	pause := maxResubscribe
	switch {
	case passesByItself(text) && l.stands.Load(): // there must not be subscriptions at two nodes
		if l.live() && f.addr == t.home {
			f.s.loseTopic(t)
		}
		f.sendUnsubscribe(l, nil)
		pause = t.nextPause()
	case passesByItself(text):
		f.forgetSubscription(l)
		pause = t.nextPause()
	default:
		// Callers who have not joined yet get the error; for the others it is tried again.
		f.s.refuseTopic(t)
		t.endJoins(d.number, t.reason)
		if l.stands.Load() {
			pause = 0
			break
		}
		f.forgetSubscription(l)
	}
	if pause > 0 {
		f.s.placeLater(t, pause)
	}
	f.s.endIfUnused(t, nil)
	f.s.nodes.Refresh()
}

// SubscribeError is the text of an error reply of a node, as the errors of Join and of Refused wrap it.
type SubscribeError string

func (e SubscribeError) Error() string { return string(e) }
