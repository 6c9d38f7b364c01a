package pubsub

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/cluster"
	"lockproxy/internal/scripted"
	"lockproxy/internal/subscription"
)

// named is a cluster of one node that has a name, and of which a slot has just moved to another one.
type named struct {
	top  cluster.Topology
	left bool         // the first one that is dialled has left the cluster
	dial atomic.Int64 // connections
	subs atomic.Int64 // SSUBSCRIBE one
}

func (n *named) Login() *cluster.Login       { return new(cluster.Login) }
func (n *named) Topology() *cluster.Topology { return &n.top }
func (n *named) Refresh()                    {}

func (n *named) Dial(context.Context, string, cluster.Mode, *cluster.Identity) (net.Conn, error) {
	near, far := net.Pipe()
	gone := n.dial.Add(1) == 1 && n.left
	go scripted.Each(far, func(words []string) bool { // ends when near is closed
		var out []byte
		switch {
		case words[0] == "PING":
			out = append(out, "*2\r\n$4\r\npong\r\n$0\r\n\r\n"...)
		case gone:
			out = append(out, "-CLUSTERDOWN Hash slot not served\r\n"...)
		case words[1] == "two":
			out = append(out, "-MOVED 7 b.example:1\r\n"...)
		default:
			n.subs.Add(1)
			out = redcon.AppendArray(out, 3)
			out = redcon.AppendBulkString(out, strings.ToLower(words[0]))
			out = redcon.AppendBulkString(out, words[1])
			out = redcon.AppendInt(out, 1)
		}
		return scripted.Write(far, string(out))
	}, nil)
	return near, nil
}

// subscriptions are those at n.
func (n *named) subscriptions() *Subscriptions {
	m := &cluster.Node{Addr: "a.example:1", Master: true}
	n.top = cluster.Topology{Version: 1, Kind: cluster.Cluster,
		Masters: []*cluster.Node{m, {Addr: "b.example:1", Master: true}}}
	n.top.Server.ShardChannels = true
	for i := range n.top.Slots {
		n.top.Slots[i] = m
	}
	return New(n, slog.New(slog.DiscardHandler))
}

// A node that serves no slot, as it has left the cluster, is not the one to which its name leads by now.
func TestNamedNodeThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &named{left: true}
		s := n.subscriptions()
		s.Subscribe(5, "one", func(subscription.Change) {})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if dials, got := n.dial.Load(), n.subs.Load(); dials != 2 || got != 1 {
			t.Errorf("%d connections, subscribed %d times", dials, got)
		}
		s.Close()
	})
}

// A slot that moves from one node with a name to another takes its own channels along, and no others.
func TestMovedFromNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(named)
		s := n.subscriptions()
		lost := 0
		s.Subscribe(5, "one", func(e subscription.Change) {
			if e.Kind == subscription.Lost {
				lost++
			}
		})
		synctest.Wait()
		s.Subscribe(7, "two", func(subscription.Change) {})
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if got := n.subs.Load(); got != 1 || lost > 0 {
			t.Errorf("the channel of another slot was subscribed %d times, lost %d times", got, lost)
		}
		s.Close()
	})
}
