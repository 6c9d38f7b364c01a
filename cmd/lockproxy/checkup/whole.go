package checkup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockproxy/cluster"
	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/internal/slot"
)

// wholeUpstream is the upstream. nodes has each address once, in the order in which they were found.
type wholeUpstream struct {
	topology *cluster.Topology
	nodes    []*checkedNode
}

// newWhole collects the nodes: those of the topology, and those that only the settings name.
func newWhole(v *settings.Values, t *cluster.Topology) *wholeUpstream {
	w := &wholeUpstream{topology: t}
	for _, n := range t.Nodes() {
		w.addNode(&checkedNode{addr: n.Addr})
	}
	for _, addr := range v.Upstream.Addrs {
		// The topology may know it under another address: then tellFacts sees by its run id that it is the
		// same server.
		n := &checkedNode{addr: addr, named: true}
		if t.Kind == cluster.Sentinel {
			n = &checkedNode{addr: addr, part: watcher}
		}
		w.addNode(n)
	}
	return w
}

// addNode adds n, unless there is a node of that address.
func (w *wholeUpstream) addNode(n *checkedNode) {
	if len(w.nodes) < mostNodes &&
		!slices.ContainsFunc(w.nodes, func(other *checkedNode) bool { return other.addr == n.addr }) {
		w.nodes = append(w.nodes, n)
	}
}

// learnNodes adds the nodes of which only other nodes know, and returns them.
func (w *wholeUpstream) learnNodes() []*checkedNode {
	// Nodes that are added here have not been asked, and know nobody yet.
	asked := w.nodes
	for _, n := range asked {
		for _, other := range n.knows {
			w.addNode(other)
		}
	}
	return w.nodes[len(asked):]
}

// tellFacts tells what is known of the upstream and of each node.
func (w *wholeUpstream) tellFacts(v *settings.Values, tell func(Fact)) {
	t := w.topology
	// run ids of the nodes that the topology has
	seen := make(map[string]bool)
	var releases []string
	for _, n := range w.nodes {
		if !n.named && n.part == member && n.err == nil {
			seen[n.server.RunID] = true
			if r := n.release(); !slices.Contains(releases, r) {
				releases = append(releases, r)
			}
		}
	}
	kind := map[cluster.Kind]string{cluster.Single: "one Redis", cluster.Sentinel: "a group with Sentinels",
		cluster.Cluster: "a cluster"}[t.Kind]
	tell(Fact{OK, "upstream", "", fmt.Sprintf("is %s: masters: %d, replicas: %d", kind, len(t.Masters),
		len(t.Replicas)), ""})
	// in the middle of an upgrade, which is no fault if it goes on
	if len(releases) > 1 {
		tell(Fact{Warn, "version", "", "the nodes differ: " + strings.Join(releases, ", "), "finish the " +
			"upgrade"})
	}
	w.tellSlots(tell)
	for _, n := range w.nodes {
		switch {
		case n.named && n.err == nil && seen[n.server.RunID]: // another name of a node
		// It answers, and nothing leads to it: most likely the address is an old one, or one of another
		// installation.
		case n.named && n.err == nil:
			tell(Fact{Warn, "node", n.addr, "is named in upstream, and is not part of it: " +
				n.role() + ", " + n.release(), "leave it away, or let it join"})
		default:
			n.tellFacts(v, tell)
		}
	}
	w.tellFailover(v, tell)
}

// tellSlots tells whether every slot has a master.
func (w *wholeUpstream) tellSlots(tell func(Fact)) {
	t := w.topology
	if t.Kind != cluster.Cluster {
		return
	}
	if served := t.Served(); served < slot.Count {
		tell(Fact{Fail, "slots", "", fmt.Sprintf("%d of %d have no master: %s", slot.Count-served, slot.Count,
			t.SlotsOf(nil)), "start the nodes that had them, or redis-cli --cluster fix"})
		return
	}
	tell(Fact{OK, "slots", "", fmt.Sprintf("all %d have a master", slot.Count), ""})
}

