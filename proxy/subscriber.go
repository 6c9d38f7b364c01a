package proxy

import (
	"cmp"
	"context"
	"slices"

	"github.com/tidwall/redcon"

	"lockproxy/cluster"
	"lockproxy/internal/loop"
	"lockproxy/internal/resp"
)

// subscriptions are what s listens to: it implements commands.Subscriptions.
type subscriptions struct{ s *session }

// subscriber are the seats of one session, by the kind and name of their topics.
type subscriber struct {
	seats [3]map[string]*seat
	next  uint64 // order of the next seat
	bytes int    // of the names, with what a seat costs
}

// The words of confirmations.
var (
	subscribed   = [3]string{cluster.Classic: "subscribe", cluster.Pattern: "psubscribe", cluster.Shard: "ssubscribe"}
	unsubscribed = [3]string{cluster.Classic: "unsubscribe", cluster.Pattern: "punsubscribe", cluster.Shard: "sunsubscribe"}
)

// Unsubscribe implements commands.Subscriptions.
func (c subscriptions) Unsubscribe(kind cluster.TopicKind, names [][]byte) {
	s := c.s
	tag := s.current
	if names == nil && s.Topics[kind] > seatRound {
		var out []byte
		s.leaveAll([]cluster.TopicKind{kind}, func(se *seat) {
			out = s.appendConfirmation(out, unsubscribed[kind], kind, se.topic.Name)
		}, func() []byte {
			s.speak(tag)
			return out
		})
		return
	}
	if len(names) > seatRound {
		s.leaveNamed(kind, lasting(s.w.call.Raw))
		return
	}
	var all []string
	var seats []*seat
	if names == nil {
		seats = s.seated(kind)
		for _, se := range seats {
			all = append(all, se.topic.Name)
		}
	}
	seen := make(map[*seat]bool)
	for _, name := range names {
		all = append(all, string(name))
		if se := s.seat(kind, all[len(all)-1]); se != nil && !seen[se] {
			seen[se] = true
			seats = append(seats, se)
		}
	}
	s.leave(seats, func() []byte {
		s.speak(tag)
		return s.confirmUnsubscribed(nil, kind, all)
	})
}

// speak has the client get the answer to command tag whatever CLIENT REPLY says: confirmations are pushes,
// also in RESP2.
func (s *session) speak(tag uint32) { s.answers.at(tag).silent = false }

// confirmUnsubscribed has s leave the topics of names and appends the confirmation of that to out.
func (s *session) confirmUnsubscribed(out []byte, kind cluster.TopicKind, names []string) []byte {
	for _, name := range names {
		if se := s.seat(kind, name); se != nil {
			s.stand(kind, se)
		}
		out = s.appendConfirmation(out, unsubscribed[kind], kind, name)
	}
	s.countMemory()
	if len(names) == 0 {
		out = resp.AppendPush(out, s.Proto, 3)
		out = redcon.AppendBulkString(out, unsubscribed[kind])
		out = resp.AppendNull(out, s.Proto)
		out = redcon.AppendInt(out, s.counted(kind))
	}
	return out
}

// End implements commands.Subscriptions.
func (c subscriptions) End(end func() []byte) {
	s := c.s
	if s.Topics[cluster.Classic]+s.Topics[cluster.Pattern]+s.Topics[cluster.Shard] > seatRound {
		s.leaveAll([]cluster.TopicKind{cluster.Classic, cluster.Pattern, cluster.Shard}, func(*seat) {}, end)
		return
	}
	var seats []*seat
	for kind := range cluster.Shard + 1 {
		seats = append(seats, s.seated(kind)...)
	}
	s.leave(seats, func() []byte {
		for _, se := range seats {
			if !s.gone {
				s.stand(se.topic.Kind, se)
			}
		}
		s.countMemory()
		return end()
	})
}

