package clusterview

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

// CLUSTER as a node of a cluster of proxies would answer it, in cluster mode. Otherwise it answers as a Redis
// without a cluster. It never shows the nodes of the upstream.

// inCluster makes the function of a subcommand that runs only in cluster mode. The mode is asked for at each
// call, since the rows are made before any setting is known.
func inCluster(run func(c *commands.Call)) func(c *commands.Call) {
	return func(c *commands.Call) {
		if !c.Server.ClusterMode() {
			c.Reply(commands.ErrNoCluster)
			return
		}
		run(c)
	}
}

// clusterChange refuses what changes a cluster.
func clusterChange(c *commands.Call) {
	c.Reply(commands.Refusal(c.Command.Name,
		": it would change the cluster behind; connect to a node of that for it"))
}

// clusterSlots is CLUSTER SLOTS: of each range its first and last slot and its node, which
// is endpoint, port, id, and what else is known of it. What else is known of a node, a map of its host names,
// is empty: the endpoint says all.
func clusterSlots(c *commands.Call) {
	peers := peers(c)
	out := redcon.AppendArray(nil, len(peers))
	for _, p := range peers {
		out = resp.AppendInts(redcon.AppendArray(out, 3), p.first, p.last)
		out = redcon.AppendArray(out, 4)
		out = resp.AppendInts(resp.AppendBulks(out, p.host), p.port)
		out = resp.AppendBulks(out, p.id)
		out = resp.AppendMap(out, c.Client.Proto, 0)
	}
	c.Reply(out)
}

// clusterShards is CLUSTER SHARDS: a map a shard. Since Valkey 9.1 a shard has an id. All proxies are shown
// as healthy masters: none knows how the others are.
func clusterShards(c *commands.Call) {
	peers, proto, newer := peers(c), c.Client.Proto, c.Server.Upstream().IsValkey(9, 1)
	// Redis shows those of both that it has, and clients with TLS look for tls-port.
	port := "port"
	if c.Server.Secure() {
		port = "tls-port"
	}
	out := redcon.AppendArray(nil, len(peers))
	for _, p := range peers {
		node := resp.AppendBulks(nil, "id", p.id)
		node = resp.AppendNumber(node, port, p.port)
		node = resp.AppendBulks(node, "ip", p.host, "endpoint", p.host)
		if p.hasHostName() {
			node = resp.AppendBulks(node, "hostname", p.host)
		}
		node = resp.AppendBulks(node, "role", "master")
		node = resp.AppendNumber(node, "replication-offset", 0)
		node = resp.AppendBulks(node, "health", "online")
		shard := resp.AppendBulks(nil, "slots")
		shard = resp.AppendInts(redcon.AppendArray(shard, 2), p.first, p.last)
		shard = redcon.AppendArray(resp.AppendBulks(shard, "nodes"), 1)
		shard = resp.AppendPairs(shard, proto, node)
		if newer {
			shard = resp.AppendBulks(shard, "id", p.id)
		}
		out = resp.AppendPairs(out, proto, shard)
	}
	c.Reply(out)
}

// hasHostName says that the host is a name, not an address. Servers show a hostname only where one is
// configured.
func (p *peer) hasHostName() bool { return p.host != "" && net.ParseIP(p.host) == nil }

// clusterNodes is CLUSTER NODES: a line a node. The words of a line are those of Redis: id, address, flags,
// master, ping sent, pong received in ms, epoch, link, slots. Others count as having answered just now. The
// epoch is a number of its own for each, in their order.
func clusterNodes(c *commands.Call) {
	var text strings.Builder
	for i, p := range peers(c) {
		flags, pong := "master", time.Now().UnixMilli()
		if p.self {
			flags, pong = "myself,master", 0
		}
		fmt.Fprintf(&text, "%s %s:%d@%d %s - 0 %d %d connected %d-%d\n", p.id, p.host, p.port, p.bus(), flags,
			pong, i+1, p.first, p.last)
	}
	c.Reply(resp.AppendVerbatim(nil, c.Client.Proto, text.String()))
}

// bus is the conventional port of the cluster bus; nobody listens there. Redis adds 10000 to the port of
// clients; where that is no port, 0 says that it is not known.
func (p *peer) bus() int {
	if p.port == 0 || p.port > 55535 {
		return 0
	}
	return p.port + 10000
}

