package rig

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// longNodeTimeout is longer than any test.
const longNodeTimeout = "3600000"

// Slots is how many slots a cluster has.
const Slots = 16384

// Cluster is a Redis Cluster. The first of its nodes were made masters, in
// the order of their slots; replica i of master m is node masters*(i+1)+m.
type Cluster struct {
	Nodes   []*Server
	Masters int
}

// StartCluster starts a cluster of masters, each with that many replicas. The steps of redis-cli --cluster
// create, but all nodes at once. It fails over by itself after DeadAfter, or if args have a node time-out.
// One of three masters with nothing special comes from a pool: it is empty and the test's own, but its
// servers may be older than the test.
func StartCluster(l Life, masters, replicas int, args ...string) *Cluster {
	l.Helper()
	if masters == 3 && replicas == 0 && len(args) == 0 {
		return lendCluster(l)
	}
	return StartClusterWith(l, masters, replicas, func(int) []string { return nil }, args...)
}

// StartClusterWith starts one whose nodes have arguments of their own besides: those of each, by its index.
func StartClusterWith(l Life, masters, replicas int, each func(i int) []string, args ...string) *Cluster {
	l.Helper()
	return formCluster(l, masters, replicas, args, func(i int) *Server {
		return newClusterNode(l, slices.Concat(args, each(i))...)
	})
}

// Join adds an empty master to the cluster, which every node knows then.
func (c *Cluster) Join(l Life, args ...string) *Server {
	l.Helper()
	n := newClusterNode(l, args...)
	n.launch(l)
	n.ready(l)
	c.Nodes = append(c.Nodes, n)
	c.Whole(l, len(c.Nodes))
	return n
}

// Leave has every node forget one that serves no slot, and ends it.
func (c *Cluster) Leave(l Life, gone *Server) {
	l.Helper()
	id := gone.Do(l, "CLUSTER", "MYID").Text
	c.Nodes = slices.DeleteFunc(c.Nodes, func(n *Server) bool { return n == gone })
	for _, n := range c.Nodes {
		n.Do(l, "CLUSTER", "FORGET", id)
	}
	gone.Signal(syscall.SIGTERM)
	gone.Wait(Patience)
}

// StartLinkedCluster starts a cluster whose nodes announce links in front of them
// (server.link), so that whoever follows its topology passes these.
func StartLinkedCluster(l Life, masters, replicas int, args ...string) *Cluster {
	l.Helper()
	return formCluster(l, masters, replicas, args, func(int) *Server {
		s := newClusterNode(l, args...)
		s.Link = StartLink(l, s.Addr)
		s.With("--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", strconv.Itoa(s.Link.port()),
			"--cluster-announce-bus-port", strconv.Itoa(s.Port+10000))
		return s
	})
}

// newClusterNode is one that takes over as a replica however late the others vote for it.
func newClusterNode(l Life, args ...string) *Server {
	l.Helper()
	return newRedis(l, append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000",
		"--cluster-config-file", "nodes.conf", "--cluster-replica-validity-factor", "0"}, args...)...)
}

// meet has the server join the cluster of another one.
func (s *Server) meet(l Life, other *Server) {
	l.Helper()
	_, port := other.front()
	s.Do(l, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(port), strconv.Itoa(other.Port+10000))
}

