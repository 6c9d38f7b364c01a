package commands

import (
	"time"

	"lockproxy/commands/merge"
)

// rowsOfRoutes are the rules for commands that need no code of their own.
var rowsOfRoutes = []Row{
	// Keys of several slots, put together again.
	{Name: "mget", Route: Split, Step: 1},
	{Name: "mset", Route: Split, Step: 2, Merge: merge.First},
	{Name: "msetnx", Route: ByKeys}, // in parts it would not be all or nothing
	{Name: "del", Route: Split, Step: 1, Merge: merge.Sum},
	{Name: "unlink", Route: Split, Step: 1, Merge: merge.Sum},
	{Name: "exists", Route: Split, Step: 1, Merge: merge.Sum},
	{Name: "touch", Route: Split, Flags: AtMaster, Step: 1, Merge: merge.Sum},
	{Name: "pfcount", Route: ByKeys, Flags: Replicates}, // it may note what it has counted in the key

	// All nodes together.
	{Name: "dbsize", Route: AllNodes, Flags: ReadOnly, Merge: merge.Sum, Queue: QueueEverywhere},
	{Name: "keys", Route: AllNodes, Flags: ReadOnly, Merge: merge.Concat, Queue: QueueEverywhere},
	{Name: "flushall", Route: AllNodes, Merge: merge.First, Queue: QueueEverywhere},
	{Name: "flushdb", Route: AllNodes, Merge: merge.First, Queue: QueueEverywhere},
	{Name: "bgsave", Route: AllNodes, Merge: merge.First},
	{Name: "bgrewriteaof", Route: AllNodes, Merge: merge.First},
	{Name: "save", Route: AllNodes, Merge: merge.First, Why: standsStill},

	// Whichever node, or the only one.
	{Name: "time", Route: AnyNode, Flags: ReadOnly},
	{Name: "lolwut", Route: AnyNode, Flags: ReadOnly},
	{Name: "swapdb", Route: AnyNode},
	{Name: "module|list", Route: AnyNode, Flags: ReadOnly},
	{Name: "module|help", Route: AnyNode, Flags: ReadOnly},
	{Name: "module|load", Route: AllNodes, Merge: merge.First, Why: loadsModules},
	{Name: "module|loadex", Route: AllNodes, Merge: merge.First, Why: loadsModules},
	{Name: "module|unload", Route: AllNodes, Merge: merge.First, Why: loadsModules},

	// Those that block the connection they come over.
	{Name: "blpop", Route: Blocks, Timeout: timeoutAt(-1, time.Second)},
	{Name: "brpop", Route: Blocks, Timeout: timeoutAt(-1, time.Second)},
	{Name: "brpoplpush", Route: Blocks, Timeout: timeoutAt(-1, time.Second)},
	{Name: "blmove", Route: Blocks, Timeout: timeoutAt(-1, time.Second)},
	{Name: "blmpop", Route: Blocks, Timeout: timeoutAt(1, time.Second)},
	{Name: "bzpopmin", Route: Blocks, Timeout: timeoutAt(-1, time.Second)},
	{Name: "bzpopmax", Route: Blocks, Timeout: timeoutAt(-1, time.Second)},
	{Name: "bzmpop", Route: Blocks, Timeout: timeoutAt(1, time.Second)},
	{Name: "xread", Route: Blocks, Timeout: streamTimeout},
	{Name: "xreadgroup", Route: Blocks, Timeout: streamTimeout},
	{Name: "wait", Route: Blocks, Merge: merge.Min, Timeout: timeoutAt(2, time.Millisecond), None: ":0\r\n"},
	{Name: "waitaof", Route: Blocks, Merge: merge.Min, Timeout: timeoutAt(3, time.Millisecond), None: "*2\r\n:0\r\n:0\r\n"},

	// What belongs to one server, or to who runs it.
	{Name: "sync", Route: Refused, Why: forReplicas},
	{Name: "psync", Route: Refused, Why: forReplicas},
	{Name: "replconf", Route: Refused, Why: forReplicas},
	{Name: "replicaof", Run: oneNode, Why: changesMasters},
	{Name: "slaveof", Run: oneNode, Why: changesMasters},
	{Name: "failover", Run: oneNode, Why: changesMasters},
	{Name: "shutdown", Route: AllNodes, Merge: merge.First, Why: stopsServers},
	{Name: "migrate", Route: ByKeys, Why: movesKeys, Secret: migrateSecrets},
	{Name: "restore-asking", Route: ByKeys, Why: amongServers},
	{Name: "pfselftest", Route: AnyNode, Why: ": it can stop or damage the servers of the upstream"},
}