// clusterInfo is CLUSTER INFO. It tells how many slots the upstream serves. A cluster of proxies is as well
// as its upstream: the state is fail while slots have no master, whichever proxies are there.
func clusterInfo(c *commands.Call) {
	peers, served := len(peers(c)), c.Server.Served()
	state := "ok"
	if served < slot.Count {
		state = "fail"
	}
	failing, bytes := "", ""
	if c.Server.Upstream().IsValkey(9, 1) {
		failing, bytes = failingNodes, statsBytes
	}
	c.Reply(resp.AppendVerbatim(nil, c.Client.Proto, fmt.Sprintf(
		"cluster_state:%s\r\ncluster_slots_assigned:%d\r\ncluster_slots_ok:%d\r\ncluster_slots_pfail:0\r\n"+
			"cluster_slots_fail:%d\r\n%s"+
			"cluster_known_nodes:%d\r\ncluster_size:%d\r\ncluster_current_epoch:%d\r\ncluster_my_epoch:1\r\n"+
			"cluster_stats_messages_sent:0\r\ncluster_stats_messages_received:0\r\n%s"+
			"total_cluster_links_buffer_limit_exceeded:0\r\n",
		state, slot.Count, served, slot.Count-served, failing, peers, peers, peers, bytes)))
}

// Lines of CLUSTER INFO since Valkey 9.1.
const (
	failingNodes = "cluster_nodes_pfail:0\r\ncluster_nodes_fail:0\r\n" +
		"cluster_voting_nodes_pfail:0\r\ncluster_voting_nodes_fail:0\r\n"
	statsBytes = "cluster_stats_bytes_sent:0\r\ncluster_stats_bytes_received:0\r\n" +
		"cluster_stats_pubsub_bytes_sent:0\r\ncluster_stats_pubsub_bytes_received:0\r\n" +
		"cluster_stats_module_bytes_sent:0\r\ncluster_stats_module_bytes_received:0\r\n"
)

// clusterMyID is CLUSTER MYID.
func clusterMyID(c *commands.Call) { c.Reply(redcon.AppendBulkString(nil, self(peers(c)).id)) }

// clusterMyShardID is CLUSTER MYSHARDID, which Redis has since 7.2. A shard is one node.
func clusterMyShardID(c *commands.Call) {
	if !c.Server.Upstream().AtLeast(7, 2) {
		commands.NoSubcommand(c)
		return
	}
	inCluster(clusterMyID)(c)
}

// clusterKeySlot is CLUSTER KEYSLOT key, which Valkey answers without a cluster too.
func clusterKeySlot(c *commands.Call) {
	if !c.Server.ClusterMode() && !c.Server.Upstream().IsValkey(9, 0) {
		c.Reply(commands.ErrNoCluster)
		return
	}
	key := c.Args[2]
	c.ReplyAbout(key, func() []byte { return redcon.AppendInt(nil, int64(slot.Of(key))) })
}

// clusterInSlot is COUNTKEYSINSLOT slot and GETKEYSINSLOT slot count, which the slot's master answers. It
// forwards the command as it stands: the keys are those of the upstream, whatever proxy has the slot in
// CLUSTER SLOTS.
func clusterInSlot(c *commands.Call) {
	if !c.Server.Clustered() {
		c.Reply(commands.Refusal(c.Command.Name,
			" in front of one Redis, which does not know its keys by slot"))
		return
	}
	n, ok := resp.Integer(c.Args[2])
	if !ok || n < 0 || n >= slot.Count {
		n = commands.AnySlot // the node will say what is wrong
	}
	c.Forward(int(n))
}

// clusterReplicas is CLUSTER REPLICAS id: proxies have none.
func clusterReplicas(c *commands.Call) { ofPeer(c, resp.EmptyArray) }

// clusterFailures is CLUSTER COUNT-FAILURE-REPORTS id. Nobody reports any.
func clusterFailures(c *commands.Call) { ofPeer(c, redcon.AppendInt(nil, 0)) }

// ofPeer answers a question about the node whose id is the third argument. reply is for an id that one of the
// peers has.
func ofPeer(c *commands.Call, reply []byte) {
	if !slices.ContainsFunc(peers(c), func(p peer) bool { return p.id == string(c.Args[2]) }) {
		reply = resp.ErrorLine("ERR Unknown node %s", c.Args[2])
	}
	c.Reply(reply)
}

// clusterLinks is CLUSTER LINKS and GETSLOTMIGRATIONS: proxies have neither.
func clusterLinks(c *commands.Call) { c.Reply(resp.EmptyArray) }

// clusterHelp is CLUSTER HELP, and tells what the upstream tells. It may list subcommands that are refused
// here.
func clusterHelp(c *commands.Call) { c.Forward(commands.AnySlot) }

// clusterSlotStats is CLUSTER SLOT-STATS, of Valkey since 8.0 and Redis since 8.2. Slots of several masters
// are not merged.
func clusterSlotStats(c *commands.Call) {
	switch up := c.Server.Upstream(); {
	case !up.IsValkey(8, 0) && !up.AtLeast(8, 2):
		commands.NoSubcommand(c)
	case !c.Server.ClusterMode():
		c.Reply(commands.ErrNoCluster)
	case !c.Server.Clustered():
		c.Reply(commands.Refusal(c.Command.Name, " in front of one Redis, which does not count by slot"))
	default:
		commands.OneNode(c)
	}
}

// sayOK answers commands that ask for what is the case anyhow.
func sayOK(c *commands.Call) { c.Reply(resp.OK) }
