package proxy

import (
	"context"
	"errors"
	"math"

	"lockproxy/cluster/pubsub"
	"lockproxy/internal/subscription"
)

// noPubSub is an upstream in which nobody subscribes. look, if not nil, is called where somebody looks for
// topics.
type noPubSub struct{ look func() }

func (p noPubSub) lookUp() {
	if p.look != nil {
		p.look()
	}
}

var errNoPubSub = errors.New("no subscriptions here")

func (noPubSub) Join(context.Context, pubsub.Kind, []string, pubsub.Outlet) ([]*pubsub.Topic, error) {
	return nil, errNoPubSub
}

func (noPubSub) Leave(context.Context, []*pubsub.Topic, pubsub.Outlet) {}
func (noPubSub) Home() string                                          { return "" }

func (p noPubSub) Topic(pubsub.Kind, []byte) *pubsub.Topic {
	p.lookUp()
	return nil
}

func (p noPubSub) Topics(pubsub.Kind) []*pubsub.Topic {
	p.lookUp()
	return nil
}

func (p noPubSub) Concerned(_ []byte, _ bool, most int) ([]*pubsub.Topic, int) {
	if p.look != nil && most < math.MaxInt {
		return nil, -1
	}
	p.lookUp()
	return nil, most
}

func (noPubSub) Subscribe(int, string, func(subscription.Change)) func() { return func() {} }

func (noPubSub) Sharded() bool { return true }