// leave gives the topics of seats up, and has end stand up from them and make the answer.
func (s *session) leave(seats []*seat, end func() []byte) {
	if len(seats) == 0 {
		s.reply(end())
		return
	}
	topics := make([]*cluster.Topic, len(seats))
	for i, se := range seats {
		topics[i], se.leaving = se.topic, true
		s.w.hub.discount(se)
	}
	out := s.w.hub.box
	s.tasks.start(func(ctx context.Context) func() []byte {
		s.w.server.upstream.Leave(ctx, topics, out)
		return end
	}, out.Post, nil)
}

// seat is where s listens to a topic, or nil.
func (s *session) seat(kind cluster.TopicKind, name string) *seat {
	if s.listens == nil {
		return nil
	}
	return s.listens.seats[kind][name]
}

// seated are all seats of a kind, the oldest first.
func (s *session) seated(kind cluster.TopicKind) []*seat {
	if s.listens == nil {
		return nil
	}
	all := make([]*seat, 0, len(s.listens.seats[kind]))
	for _, se := range s.listens.seats[kind] {
		all = append(all, se)
	}
	slices.SortFunc(all, func(a, b *seat) int { return cmp.Compare(a.order, b.order) })
	return all
}

// sit has s listen to t from the answer to command tag on.
func (s *session) sit(kind cluster.TopicKind, t *cluster.Topic, tag uint32) {
	l := s.listens
	se := &seat{session: s, topic: t, order: l.next, behind: tag}
	l.next++
	l.seats[kind][t.Name] = se
	l.bytes += len(t.Name) + seatCost
	s.Topics[kind] = len(l.seats[kind])
	s.w.hub.sit(se)
}

// stand is the counterpart of sit.
func (s *session) stand(kind cluster.TopicKind, se *seat) {
	s.w.hub.stand(se)
	delete(s.listens.seats[kind], se.topic.Name)
	s.listens.bytes -= len(se.topic.Name) + seatCost
	s.Topics[kind] = len(s.listens.seats[kind])
	if !s.Subscribed() {
		s.listens = nil
	}
}

// standUp ends all that a client which has gone listened to.
func (s *session) standUp() {
	if s.listens == nil {
		return
	}
	l := s.listens
	s.listens = nil
	l.standUp(s.w.hub)
}

// seatRound is how many seats are taken or given up in one round of the loop.
const seatRound = 1024

// standUp gives all seats up, some of them in each round.
func (l *subscriber) standUp(h *hub) {
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
func (s *session) counted(kind cluster.TopicKind) int64 {
	if kind == cluster.Shard {
		return int64(s.Topics[kind])
	}
	return int64(s.Topics[cluster.Classic] + s.Topics[cluster.Pattern])
}

func (s *session) appendConfirmation(dst []byte, word string, kind cluster.TopicKind, name string) []byte {
	dst = resp.AppendPush(dst, s.Proto, 3)
	dst = redcon.AppendBulkString(dst, word)
	dst = redcon.AppendBulkString(dst, name)
	return redcon.AppendInt(dst, s.counted(kind))
}

// message gives the client what was published, behind the answer to the command by which it listens: before
// that it would be taken for the answer to an earlier command. message is a reply of RESP2; its first byte
// may be changed, but if it is larger than loop.Shared nobody may write to it.
func (s *session) message(se *seat, message []byte) {
	if s.gone { // and about to stand up
		return
	}
	kind := replyKinds[s.Proto]
	if len(message) <= loop.Shared {
		message[0], kind = kind[0], nil
	} else {
		message = message[1:]
	}
	if !se.told && s.unanswered(se.behind) {
		s.pushBytes(se.behind, kind)
		s.pushBytes(se.behind, lasting(message))
		return
	}
	se.told = true
	if s.midAnswer() {
		s.late.add(kind)
		s.late.add(message)
		s.held += len(kind) + len(message)
		s.checkOutput()
		return
	}
	if kind != nil {
		s.write(kind)
	}
	s.write(message)
}

// replyKinds are the first bytes of messages, by protocol.
var replyKinds = [...][]byte{2: []byte("*"), 3: []byte(">")}

// unanswered says that command tag is not answered yet.
func (s *session) unanswered(tag uint32) bool {
	return tag-s.answers.head < s.answers.tail-s.answers.head
}