func formCluster(l Life, masters, replicas int, args []string, node func(i int) *Server) *Cluster {
	l.Helper()
	c := &Cluster{Masters: masters}
	for i := range masters * (1 + replicas) {
		n := node(i)
		n.launch(l)
		c.Nodes = append(c.Nodes, n)
	}
	for i, n := range c.Nodes {
		n.ready(l)
		n.Do(l, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if i < masters {
			slots := []string{"CLUSTER", "ADDSLOTS"} // ADDSLOTSRANGE came with Redis 7.0
			for slot := Slots * i / masters; slot < Slots*(i+1)/masters; slot++ {
				slots = append(slots, strconv.Itoa(slot))
			}
			n.Do(l, slots...)
		}
	}
	c.Whole(l, len(c.Nodes))
	for i, n := range c.Nodes[masters:] {
		n.Do(l, "CLUSTER", "REPLICATE", c.Nodes[i%masters].Do(l, "CLUSTER", "MYID").Text)
	}
	for _, n := range c.Nodes[masters:] {
		Eventually(l, Patience, "replica in sync", func() bool {
			return n.Info(l, "replication", "master_link_status") == "up"
		})
	}
	c.Settled(l, masters*replicas)
	if !slices.Contains(args, "--cluster-node-timeout") {
		c.DeadAfter(longNodeTimeout)
	}
	return c
}

// DeadAfter has the nodes take for dead who does not answer for so many ms: on a busy machine that may be
// seconds. A long time comes behind the forming, of which it would make a slow one.
func (c *Cluster) DeadAfter(ms string) {
	for _, n := range c.Nodes {
		Ask(n.Addr, "CONFIG", "SET", "cluster-node-timeout", ms) // not all have CONFIG, or live
		n.With("--cluster-node-timeout", ms)
	}
}

// Whole waits until every node sees known nodes, which meet until they do, and all slots served.
func (c *Cluster) Whole(l Life, known int) {
	l.Helper()
	var met time.Time
	for _, n := range c.Nodes {
		Eventually(l, 2*Patience, fmt.Sprintf("cluster whole, as %s sees it", n.Addr), func() bool {
			text := n.Do(l, "CLUSTER", "INFO").Text
			all := InfoField(text, "cluster_known_nodes") == strconv.Itoa(known)
			if !all && time.Since(met) > 5*time.Second { // they give up after two
				met = time.Now()
				for _, other := range c.Nodes[1:] {
					other.meet(l, c.Nodes[0])
				}
			}
			return all && InfoField(text, "cluster_state") == "ok"
		})
	}
}

// Settled waits until every node knows that many replicas.
func (c *Cluster) Settled(l Life, replicas int) {
	l.Helper()
	for _, n := range c.Nodes {
		Eventually(l, 2*Patience, fmt.Sprintf("replicas known to %s", n.Addr), func() bool {
			return strings.Count(n.Do(l, "CLUSTER", "NODES").Text, "slave") == replicas
		})
	}
}

// Agreed waits until all nodes have the same epoch: the next one to take a slot takes a higher epoch then, so
// nobody who had the slot before gets it back.
func (c *Cluster) Agreed(l Life) {
	l.Helper()
	Eventually(l, 2*Patience, "the same epoch at all nodes", func() bool {
		epochs := map[string]bool{}
		for _, n := range c.Nodes {
			epochs[InfoField(n.Do(l, "CLUSTER", "INFO").Text, "cluster_current_epoch")] = true
		}
		return len(epochs) == 1
	})
}

// Addrs are the nodes as --upstream takes them.
func (c *Cluster) Addrs() string { return Addrs(c.Nodes) }

// SlotOf is the slot of a key, as the cluster itself says.
func (c *Cluster) SlotOf(l Life, key string) int {
	l.Helper()
	return int(c.Nodes[0].Do(l, "CLUSTER", "KEYSLOT", key).Int())
}

// MasterOf is the node that serves a key now.
func (c *Cluster) MasterOf(l Life, key string) *Server {
	l.Helper()
	slot := int64(c.SlotOf(l, key))
	for _, n := range c.Nodes {
		if n.Ended() {
			continue
		}
		for _, r := range n.Do(l, "CLUSTER", "SLOTS").Elems {
			if r.Elems[0].Int() <= slot && slot <= r.Elems[1].Int() {
				return c.at(int(r.Elems[2].Elems[1].Int()))
			}
		}
	}
	l.Fatalf("nobody serves the slot of %q", key)
	return nil
}

// at is the node that is reached at a port.
func (c *Cluster) at(port int) *Server {
	for _, n := range c.Nodes {
		if _, front := n.front(); front == port {
			return n
		}
	}
	return nil
}

// ReplicasOf are the live replicas of a node.
func (c *Cluster) ReplicasOf(l Life, master *Server) []*Server {
	l.Helper()
	_, port := master.front()
	var found []*Server
	for _, n := range c.Nodes {
		if !n.Ended() && n.Info(l, "replication", "master_port") == strconv.Itoa(port) {
			found = append(found, n)
		}
	}
	return found
}

// Promote has a replica take the place of its master with CLUSTER FAILOVER. It asks again when an attempt is
// over: one may come too early, get too few votes, or find a machine that has no time for it.
func (s *Server) Promote(l Life, how ...string) {
	l.Helper()
	var asked time.Time
	Eventually(l, 2*Patience, "the replica "+s.Addr+" is master", func() bool {
		if time.Since(asked) > 6*time.Second { // Redis gives up after five
			asked = time.Now()
			Ask(s.Addr, append([]string{"CLUSTER", "FAILOVER"}, how...)...)
		}
		return s.Info(l, "replication", "role") == "master"
	})
}

// Each runs a command on every live master.
func (c *Cluster) Each(l Life, args ...string) {
	l.Helper()
	for _, n := range c.Nodes {
		if !n.Ended() && n.Info(l, "replication", "role") == "master" {
			n.Do(l, args...)
		}
	}
}

// Migrate moves a slot with all its keys to another master, key by key, with a
// pause after each step.
func (c *Cluster) Migrate(l Life, slot int, from, to *Server, pause time.Duration) {
	l.Helper()
	s := strconv.Itoa(slot)
	fromID, toID := from.Do(l, "CLUSTER", "MYID").Text, to.Do(l, "CLUSTER", "MYID").Text
	to.Do(l, "CLUSTER", "SETSLOT", s, "IMPORTING", fromID)
	from.Do(l, "CLUSTER", "SETSLOT", s, "MIGRATING", toID)
	for {
		time.Sleep(pause)
		keys := from.Do(l, "CLUSTER", "GETKEYSINSLOT", s, "5").Strings()
		if len(keys) == 0 {
			break
		}
		from.Do(l, append([]string{"MIGRATE", "127.0.0.1", strconv.Itoa(to.Port), "", "0", "300000", "KEYS"},
			keys...)...)
	}
	to.Do(l, "CLUSTER", "SETSLOT", s, "NODE", toID)
	from.Do(l, "CLUSTER", "SETSLOT", s, "NODE", toID)
}
