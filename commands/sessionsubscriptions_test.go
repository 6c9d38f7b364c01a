package commands_test

import (
	"fmt"
	"slices"
	"strings"

	"lockproxy/cluster/pubsub"
	"lockproxy/commands"
)

// What commands asked of the session goes into Session.answer.

type fakeSubscriptions struct{ f *session }

func (f *session) Subscriptions() commands.Subscriptions { return fakeSubscriptions{f} }

func (s fakeSubscriptions) Subscribe(kind pubsub.Kind, names [][]byte) {
	s.f.Reply(fmt.Appendf(nil, "+subscribe %d %s\r\n", kind, names))
}

func (s fakeSubscriptions) Unsubscribe(kind pubsub.Kind, names [][]byte) {
	s.f.Reply(fmt.Appendf(nil, "+unsubscribe %d %s\r\n", kind, names))
}

func (s fakeSubscriptions) End(end func() []byte)                       { s.f.Reply(end()) }
func (s fakeSubscriptions) Publish(bool)                                { s.f.Forward(commands.AnySlot) }
func (s fakeSubscriptions) Shards() bool                                { return s.f.Server.Version >= "7" }
func (s fakeSubscriptions) Settled(raw []byte, then func([]byte))       { then(raw) }
func (s fakeSubscriptions) SubscriberCounts() commands.SubscriberCounts { return s.f.SubscriberCounts }

// subscriberCounts implements SubscriberCounts.
type subscriberCounts struct {
	Heads map[string]int    // of channels, patterns and shard channels alike
	Owned map[string]string // the masters that count the proxy, as digits
}

func (c subscriberCounts) Listeners(_ pubsub.Kind, name []byte) int { return c.Heads[string(name)] }

func (c subscriberCounts) Own(_ pubsub.Kind, name []byte, i int) int {
	return strings.Count(c.Owned[string(name)], fmt.Sprint(i))
}

func (c subscriberCounts) Heard(pubsub.Kind) (names []string) {
	for name, n := range c.Heads {
		if n > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (c subscriberCounts) OwnTopics(_ pubsub.Kind, i int) (n int) {
	for _, at := range c.Owned {
		n += strings.Count(at, fmt.Sprint(i))
	}
	return n
}
