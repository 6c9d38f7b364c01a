//go:build !quick

package cluster

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockproxy/internal/slot"
)

// One cluster, one trouble after the other; nobody hints, so the timer alone
// must find out.
func TestWatchCluster(t *testing.T) {
	nodes := startCluster(t, 1)
	seeds := []*server{nodes[0], nodes[1]}
	u := discovered(t, Options{Addrs: addrs(seeds...)})
	var told atomic.Pointer[Topology]
	u.OnChange(func(top *Topology) { told.Store(top) })
	alive := func(skip ...*server) *server {
		for _, s := range nodes {
			if !slices.Contains(skip, s) && s.Ping(t.Context()).Err() == nil {
				return s
			}
		}
		t.Fatal("no node left")
		return nil
	}
	replicaOf := func(m *server) *server {
		id := m.must(t, "CLUSTER", "MYID").(string)
		for _, s := range nodes {
			if info, _ := s.ClusterNodes(t.Context()).Result(); strings.Contains(info, "myself,slave "+id) {
				return s
			}
		}
		t.Fatalf("%s has no replica", m.addr)
		return nil
	}
	// move gives slot n to another master than the one that has it, and not to skip.
	move := func(n int, limit time.Duration, skip ...*server) {
		t.Helper()
		from := byAddr(nodes, u.Topology().Slots[n].Addr)
		var to *server
		for _, m := range u.Topology().Masters {
			if s := byAddr(nodes, m.Addr); s != from && !slices.Contains(skip, s) {
				to = s
			}
		}
		moveSlot(t, n, from, to)
		began := time.Now()
		eventually(t, limit, fmt.Sprintf("slot %d at %s", n, to.addr), func() bool { return u.Topology().Slots[n].Addr == to.addr })
		t.Logf("slot move seen after %v", time.Since(began).Round(time.Millisecond))
	}

	before := u.Topology()
	move(100, soon)
	after := u.Topology()
	if after.Version <= before.Version {
		t.Errorf("version %d after %d", after.Version, before.Version)
	}
	eventually(t, soon, "the new topology is told", func() bool { return told.Load() == after })
	if !slices.Equal(before.Replicas, after.Replicas) || before.Slots[9000] != after.Slots[9000] {
		t.Error("nodes that stayed the same have new pointers")
	}

	// A planned fail-over.
	old := byAddr(nodes, u.Topology().Slots[9000].Addr)
	heir := replicaOf(old)
	heir.must(t, "CLUSTER", "FAILOVER")
	eventually(t, soon, "the cluster agreed", func() bool {
		return strings.Contains(heir.Info(t.Context(), "replication").Val(), "role:master")
	})
	took := eventually(t, soon, "the fail-over is seen", func() bool { return u.Topology().Slots[9000].Addr == heir.addr })
	t.Logf("planned fail-over seen after %v", took.Round(time.Millisecond))
	eventually(t, soon, "the old master is a replica", func() bool {
		return slices.ContainsFunc(u.Topology().Replicas, func(n *Node) bool { return n.Addr == old.addr && !n.Master })
	})

	// A master that hangs delays nothing: a refresh each second, its own time, and a noisy machine.
	hung := heir
	hung.signal(t, syscall.SIGSTOP)
	for range 3 {
		move(100, 2*time.Second, hung)
	}
	eventually(t, 20*time.Second, "its replica took over", func() bool { return u.Topology().Slots[9000].Addr == old.addr })
	hung.signal(t, syscall.SIGCONT)

	// kill -9 of a master.
	dying := byAddr(nodes, u.Topology().Slots[16000].Addr)
	heir = replicaOf(dying)
	eventually(t, 10*time.Second, "the replica is in sync", func() bool {
		return strings.Contains(heir.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	dying.kill()
	witness := alive(heir)
	eventually(t, 20*time.Second, "the cluster agreed", func() bool {
		return strings.Contains(heir.Info(t.Context(), "replication").Val(), "role:master") &&
			strings.Contains(witness.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	})
	took = eventually(t, soon, "the fail-over is seen", func() bool { return u.Topology().Slots[16000].Addr == heir.addr })
	t.Logf("kill -9 seen %v after the cluster agreed", took.Round(time.Millisecond))

	// All that were named die, one by one, for votes need most masters; what was
	// learnt leads on.
	for _, s := range seeds {
		if s == dying {
			continue
		}
		if replica := s.Info(t.Context(), "replication").Val(); !strings.Contains(replica, "role:slave") {
			heir := replicaOf(s)
			eventually(t, 10*time.Second, "the replica is in sync", func() bool {
				return strings.Contains(heir.Info(t.Context(), "replication").Val(), "master_link_status:up")
			})
		}
		s.kill()
		eventually(t, 20*time.Second, "the others took over", func() bool {
			top := u.Topology()
			return top.Served() == slot.Count && !slices.ContainsFunc(top.Masters, func(n *Node) bool {
				return byAddr(nodes, n.Addr).Ping(t.Context()).Err() != nil
			})
		})
	}
	move(200, soon)
}

// Hints come in heaps; they make few refreshes, and the first comes at once.
func TestRefreshIsLimited(t *testing.T) {
	s := startRedis(t)
	u := discovered(t, Options{Addrs: addrs(s), Refresh: time.Hour})
	questions := 0 // of this test
	asked := func() int {
		questions++
		for line := range strings.Lines(s.Info(t.Context(), "commandstats").Val()) {
			var calls int
			if _, err := fmt.Sscanf(line, "cmdstat_info:calls=%d,", &calls); err == nil {
				return calls - questions
			}
		}
		return 0
	}
	before, began := asked(), time.Now()
	for time.Since(began) < 500*time.Millisecond || asked()-before < 4 {
		if time.Since(began) > soon {
			t.Fatal("hints make no refreshes")
		}
		u.Refresh()
		time.Sleep(time.Millisecond)
	}
	// Two INFO a refresh, at most one refresh in 50 ms.
	if n, took := (asked()-before)/2, time.Since(began); n > 2+int(took/(50*time.Millisecond)) {
		t.Errorf("%d refreshes in %v", n, took)
	}
}

func TestRefreshHint(t *testing.T) {
	nodes := startCluster(t, 0)
	u := discovered(t, Options{Addrs: addrs(nodes...), Refresh: time.Hour})
	from, to := byAddr(nodes, u.Topology().Slots[5].Addr), nodes[2]
	moveSlot(t, 5, from, to)
	u.Refresh()
	took := eventually(t, soon, "the move is seen", func() bool { return u.Topology().Slots[5].Addr == to.addr })
	t.Logf("seen after %v", took)
}
