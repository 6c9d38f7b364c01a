package pubsub

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tidwall/redcon"

	"lockproxy/cluster"
	"lockproxy/cluster/internal/servers"
	"lockproxy/internal/scripted"
	"lockproxy/internal/subscription"
)

// upgraded is the control plane of one node that gets to know shard channels. SUBSCRIBE it
// refuses.
type upgraded struct {
	top atomic.Pointer[cluster.Topology]
}

func (u *upgraded) Topology() *cluster.Topology { return u.top.Load() }
func (*upgraded) Refresh()                      {}
func (*upgraded) Login() *cluster.Login         { return new(cluster.Login) }

func (*upgraded) Dial(context.Context, string, cluster.Mode, *cluster.Identity) (net.Conn, error) {
	near, far := net.Pipe()
	go func() { // ends when near is closed
		defer far.Close()
		scripted.Each(far, func(words []string) bool {
			switch command := strings.ToLower(words[0]); command {
			case "subscribe":
				return scripted.Write(far, "-LOADING Redis is loading the dataset in memory\r\n")
			case "ssubscribe", "unsubscribe", "sunsubscribe":
				out := redcon.AppendBulkString(redcon.AppendArray(nil, 3), command)
				out = redcon.AppendInt(redcon.AppendBulkString(out, words[1]), 1)
				return scripted.Write(far, string(out))
			}
			return scripted.Write(far, string(servers.Reply("*2", "$4", "pong", "$0", "")))
		}, nil)
	}()
	return near, nil
}

// Who waits for a subscription while the upstream gets to know shard channels has it as one of those.
func TestRekeyedWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u upgraded
		top := func(shards bool) *cluster.Topology {
			n := &cluster.Node{Addr: "10.0.0.1:6379"}
			one := &cluster.Topology{Masters: []*cluster.Node{n}}
			one.Server.ShardChannels = shards
			for i := range one.Slots {
				one.Slots[i] = n
			}
			return one
		}
		u.top.Store(top(false))
		s := New(&u, servers.Log(t))
		defer s.Close()
		live := 0
		s.Subscribe(7, "news", func(e subscription.Change) {
			if e.Kind == subscription.Live {
				live++
			}
		})
		synctest.Wait()
		u.top.Store(top(true))
		s.Moved()
		synctest.Wait()
		if live != 1 {
			t.Errorf("told %d times that it stands", live)
		}
	})
}
