package proxy

import (
	"cmp"
	"context"
	"slices"

	"github.com/tidwall/redcon"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
	"lockproxy/proxy/tracking"
)

// subscriptions is what commands do with channels for s: it implements commands.Subscriptions.
type subscriptions struct{ s *session }

// Subscribe implements commands.Subscriptions.
func (c subscriptions) Subscribe(kind cluster.TopicKind, names [][]byte) {
	c.s.subscriber.subscribe(kind, names)
}

// Unsubscribe implements commands.Subscriptions.
func (c subscriptions) Unsubscribe(kind cluster.TopicKind, names [][]byte) {
	c.s.subscriber.unsubscribe(kind, names)
}

// End implements commands.Subscriptions.
func (c subscriptions) End(end func() []byte) { c.s.subscriber.end(end) }

// subscriber is what one client listens to.
type subscriber struct {
	h     subscriberHost
	own   *tracking.Connections
	tasks *tasks
	has   *seats // nil: it listens to nothing
}

// subscriberHost is a session as its subscriptions see it, beside what all features see.
type subscriberHost interface {
	host
	Reply(reply []byte)
	// Speak has the client get the answer to command tag whatever CLIENT REPLY says: confirmations are pushes,
	// also in RESP2.
	Speak(tag uint32)
	// PushMessage gives the client a message behind the answer to command tag.
	PushMessage(message []byte, behind uint32, told bool) bool
	KeepFor(tag uint32, n int)
	CountMemory()
}

// seats are those of one client, by the kind and name of their topics.
type seats struct {
	seats [3]map[string]*seat
	next  uint64 // order of the next seat
	bytes int    // of the names, with what a seat costs
}

// The words of confirmations.
var (
	subscribed   = [3]string{cluster.Classic: "subscribe", cluster.Pattern: "psubscribe", cluster.Shard: "ssubscribe"}
	unsubscribed = [3]string{cluster.Classic: "unsubscribe", cluster.Pattern: "punsubscribe", cluster.Shard: "sunsubscribe"}
)

// unsubscribe ends that the client listens to topics of these names, nil: to all of that kind.
func (l *subscriber) unsubscribe(kind cluster.TopicKind, names [][]byte) {
	tag := l.h.CurrentTag()
	if names == nil && l.h.About().Topics[kind] > seatRound {
		var out []byte
		l.leaveAll([]cluster.TopicKind{kind}, func(se *seat) {
			out = l.appendConfirmation(out, unsubscribed[kind], kind, se.topic.Name)
		}, func() []byte {
			l.h.Speak(tag)
			return out
		})
		return
	}
	if len(names) > seatRound {
		l.leaveNamed(kind, client.Lasting(l.h.worker().call.Raw))
		return
	}
	var all []string
	var seats []*seat
	if names == nil {
		seats = l.seated(kind)
		for _, se := range seats {
			all = append(all, se.topic.Name)
		}
	}
	seen := make(map[*seat]bool)
	for _, name := range names {
		all = append(all, string(name))
		if se := l.seat(kind, all[len(all)-1]); se != nil && !seen[se] {
			seen[se] = true
			seats = append(seats, se)
		}
	}
	l.leave(seats, func() []byte {
		l.h.Speak(tag)
		return l.confirmUnsubscribed(nil, kind, all)
	})
}

// confirmUnsubscribed has the client leave the topics of names and appends the confirmation of that to out.
func (l *subscriber) confirmUnsubscribed(out []byte, kind cluster.TopicKind, names []string) []byte {
	for _, name := range names {
		if se := l.seat(kind, name); se != nil {
			l.stand(kind, se)
		}
		out = l.appendConfirmation(out, unsubscribed[kind], kind, name)
	}
	l.h.CountMemory()
	if len(names) == 0 {
		out = resp.AppendPush(out, l.h.About().Proto, 3)
		out = redcon.AppendBulkString(out, unsubscribed[kind])
		out = resp.AppendNull(out, l.h.About().Proto)
		out = redcon.AppendInt(out, l.counted(kind))
	}
	return out
}

// end ends all that the client listens to.
func (l *subscriber) end(end func() []byte) {
	if l.h.About().Topics[cluster.Classic]+l.h.About().Topics[cluster.Pattern]+l.h.About().Topics[cluster.Shard] > seatRound {
		l.leaveAll([]cluster.TopicKind{cluster.Classic, cluster.Pattern, cluster.Shard}, func(*seat) {}, end)
		return
	}
	var seats []*seat
	for kind := range cluster.Shard + 1 {
		seats = append(seats, l.seated(kind)...)
	}
	l.leave(seats, func() []byte {
		for _, se := range seats {
			if !l.h.Gone() {
				l.stand(se.topic.Kind, se)
			}
		}
		l.h.CountMemory()
		return end()
	})
}

