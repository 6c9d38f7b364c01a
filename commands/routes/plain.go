package routes

import (
	"time"

	"lockproxy/commands"
	"lockproxy/commands/merge"
)

// plain are the rules for commands that need no code of their own.
var plain = []commands.Row{
	// Keys of several slots: split, and the replies put together again.
	{Name: "mget", Route: commands.Split, Step: 1},
	{Name: "mset", Route: commands.Split, Step: 2, Merge: merge.First},
	{Name: "msetnx", Route: commands.ByKeys}, // split it would not be all or nothing
	{Name: "del", Route: commands.Split, Step: 1, Merge: merge.Sum},
	{Name: "unlink", Route: commands.Split, Step: 1, Merge: merge.Sum},
	{Name: "exists", Route: commands.Split, Step: 1, Merge: merge.Sum},
	{Name: "touch", Route: commands.Split, Flags: commands.AtMaster, Step: 1, Merge: merge.Sum},
	// it may write into the key what it has counted
	{Name: "pfcount", Route: commands.ByKeys, Flags: commands.Replicates},

	// Keys that their patterns make of values.
	{Name: "sort", Route: commands.ByKeys, Finds: commands.FindsByPattern},
	{Name: "sort_ro", Route: commands.ByKeys, Finds: commands.FindsByPattern},

	// Asked of all nodes.
	{Name: "dbsize", Route: commands.AllNodes, Merge: merge.Sum, Queue: commands.QueueEverywhere,
		Flags: commands.ReadOnly},
	{Name: "keys", Route: commands.AllNodes, Merge: merge.Concat, Queue: commands.QueueEverywhere,
		Globs: commands.AllGlobs, Flags: commands.ReadOnly | commands.Lists},
	{Name: "flushall", Route: commands.AllNodes, Merge: merge.First, Queue: commands.QueueEverywhere},
	{Name: "flushdb", Route: commands.AllNodes, Merge: merge.First, Queue: commands.QueueEverywhere},
	{Name: "bgsave", Route: commands.AllNodes, Merge: merge.First},
	{Name: "bgrewriteaof", Route: commands.AllNodes, Merge: merge.First},
	{Name: "save", Route: commands.AllNodes, Merge: merge.First, Why: standsStill},

	// Asked of any node, or of the only one.
	{Name: "time", Route: commands.AnyNode, Flags: commands.ReadOnly},
	{Name: "lolwut", Route: commands.AnyNode, Flags: commands.ReadOnly},
	{Name: "swapdb", Route: commands.AnyNode},
	{Name: "module|list", Route: commands.AnyNode, Flags: commands.ReadOnly},
	{Name: "module|help", Route: commands.AnyNode, Flags: commands.ReadOnly},
	{Name: "module|load", Route: commands.AllNodes, Merge: merge.First, Why: loadsModules},
	{Name: "module|loadex", Route: commands.AllNodes, Merge: merge.First, Why: loadsModules},
	{Name: "module|unload", Route: commands.AllNodes, Merge: merge.First, Why: loadsModules},

	// Commands that block the connection they come over.
	{Name: "blpop", Route: commands.Blocks, Timeout: commands.TimeoutAt(-1, time.Second)},
	{Name: "brpop", Route: commands.Blocks, Timeout: commands.TimeoutAt(-1, time.Second)},
	{Name: "brpoplpush", Route: commands.Blocks, Timeout: commands.TimeoutAt(-1, time.Second)},
	{Name: "blmove", Route: commands.Blocks, Timeout: commands.TimeoutAt(-1, time.Second)},
	{Name: "blmpop", Route: commands.Blocks, Timeout: commands.TimeoutAt(1, time.Second)},
	{Name: "bzpopmin", Route: commands.Blocks, Timeout: commands.TimeoutAt(-1, time.Second)},
	{Name: "bzpopmax", Route: commands.Blocks, Timeout: commands.TimeoutAt(-1, time.Second)},
	{Name: "bzmpop", Route: commands.Blocks, Timeout: commands.TimeoutAt(1, time.Second)},
	{Name: "xread", Route: commands.Blocks, Timeout: commands.StreamTimeout},
	{Name: "xreadgroup", Route: commands.Blocks, Timeout: commands.StreamTimeout},
	{Name: "wait", Route: commands.Blocks, Merge: merge.Min,
		Timeout: commands.TimeoutAt(2, time.Millisecond), None: ":0\r\n"},
	{Name: "waitaof", Route: commands.Blocks, Merge: merge.Min,
		Timeout: commands.TimeoutAt(3, time.Millisecond), None: "*2\r\n:0\r\n:0\r\n"},

	// Commands about one server, or for those who run it.
	{Name: "sync", Route: commands.Refused, Why: forReplicas},
	{Name: "psync", Route: commands.Refused, Why: forReplicas},
	{Name: "replconf", Route: commands.Refused, Why: forReplicas},
	{Name: "replicaof", Run: commands.OneNode, Why: changesMasters},
	{Name: "slaveof", Run: commands.OneNode, Why: changesMasters},
	{Name: "failover", Run: commands.OneNode, Why: changesMasters},
	{Name: "shutdown", Route: commands.AllNodes, Merge: merge.First, Why: stopsServers},
	{Name: "migrate", Route: commands.ByKeys, Why: movesKeys,
		Secret: commands.SecretBehind(6, commands.SecretWord{Word: "AUTH", N: 1},
			commands.SecretWord{Word: "AUTH2", N: 2})},
	{Name: "restore-asking", Route: commands.ByKeys, Why: amongServers},
	{Name: "pfselftest", Route: commands.AnyNode, Why: ": it can stop or damage the servers of the upstream"},
}

// Reasons for refusing a command.
const (
	forReplicas    = ": it is for replicas; connect to the server for it"
	stopsServers   = ": it stops the servers of the upstream; do that at each of them"
	changesMasters = ": it changes who is a master; do that at the servers"
	movesKeys      = ": the server, not lockproxy, would connect to the address that it names"
	loadsModules   = ": it has each server of the upstream load what lies in its own files; do that at " +
		"each of them"
	amongServers = ": it is for servers among themselves"
	standsStill  = ": no master would answer anybody until all its data is on disk; BGSAVE does it in " +
		"the background"
)