// tellFailover tells what becomes of locks when a master is lost.
func (w *wholeUpstream) tellFailover(v *settings.Values, tell func(Fact)) {
	t, own := w.topology, &v.Proxy.Locks
	following := make(map[string]int)
	for _, n := range t.Replicas {
		following[n.Follows]++
	}
	for _, m := range t.Masters {
		// An error is also that INFO is forbidden, or that the node was not reached.
		connected, err := strconv.Atoi(w.field(m.Addr, "connected_slaves"))
		switch {
		// one Redis without replicas is what somebody has chosen
		case t.Kind != cluster.Single && following[m.Addr] == 0:
			tell(Fact{Warn, "replicas", m.Addr, "has none: what it keeps cannot be reached while it is down",
				"give it a replica"})
		case locksThere(v) && err == nil && own.Sync > connected:
			tell(Fact{Fail, "replicas", m.Addr, fmt.Sprintf("has %d, and lock-sync %d wants more: no lock "+
				"is granted", connected, own.Sync), "start more replicas, or set lock-sync to a lower " +
				"number"})
		}
	}
	// Replication of Redis is asynchronous: a grant that was answered may not have reached the replica.
	if locksThere(v) && len(t.Replicas) > 0 && own.Sync == 0 && own.FailoverGrace == 0 {
		tell(Fact{Warn, "failover", "", "a replica that takes over may lack the last grants, and grant " +
			"them again", "lock-sync 1, or lock-failover-grace, or redlock (docs/locks.md)"})
	}
}

// field is a field of INFO of the node at addr.
func (w *wholeUpstream) field(addr, name string) string {
	for _, n := range w.nodes {
		if n.addr == addr {
			return n.is(name)
		}
	}
	return ""
}

// tellMasters tells what is known of the masters of RedLock. What is wrong with a single one is told of it;
// in the end only the number of those that can vote counts.
func tellMasters(v *settings.Values, masters []*checkedNode, tell func(Fact)) {
	// runIDs has the address of each server that was seen, by its run id.
	voting, runIDs := 0, make(map[string]string)
	for _, n := range masters {
		n.tellFacts(v, tell)
		// Called for each, in order: the second of two addresses of one server is told to be the first.
		unfit, remedy := n.unfit(runIDs)
		switch {
		case n.err != nil:
			continue
		case unfit != "":
			tell(Fact{Fail, "redlock", n.addr, unfit, remedy})
			continue
		case n.silent(v) > 0:
			tell(Fact{Warn, "redlock", n.addr, fmt.Sprintf("does not vote for another %v: it was started "+
				"not long ago, and may have forgotten locks", n.silent(v)), "wait, or appendonly yes and " +
				"appendfsync always there"})
		case n.trip > v.Proxy.Redlock.NodeTimeout:
			tell(Fact{Warn, "redlock", n.addr, fmt.Sprintf("takes longer than redlock-node-timeout, which "+
				"is %v: its votes come too late", v.Proxy.Redlock.NodeTimeout), "raise " +
				"redlock-node-timeout, or use nearer masters"})
		}
		voting++
	}
	switch most := len(masters)/2 + 1; {
	case len(masters) == 0:
	case voting < most:
		tell(Fact{Fail, "redlock", "", fmt.Sprintf("%d of %d masters can vote, and %d are needed: no lock "+
			"is granted", voting, len(masters), most), "see above"})
	default:
		tell(Fact{OK, "redlock", "", fmt.Sprintf("%d of %d masters can vote, and %d are needed", voting,
			len(masters), most), ""})
	}
}

// unfit is why the server is no independent master, "" if it is one. runIDs has those of the others, by run
// id.
func (n *checkedNode) unfit(runIDs map[string]string) (why, remedy string) {
	const independent = "name masters that know nothing of each other"
	id := n.server.RunID
	other := runIDs[id]
	runIDs[id] = n.addr
	switch {
	case n.err != nil:
	case id == "":
		return "does not say its run_id, so nobody could know when it has restarted", "allow its user +info"
	case other != "":
		return "is the same server as " + other, independent
	case n.server.Mode == "cluster", n.server.Mode == "sentinel":
		return "runs in " + n.server.Mode + " mode", independent
	case n.replica:
		return "is a " + n.role(), independent
	}
	return "", ""
}

// silent is how long a master of RedLock that was started not long ago does not vote.
func (n *checkedNode) silent(v *settings.Values) time.Duration {
	up, err := strconv.Atoi(n.is("uptime_in_seconds"))
	// A master that writes each grant to its disk has forgotten nothing.
	if n.durable() || err != nil {
		return 0
	}
	return max(v.LongestRedlockLease()-time.Duration(up)*time.Second, 0).Round(time.Second)
}