// leave gives the topics of seats up, and has end stand up from them and make the answer.
func (l *subscriber) leave(seats []*seat, end func() []byte) {
	if len(seats) == 0 {
		l.h.Reply(end())
		return
	}
	topics := make([]*cluster.Topic, len(seats))
	for i, se := range seats {
		topics[i], se.leaving = se.topic, true
		l.h.worker().hub.discount(se)
	}
	out := l.h.worker().hub.box
	l.tasks.start(func(ctx context.Context) func() []byte {
		l.h.worker().server.upstream.Leave(ctx, topics, out)
		return end
	}, out.Post, nil)
}

// seat is where the client listens to a topic, or nil.
func (l *subscriber) seat(kind cluster.TopicKind, name string) *seat {
	if l.has == nil {
		return nil
	}
	return l.has.seats[kind][name]
}

// seated are all seats of a kind, the oldest first.
func (l *subscriber) seated(kind cluster.TopicKind) []*seat {
	if l.has == nil {
		return nil
	}
	all := make([]*seat, 0, len(l.has.seats[kind]))
	for _, se := range l.has.seats[kind] {
		all = append(all, se)
	}
	slices.SortFunc(all, func(a, b *seat) int { return cmp.Compare(a.order, b.order) })
	return all
}

// sit has the client listen to t from the answer to command tag on.
func (l *subscriber) sit(kind cluster.TopicKind, t *cluster.Topic, tag uint32) {
	has := l.has
	se := &seat{subscriber: l, topic: t, order: has.next, behind: tag}
	has.next++
	has.seats[kind][t.Name] = se
	has.bytes += len(t.Name) + seatCost
	l.h.About().Topics[kind] = len(has.seats[kind])
	l.h.worker().hub.sit(se)
}

// stand is the counterpart of sit.
func (l *subscriber) stand(kind cluster.TopicKind, se *seat) {
	l.h.worker().hub.stand(se)
	delete(l.has.seats[kind], se.topic.Name)
	l.has.bytes -= len(se.topic.Name) + seatCost
	l.h.About().Topics[kind] = len(l.has.seats[kind])
	if !l.h.About().Subscribed() {
		l.has = nil
	}
}

// standUp ends all that a client which has gone listened to.
func (l *subscriber) standUp() {
	if l.has == nil {
		return
	}
	has := l.has
	l.has = nil
	has.standUp(l.h.worker().hub)
}

// seatRound is how many seats are taken or given up in one round of the loop.
const seatRound = 1024

// standUp gives all seats up, some of them in each round.
func (l *seats) standUp(h *hub) {
	var left []*cluster.Topic
	n := 0
	for _, seats := range l.seats {
		for name, se := range seats {
			if n++; n > seatRound {
				h.release(left)
				h.worker.loop.Post(func() { l.standUp(h) })
				return
			}
			delete(seats, name)
			h.stand(se)
			if !se.leaving { // else leave does that
				left = append(left, se.topic)
			}
		}
	}
	h.release(left)
}

// counted is the number in confirmations: channels and patterns count together.
func (l *subscriber) counted(kind cluster.TopicKind) int64 {
	if kind == cluster.Shard {
		return int64(l.h.About().Topics[kind])
	}
	return int64(l.h.About().Topics[cluster.Classic] + l.h.About().Topics[cluster.Pattern])
}

func (l *subscriber) appendConfirmation(dst []byte, word string, kind cluster.TopicKind, name string) []byte {
	dst = resp.AppendPush(dst, l.h.About().Proto, 3)
	dst = redcon.AppendBulkString(dst, word)
	dst = redcon.AppendBulkString(dst, name)
	return redcon.AppendInt(dst, l.counted(kind))
}

// message gives the client what was published.
func (se *seat) message(message []byte) {
	if !se.subscriber.h.Gone() { // else it is about to stand up
		se.told = se.subscriber.h.PushMessage(message, se.behind, se.told)
	}
}

// replyKinds are the first bytes of messages, by protocol.
var replyKinds = [...][]byte{2: []byte("*"), 3: []byte(">")}
