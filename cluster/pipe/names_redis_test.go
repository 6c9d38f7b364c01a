//go:build !quick

package pipe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"lockproxy/cluster/discovery"
	"lockproxy/cluster/internal/servers"
	"lockproxy/cluster/internal/upstream"
	"lockproxy/internal/resp"
)

// hostNames are names and the servers that they lead to. Nothing is reached but by a name.
type hostNames struct {
	mu sync.Mutex
	at map[string]*servers.Server // by name:port
}

func (h *hostNames) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	h.mu.Lock()
	s := h.at[addr]
	h.mu.Unlock()
	if s == nil {
		return nil, errors.New("no such name: " + addr)
	}
	return new(net.Dialer).DialContext(ctx, network, s.Addr)
}

func (h *hostNames) lead(name string, to *servers.Server) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at[name] = to
}

// A managed service fails over by giving the name of the master to its replica. The old master lives on, and
// is a replica. Nobody feels it: what it refuses goes over a connection that is made anew.
func TestNameOfTheMasterLeadsElsewhere(t *testing.T) {
	old := servers.StartRedis(t)
	next := servers.StartReplica(t, old, 0)
	h := &hostNames{at: map[string]*servers.Server{"db.test:6379": old}}
	u := upstream.Find(t, discovery.Options{Addrs: []string{"db.test:6379"}, Dial: h.dial})
	c, _ := clientOf(t, u, Options{MaxOwn: 8})
	set := func(value string) error {
		reply, err := c.DoWhole(t.Context(), -1, resp.AppendCommandStrings(nil, "SET", "k", value), false)
		if err == nil && reply[0] == '-' {
			err = fmt.Errorf("%s", reply)
		}
		return err
	}
	if err := set("1"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(leastLife)
	next.Must(t, "REPLICAOF", "NO", "ONE")
	old.Must(t, "REPLICAOF", "127.0.0.1", next.Port)
	h.lead("db.test:6379", next)
	if err := set("2"); err != nil {
		t.Fatal(err)
	}
	if v := next.Get(t.Context(), "k").Val(); v != "2" {
		t.Errorf("the new master has %q", v)
	}
	servers.Eventually(t, "the new master is asked for its replicas", func() bool {
		replicas := u.Topology().Replicas
		return len(replicas) == 1 && replicas[0].Addr == old.Addr
	})
}

// Two nodes of a cluster exchange their names. Who is asked over a connection to the wrong one says MOVED to
// the very name that it was dialled by.
func TestNamesOfAClusterAreExchanged(t *testing.T) {
	nodes := servers.StartCluster(t, 0)
	h := &hostNames{at: make(map[string]*servers.Server)}
	name := func(i int) string { return fmt.Sprintf("n%d.test", i) }
	for i, n := range nodes {
		n.Must(t, "CONFIG", "SET", "cluster-announce-bus-port", n.Port+10000)
		n.Must(t, "CONFIG", "SET", "cluster-announce-port", "6379")
		n.Must(t, "CONFIG", "SET", "cluster-announce-hostname", name(i))
		n.Must(t, "CONFIG", "SET", "cluster-preferred-endpoint-type", "hostname")
		h.lead(name(i)+":6379", n)
	}
	agree := func(first string) {
		for _, n := range nodes {
			servers.Eventually(t, "the nodes know the names", func() bool {
				slots, err := n.ClusterSlots(t.Context()).Result()
				if err != nil || len(slots) != 3 {
					return false
				}
				for _, s := range slots {
					if s.Start == 0 && s.Nodes[0].Addr != first {
						return false
					}
				}
				return true
			})
		}
	}
	agree("n0.test:6379")
	u := upstream.Find(t, discovery.Options{Addrs: []string{"n2.test:6379"}, Dial: h.dial})
	c, _ := clientOf(t, u, Options{MaxOwn: 8})
	keys := map[string]int{"foo": 12182, "bar": 5061, "hello": 866, "b": 3300, "a": 15495, "c": 7365}
	for round := range 100 {
		if round == 10 {
			nodes[0].Must(t, "CONFIG", "SET", "cluster-announce-hostname", name(1))
			nodes[1].Must(t, "CONFIG", "SET", "cluster-announce-hostname", name(0))
			h.lead("n0.test:6379", nodes[1])
			h.lead("n1.test:6379", nodes[0])
			agree("n1.test:6379")
		}
		for key, slot := range keys {
			reply, err := c.DoWhole(t.Context(), slot, resp.AppendCommandStrings(nil, "SET", key, "1"), false)
			if err != nil || reply[0] != '+' {
				t.Fatalf("round %d: %s: %s %v", round, key, reply, err)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}
