package proxy

import (
	"context"
	"errors"

	"lockproxy/cluster"
)

// noPubSub is an upstream in which nobody publishes.
type noPubSub struct{}

var errNoPubSub = errors.New("no subscriptions here")

func (noPubSub) Join(context.Context, cluster.TopicKind, []string, cluster.Outlet) ([]*cluster.Topic, error) {
	return nil, errNoPubSub
}

func (noPubSub) Leave(context.Context, []*cluster.Topic, cluster.Outlet) {}
func (noPubSub) Concerned([]byte, bool) []*cluster.Topic                 { return nil }
func (noPubSub) Topic(cluster.TopicKind, []byte) *cluster.Topic          { return nil }
func (noPubSub) Topics(cluster.TopicKind) []*cluster.Topic               { return nil }
func (noPubSub) Home() string                                            { return "" }
