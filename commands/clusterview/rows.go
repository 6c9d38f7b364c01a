// Package clusterview has CLUSTER as a node of a cluster of proxies would answer it (cluster-mode). So a
// client library for Redis Cluster can talk to several proxies, and never hears of the nodes behind them.
//
//	CLUSTER SLOTS --> inCluster(clusterSlots) --> peers --> 0-8191      proxy 1
//	                       |                                8192-16383  proxy 2
//	                       +-- cluster-mode is off: as a Redis without a cluster answers
//
// The peers are the proxies that the setting cluster-announce lists, or the proxy alone. Each is shown with
// an even share of the slots but serves all of them, so it does not matter which one a client asks. Commands
// that would change a cluster are refused (clusterChange). Questions about the keys of a slot go to the node
// that has the slot (clusterInSlot), and CLUSTER INFO tells how many slots are served.
//
// Begin with peers (peers.go), then clusterSlots (cluster.go).
package clusterview

import "lockproxy/commands"

// Rows are the rules for CLUSTER and what belongs to it.
var Rows = []commands.Row{
	{Name: "asking", Arity: 1, Run: inCluster(sayOK)},
	{Name: "cluster", Arity: -2, Run: commands.NoSubcommand},
	{Name: "cluster|info", Arity: 2, Run: inCluster(clusterInfo)},
	{Name: "cluster|nodes", Arity: 2, Run: inCluster(clusterNodes)},
	{Name: "cluster|slots", Arity: 2, Run: inCluster(clusterSlots)},
	{Name: "cluster|shards", Arity: 2, Run: inCluster(clusterShards)},
	{Name: "cluster|links", Arity: 2, Run: inCluster(clusterLinks)},
	{Name: "cluster|myid", Arity: 2, Run: inCluster(clusterMyID)},
	{Name: "cluster|myshardid", Arity: -2, Run: clusterMyShardID},
	{Name: "cluster|keyslot", Arity: 3, Flags: commands.Bulky, Run: clusterKeySlot},
	{Name: "cluster|countkeysinslot", Arity: 3, Flags: commands.ReadOnly, Run: inCluster(clusterInSlot)},
	{Name: "cluster|getkeysinslot", Arity: 4, Flags: commands.ReadOnly, Run: inCluster(clusterInSlot)},
	{Name: "cluster|replicas", Arity: 3, Run: inCluster(clusterReplicas)},
	{Name: "cluster|slaves", Arity: 3, Run: inCluster(clusterReplicas)},
	{Name: "cluster|count-failure-reports", Arity: 3, Run: inCluster(clusterFailures)},
	{Name: "cluster|help", Arity: 2, Run: inCluster(clusterHelp)},
	{Name: "cluster|addslots", Arity: -3, Run: inCluster(clusterChange)},
	{Name: "cluster|addslotsrange", Arity: -4, Run: inCluster(clusterChange)},
	{Name: "cluster|bumpepoch", Arity: 2, Run: inCluster(clusterChange)},
	{Name: "cluster|delslots", Arity: -3, Run: inCluster(clusterChange)},
	{Name: "cluster|delslotsrange", Arity: -4, Run: inCluster(clusterChange)},
	{Name: "cluster|failover", Arity: -2, Run: inCluster(clusterChange)},
	{Name: "cluster|flushslots", Arity: 2, Run: inCluster(clusterChange)},
	{Name: "cluster|forget", Arity: 3, Run: inCluster(clusterChange)},
	{Name: "cluster|meet", Arity: -4, Run: inCluster(clusterChange)},
	{Name: "cluster|replicate", Arity: 3, Run: inCluster(clusterChange)},
	{Name: "cluster|reset", Arity: -2, Run: inCluster(clusterChange)},
	{Name: "cluster|saveconfig", Arity: 2, Run: inCluster(clusterChange)},
	{Name: "cluster|set-config-epoch", Arity: 3, Run: inCluster(clusterChange)},
	{Name: "cluster|setslot", Arity: -4, Run: inCluster(clusterChange)},
	{Name: "cluster|slot-stats", Arity: -4, MaxArgs: commands.MaxOptions, Run: clusterSlotStats,
		Flags: commands.ReadOnly},
	{Name: "cluster|migrateslots", Arity: -4, Run: commands.SinceValkey(9, 0, inCluster(clusterChange))},
	{Name: "cluster|cancelslotmigrations", Arity: -2,
		Run: commands.SinceValkey(9, 0, inCluster(clusterChange))},
	{Name: "cluster|getslotmigrations", Arity: 2, Run: commands.SinceValkey(9, 0, inCluster(clusterLinks))},
	{Name: "cluster|flushslot", Arity: -3, Run: commands.SinceValkey(9, 0, inCluster(clusterChange))},
	{Name: "cluster|syncslots", Arity: -3, Run: commands.SinceValkey(9, 0, inCluster(clusterChange))},
}
