//go:build !quick

package discovery_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/discovery"
	"lockproxy/cluster/internal/servers"
	"lockproxy/cluster/internal/upstream"
	"lockproxy/internal/slot"
)

// One cluster, one trouble after the other; nobody hints, so the timer alone
// must find out.
func TestWatchCluster(t *testing.T) {
	nodes := servers.StartCluster(t, 1)
	t.Run("discovered", func(t *testing.T) { discovered(t, nodes) })
	t.Run("refreshed", func(t *testing.T) { refreshed(t, nodes) })
	seeds := []*servers.Server{nodes[0], nodes[1]}
	u := upstream.Find(t, discovery.Options{Addrs: servers.Addrs(seeds...), ConnectTimeout: servers.Patience})
	var told atomic.Pointer[cluster.Topology]
	u.OnChange(func(top *cluster.Topology) { told.Store(top) })
	alive := func(skip ...*servers.Server) *servers.Server {
		for _, s := range nodes {
			if !slices.Contains(skip, s) && s.Ping(t.Context()).Err() == nil {
				return s
			}
		}
		t.Fatal("no node left")
		return nil
	}
	replicaOf := func(m *servers.Server) *servers.Server {
		id := m.Must(t, "CLUSTER", "MYID").(string)
		for _, s := range nodes {
			if info, _ := s.ClusterNodes(t.Context()).Result(); strings.Contains(info, "myself,slave "+id) {
				return s
			}
		}
		t.Fatalf("%s has no replica", m.Addr)
		return nil
	}
	// move gives slot n to another master than the one that has it, and not to skip.
	move := func(n int, skip ...*servers.Server) {
		t.Helper()
		from := servers.ByAddr(nodes, u.Topology().Slots[n].Addr)
		var to *servers.Server
		for _, m := range u.Topology().Masters {
			if s := servers.ByAddr(nodes, m.Addr); s != from && !slices.Contains(skip, s) {
				to = s
			}
		}
		servers.Cluster(nodes).Migrate(t, n, from.Server, to.Server, 0)
		servers.Eventually(t, fmt.Sprintf("slot %d at %s", n, to.Addr),
			func() bool { return u.Topology().Slots[n].Addr == to.Addr })
	}

	before := u.Topology()
	move(100)
	after := u.Topology()
	if after.Version <= before.Version {
		t.Errorf("version %d after %d", after.Version, before.Version)
	}
	servers.Eventually(t, "the new topology is told",
		func() bool { return told.Load() == after })
	if !slices.Equal(before.Replicas, after.Replicas) || before.Slots[9000] != after.Slots[9000] {
		t.Error("nodes that stayed the same have new pointers")
	}

	// A planned fail-over.
	old := servers.ByAddr(nodes, u.Topology().Slots[9000].Addr)
	successor := replicaOf(old)
	successor.Promote(t)
	servers.Eventually(t, "the fail-over is seen",
		func() bool { return u.Topology().Slots[9000].Addr == successor.Addr })
	servers.Eventually(t, "the old master is a replica", func() bool {
		return slices.ContainsFunc(u.Topology().Replicas,
			func(n *cluster.Node) bool { return n.Addr == old.Addr && !n.Master })
	})

	servers.Cluster(nodes).DeadAfter("2000")
	// A master that hangs delays nothing: what it is asked may take longer than what is seen of the others.
	hung := successor
	hung.Signal(syscall.SIGSTOP)
	for range 3 {
		move(100, hung)
	}
	servers.Eventually(t, "its replica took over",
		func() bool { return u.Topology().Slots[9000].Addr == old.Addr })
	hung.Signal(syscall.SIGCONT)

	// kill -9 of a master.
	dying := servers.ByAddr(nodes, u.Topology().Slots[16000].Addr)
	successor = replicaOf(dying)
	servers.Eventually(t, "the replica is in sync", func() bool {
		return successor.Info(t, "replication", "master_link_status") == "up"
	})
	dying.Kill()
	witness := alive(successor)
	servers.Eventually(t, "the cluster agreed", func() bool {
		return strings.Contains(successor.Client.Info(t.Context(), "replication").Val(), "role:master") &&
			strings.Contains(witness.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	})
	servers.Eventually(t, "the fail-over is seen",
		func() bool { return u.Topology().Slots[16000].Addr == successor.Addr })

	// All that were named die, one by one, for votes need most masters; what was
	// learnt leads on.
	for _, s := range seeds {
		if s == dying {
			continue
		}
		if s.Info(t, "replication", "role") != "slave" {
			successor := replicaOf(s)
			servers.Eventually(t, "the replica is in sync", func() bool {
				info := successor.Client.Info(t.Context(), "replication").Val()
				return strings.Contains(info, "master_link_status:up")
			})
		}
		s.Kill()
		servers.Eventually(t, "the others took over", func() bool {
			top := u.Topology()
			return top.Served() == slot.Count &&
				!slices.ContainsFunc(top.Masters, func(n *cluster.Node) bool {
					return servers.ByAddr(nodes, n.Addr).Ping(t.Context()).Err() != nil
				})
		})
	}
	move(200)
}

// discovered finds a cluster by one of its replicas, and sees that it stays as it is.
func discovered(t *testing.T, nodes []*servers.Server) {
	u := upstream.Find(t, discovery.Options{Addrs: []string{"127.0.0.1:1", nodes[4].Addr}})
	servers.Eventually(t, "a node has said what it is", // a topology does not wait for that
		func() bool { return u.Topology().Server.Release != "" })
	top := u.Topology()
	if top.Kind != cluster.Cluster || len(top.Masters) != 3 || len(top.Replicas) != 3 ||
		top.Served() != slot.Count {
		t.Fatalf("%v, %d masters, %d replicas, %d slots", top.Kind, len(top.Masters), len(top.Replicas),
			top.Served())
	}
	if is := top.Server; is.Version == "" || is.Release == "" || is.ShardChannels != is.AtLeast(7, 0) {
		t.Errorf("%+v", is)
	}
	if m := top.Slots[0]; m != top.Masters[0] || !m.Master || m.Addr != nodes[0].Addr || len(m.ID) != 40 {
		t.Errorf("slot 0 at %+v", m)
	}
	before := servers.Calls(t, "cluster|slots", nodes...)
	servers.Eventually(t, "it is asked for the topology again and again",
		func() bool { return servers.Calls(t, "cluster|slots", nodes...) >= before+10 })
	if u.Topology() != top {
		t.Error("an unchanged cluster made a new topology")
	}
}

// refreshed moves a slot, which nobody but a hint tells of.
func refreshed(t *testing.T, nodes []*servers.Server) {
	u := upstream.Find(t, discovery.Options{Addrs: servers.Addrs(nodes...), Refresh: time.Hour})
	const n = 16100 // the order of the masters stays
	from, to := servers.ByAddr(nodes, u.Topology().Slots[n].Addr), nodes[0]
	servers.Cluster(nodes).Migrate(t, n, from.Server, to.Server, 0)
	u.Refresh()
	servers.Eventually(t, "the move is seen",
		func() bool { return u.Topology().Slots[n].Addr == to.Addr })
}
