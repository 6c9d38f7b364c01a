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
	subs atomic.Int64 // SSUBSCRIBE one
}

func (n *named) Login() *cluster.Login       { return new(cluster.Login) }
func (n *named) Topology() *cluster.Topology { return &n.top }
func (n *named) Refresh()                    {}

func (n *named) Dial(context.Context, string, cluster.Mode, *cluster.Identity) (net.Conn, error) {
	near, far := net.Pipe()
	go scripted.Each(far, func(words []string) bool { // ends when near is closed
		var out []byte
		switch {
		case words[0] == "PING":
			out = append(out, "*2\r\n$4\r\npong\r\n$0\r\n\r\n"...)
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

// A slot that moves from one node with a name to another takes its own channels along, and no others.
func TestMovedFromNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(named)
		m := &cluster.Node{Addr: "a.example:1", Master: true}
		n.top = cluster.Topology{Version: 1, Kind: cluster.Cluster,
			Masters: []*cluster.Node{m, {Addr: "b.example:1", Master: true}}}
		n.top.Server.ShardChannels = true
		for i := range n.top.Slots {
			n.top.Slots[i] = m
		}
		s := New(n, slog.New(slog.DiscardHandler))
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
