package commands

import (
	"fmt"
	"slices"
	"strings"

	"lockproxy/cluster"
)

// What commands asked of the session goes into fakeSession.answer.

type fakeSubscriptions struct{ f *fakeSession }

func (f *fakeSession) Subscriptions() Subscriptions { return fakeSubscriptions{f} }

func (s fakeSubscriptions) Subscribe(kind cluster.TopicKind, names [][]byte) {
	s.f.Reply(fmt.Appendf(nil, "+subscribe %d %s\r\n", kind, names))
}

func (s fakeSubscriptions) Unsubscribe(kind cluster.TopicKind, names [][]byte) {
	s.f.Reply(fmt.Appendf(nil, "+unsubscribe %d %s\r\n", kind, names))
}

func (s fakeSubscriptions) End(end func() []byte) { s.f.Reply(end()) }
func (s fakeSubscriptions) Publish(bool)          { s.f.Forward(AnySlot) }
func (s fakeSubscriptions) Shards() bool          { return s.f.server.version >= "7" }
func (s fakeSubscriptions) Census() Census        { return s.f.census }

// fakeCensus implements Census.
type fakeCensus struct {
	listeners map[string]int    // of channels, patterns and shard channels alike
	own       map[string]string // the masters that count the proxy, as digits
}

func (c fakeCensus) Listeners(_ cluster.TopicKind, name []byte) int { return c.listeners[string(name)] }

func (c fakeCensus) Own(_ cluster.TopicKind, name []byte, i int) int {
	return strings.Count(c.own[string(name)], fmt.Sprint(i))
}

func (c fakeCensus) Heard(cluster.TopicKind) (names []string) {
	for name, n := range c.listeners {
		if n > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (c fakeCensus) OwnTopics(_ cluster.TopicKind, i int) (n int) {
	for _, at := range c.own {
		n += strings.Count(at, fmt.Sprint(i))
	}
	return n
}
