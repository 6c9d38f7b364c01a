package pubsub

import (
	"bytes"
	"context"
	"strconv"

	"lockproxy/cluster"
)

// Pause implements ConnUser: it waits for the outlets that are full. The node waits then too, or breaks off
// by a limit of its own.
func (f *feed) Pause(ctx context.Context) {
	if len(f.full) == 0 {
		return
	}
	f.stuck.Store(true)
	for i, out := range f.full {
		select {
		case <-out.Room():
		case <-ctx.Done():
		}
		f.full[i] = nil
	}
	f.full = f.full[:0]
	f.Heard()
	f.stuck.Store(false)
}

// How messages of the kinds of topics begin.
var (
	messageHead  = []byte("*3\r\n$7\r\nmessage\r\n")
	pmessageHead = []byte("*4\r\n$8\r\npmessage\r\n")
	smessageHead = []byte("*3\r\n$8\r\nsmessage\r\n")
)

// Frame implements ConnUser.
func (f *feed) Frame(frame []byte) error {
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

// message hands frame out to those who listen to what it came over. rest is what of it comes
// behind the word: the pattern, if it has one, the channel, the payload.
func (f *feed) message(kind Kind, frame, rest []byte) error {
	name, rest, ok := bulk(rest)
	channel := name
	if kind == Pattern && ok {
		channel, rest, ok = bulk(rest)
	}
	if !ok {
		return errFeedOrder
	}
	s := f.s
	s.mu.Lock()
	l := f.subscribed[topicKey{kind, string(name)}]
	if l == nil || !l.stands || l.topic.everywhere && f.addr != l.topic.home && !notifiesOfKeys(channel) {
		s.mu.Unlock()
		return nil
	}
	t := l.topic
	for _, o := range t.outlets {
		if o.to.Deliver(t, frame) {
			f.full = append(f.full, o.to)
		}
	}
	members := len(t.members)
	s.mu.Unlock()
	if members > 0 {
		payload, _, ok := bulk(rest)
		if !ok {
			return errFeedOrder
		}
		s.hand(t, l, bytes.Clone(payload))
	}
	return nil
}

// bulk cuts a bulk string off b, whose framing is sound.
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

// confirmed notes that f has subscribed the topic of d.
func (s *Subscriptions) confirmed(f *feed, d owedReply) {
	l, t := d.at, d.at.topic
	s.mu.Lock()
	if f.subscribed[t.key()] != l {
		s.mu.Unlock()
		return
	}
	l.stands = true
	t.counts(f.addr, true)
	delete(s.resting, f.addr)
	if !l.leaving && d.number >= l.since {
		l.live, l.answer = true, d.number
		if f.addr == t.home {
			t.tries, t.reason = 0, nil
		}
	}
	s.settle(t)
	members := len(t.members)
	s.mu.Unlock()
	if members > 0 {
		s.tell(t)
	}
}

// unsubscribed notes that the node has let go of the topic of d, as it was asked to. It may have been asked
// for again since then.
func (s *Subscriptions) unsubscribed(f *feed, d owedReply) {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// withdrawn deals with a subscription that the node ended by itself, as it does
// when the slot moves away.
func (s *Subscriptions) withdrawn(f *feed, key topicKey) {
	s.mu.Lock()
	l := f.subscribed[key]
	if l == nil || !l.live { // as after an UNSUBSCRIBE of ours
		s.mu.Unlock()
		return
	}
	t := l.topic
	t.reason = errMoved
	f.forget(l)
	s.again(t, movedPause)
	s.mu.Unlock()
	s.nodes.Refresh()
	s.tell(t)
}

// refused deals with an error reply to a SUBSCRIBE.
func (s *Subscriptions) refused(f *feed, d owedReply, text string) {
	l, t := d.at, d.at.topic
	s.mu.Lock()
	if f.subscribed[t.key()] != l || l.leaving {
		s.mu.Unlock()
		return
	}
	t.reason = cluster.NodeError{Addr: f.addr, Err: ReplyError(text)}
	pause := maxResubscribe
	switch {
	case passes(text) && l.stands: // it would not do to be subscribed at two nodes
		t.lapsed = t.lapsed || l.live && f.addr == t.home
		f.leave(l, nil)
		pause = s.pause(t)
	case passes(text):
		f.forget(l)
		pause = s.pause(t)
	default:
		// Who has not joined yet learns of it; for the others it is tried on.
		t.turnAway(t.reason)
		for len(t.joins) > 0 && t.joins[0].number <= d.number {
			t.joins[0].barrier.err = t.reason
			t.joins[0].barrier.arrived()
			t.joins = t.joins[1:]
		}
		if l.stands {
			pause = 0
			break
		}
		f.forget(l)
	}
	if pause > 0 {
		s.again(t, pause)
	}
	s.endIfUnused(t, nil)
	s.mu.Unlock()
	s.nodes.Refresh()
	s.tell(t)
}

// ReplyError is the text of an error reply of a node, as the errors of Subscribe and Join wrap it.
type ReplyError string

func (e ReplyError) Error() string { return string(e) }
