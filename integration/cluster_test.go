package integration

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const slots = 16384

// redisCluster is a Redis Cluster. The first of its nodes were made masters, in
// the order of their slots; replica i of master m is node masters*(i+1)+m.
type redisCluster struct {
	nodes   []*server
	masters int
}

// startCluster starts a cluster of masters, each with that many replicas. The
// steps of redis-cli --cluster create, but all nodes at once.
func startCluster(l life, masters, replicas int, args ...string) *redisCluster {
	l.Helper()
	return formCluster(l, masters, replicas, newClusterNode, args...)
}

// startLinkedCluster starts a cluster whose nodes announce links in front of them
// (server.link), so that whoever follows its topology passes these.
func startLinkedCluster(l life, masters, replicas int, args ...string) *redisCluster {
	l.Helper()
	return formCluster(l, masters, replicas, func(l life, args ...string) *server {
		s := newClusterNode(l, args...)
		s.link = startLink(l, s.addr)
		s.args = append(s.args, "--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", strconv.Itoa(s.link.port()),
			"--cluster-announce-bus-port", strconv.Itoa(s.port+10000))
		return s
	}, args...)
}

func newClusterNode(l life, args ...string) *server {
	l.Helper()
	return newRedis(l, append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-config-file", "nodes.conf"}, args...)...)
}

func formCluster(l life, masters, replicas int, node func(l life, args ...string) *server, args ...string) *redisCluster {
	l.Helper()
	c := &redisCluster{masters: masters}
	for range masters * (1 + replicas) {
		n := node(l, args...)
		n.launch(l)
		c.nodes = append(c.nodes, n)
	}
	for i, n := range c.nodes {
		n.ready(l)
		n.do(l, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if i < masters {
			n.do(l, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(slots*i/masters), strconv.Itoa(slots*(i+1)/masters-1))
		}
	}
	for _, n := range c.nodes[1:] {
		_, port := c.nodes[0].front()
		n.do(l, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(port), strconv.Itoa(c.nodes[0].port+10000))
	}
	c.whole(l, len(c.nodes))
	for i, n := range c.nodes[masters:] {
		n.do(l, "CLUSTER", "REPLICATE", c.nodes[i%masters].do(l, "CLUSTER", "MYID").text)
	}
	for _, n := range c.nodes[masters:] {
		eventually(l, patience, "replica in sync", func() bool {
			return n.info(l, "replication", "master_link_status") == "up"
		})
	}
	if replicas > 0 {
		c.settled(l, masters*replicas)
	}
	return c
}

// whole waits until every node sees known nodes and all slots served.
func (c *redisCluster) whole(l life, known int) {
	l.Helper()
	for _, n := range c.nodes {
		eventually(l, 2*patience, fmt.Sprintf("cluster whole, as %s sees it", n.addr), func() bool {
			text := n.do(l, "CLUSTER", "INFO").text
			return infoField(text, "cluster_state") == "ok" && infoField(text, "cluster_known_nodes") == strconv.Itoa(known)
		})
	}
}

// settled waits until every node knows that many replicas.
func (c *redisCluster) settled(l life, replicas int) {
	l.Helper()
	for _, n := range c.nodes {
		eventually(l, 2*patience, fmt.Sprintf("replicas known to %s", n.addr), func() bool {
			return strings.Count(n.do(l, "CLUSTER", "NODES").text, "slave") == replicas
		})
	}
}

// addrs are the nodes as --upstream takes them.
func (c *redisCluster) addrs() string {
	var addrs []string
	for _, n := range c.nodes {
		addr, _ := n.front()
		addrs = append(addrs, addr)
	}
	return strings.Join(addrs, ",")
}

// slotOf is the slot of a key, as the cluster itself says.
func (c *redisCluster) slotOf(l life, key string) int {
	l.Helper()
	return int(c.nodes[0].do(l, "CLUSTER", "KEYSLOT", key).int())
}

// masterOf is the node that serves a key now.
func (c *redisCluster) masterOf(l life, key string) *server {
	l.Helper()
	slot := int64(c.slotOf(l, key))
	for _, n := range c.nodes {
		if n.ended() {
			continue
		}
		for _, r := range n.do(l, "CLUSTER", "SLOTS").elems {
			if r.elems[0].int() <= slot && slot <= r.elems[1].int() {
				return c.at(int(r.elems[2].elems[1].int()))
			}
		}
	}
	l.Fatalf("nobody serves the slot of %q", key)
	return nil
}

// at is the node that is reached at a port.
func (c *redisCluster) at(port int) *server {
	for _, n := range c.nodes {
		if _, front := n.front(); front == port {
			return n
		}
	}
	return nil
}

// replicasOf are the live replicas of a node.
func (c *redisCluster) replicasOf(l life, master *server) []*server {
	l.Helper()
	_, port := master.front()
	var found []*server
	for _, n := range c.nodes {
		if !n.ended() && n.info(l, "replication", "master_port") == strconv.Itoa(port) {
			found = append(found, n)
		}
	}
	return found
}

// each runs a command on every live master.
func (c *redisCluster) each(l life, args ...string) {
	l.Helper()
	for _, n := range c.nodes {
		if !n.ended() && n.info(l, "replication", "role") == "master" {
			n.do(l, args...)
		}
	}
}

// migrate moves a slot with all its keys to another master, key by key, with a
// pause after each step.
func (c *redisCluster) migrate(l life, slot int, from, to *server, pause time.Duration) {
	l.Helper()
	s := strconv.Itoa(slot)
	fromID, toID := from.do(l, "CLUSTER", "MYID").text, to.do(l, "CLUSTER", "MYID").text
	to.do(l, "CLUSTER", "SETSLOT", s, "IMPORTING", fromID)
	from.do(l, "CLUSTER", "SETSLOT", s, "MIGRATING", toID)
	for {
		time.Sleep(pause)
		keys := from.do(l, "CLUSTER", "GETKEYSINSLOT", s, "5").strings()
		if len(keys) == 0 {
			break
		}
		from.do(l, append([]string{"MIGRATE", "127.0.0.1", strconv.Itoa(to.port), "", "0", "5000", "KEYS"}, keys...)...)
	}
	to.do(l, "CLUSTER", "SETSLOT", s, "NODE", toID)
	from.do(l, "CLUSTER", "SETSLOT", s, "NODE", toID)
}
