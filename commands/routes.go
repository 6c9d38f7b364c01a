package commands

import (
	"time"

	"lockproxy/cluster"
	"lockproxy/commands/merge"
)

// row is one rule of routing. It holds for the command of its name, "container|sub"
// for a subcommand; a container's row also holds for all its subcommands that
// have none of their own. Commands without a row go by their keys.
type row struct {
	name  string
	route Route
	arity int                                 // Local: as in COMMAND; 0: what the upstream says, or any
	most  int                                 // Local: of arguments, the name among them; 0: any number
	flags Flags                               // besides those that the upstream tells of
	step  int                                 // Split
	merge Merge                               // AllNodes, Split, and Blocks on several nodes
	block func(args [][]byte) (Timeout, bool) // Blocks: Command.Blocks
	none  string                              // Blocks on several nodes: the reply if none was asked
	run   func(c *Call)
	queue Queuing // between MULTI and EXEC; QueueByRoute: what its route and flags imply

	script scriptKind                 // what it runs
	queued func(args [][]byte) Queued // what it does to the proxy in a transaction, besides its run
	secret func(args [][]byte) []bool // which of its arguments are passwords or tokens
	topics topicUse                   // how the rules of users at older servers judge its arguments

	// why goes on behind "... is not available through lockproxy". With a route other than Refused: the
	// command is refused unless refused-commands is changed.
	why string
}

// Reasons for refusing a command.
const (
	oneServer      = ": it acts on one server; connect to that server for it"
	forDebugger    = ": a debugger needs a connection to one server for itself"
	forReplicas    = ": it is for replicas; connect to the server for it"
	stopsServers   = ": it stops the servers of the upstream; do that at each of them"
	changesMasters = ": it changes who is a master; do that at the servers"
	movesKeys      = ": the server, not lockproxy, would connect to the address that it names"
	breaksServers  = ": it can stop or damage the servers of the upstream"
	loadsModules   = ": it has each server of the upstream load what lies in its own files; do that at each of them"
	amongServers   = ": it is for servers among themselves"
	standsStill    = ": no master would answer anybody until all its data is on disk; BGSAVE does it in the background"
	theirFiles     = ": it writes the files of the upstream's servers, and not the settings of lockproxy"
	wouldSubscribe = ": it may subscribe a connection that clients share"
)

// How many arguments commands take whose answer the proxy makes on its loop. No honest client comes
// near, and what is within them is done in some milliseconds.
const (
	mostOptions = 1_000  // options: there are not so many, unless they are repeated
	mostNamed   = 4_096  // names that are looked up, and answered with a text for each
	mostIDs     = 16_384 // clients, scripts, and topics that are new
	mostTopics  = 65_536 // topics that are known, or are only looked up
)

// mostBytes is how long a command may be that the proxy answers itself, unless it is Bulky.
const mostBytes = 1 << 20

// rows are all rules of routing.
var rows = []row{
	// The connection's own.
	{name: "ping", route: Local, arity: -1, flags: InSubscriber | Bulky, run: ping, queue: QueueForward},
	{name: "echo", route: Local, arity: 2, flags: Bulky, run: echo, queue: QueueForward},
	{name: "hello", route: Local, arity: -1, most: mostOptions, flags: NoAuth | Alone | LogsIn | SetsProtocol, run: hello, queued: setsProtocol, secret: helloSecrets},
	{name: "auth", route: Local, arity: -2, most: mostOptions, flags: NoAuth | LogsIn, run: auth, secret: secretsFrom(1)},
	{name: "quit", route: Local, arity: -1, flags: NoAuth | InSubscriber, run: quit, queue: QueueNot},
	{name: "reset", route: Local, arity: 1, flags: NoAuth | Alone | InSubscriber, run: reset, queue: QueueNot},
	{name: "select", route: Local, arity: 2, run: selectDB, queue: QueueForward, queued: selects},
	{name: "readonly", route: Local, arity: 1, run: readOnly},
	{name: "readwrite", route: Local, arity: 1, run: readWrite},
	{name: "asking", route: Local, arity: 1, run: inCluster(sayOK)},
	{name: "post", route: Local, arity: -1, flags: NoAuth, run: crossProtocol, queue: QueueNot},
	{name: "host:", route: Local, arity: -1, flags: NoAuth, run: crossProtocol, queue: QueueNot},
	{name: "client", route: Local, arity: -2, flags: BesideCaching, run: noSubcommand},
	{name: "client|setname", route: Local, arity: 3, run: clientSetName},
	{name: "client|getname", route: Local, arity: 2, run: clientGetName},
	{name: "client|id", route: Local, arity: 2, run: clientID},
	{name: "client|setinfo", route: Local, arity: 4, run: clientSetInfo},
	{name: "client|info", route: Local, arity: 2, run: clientInfo},
	{name: "client|no-evict", route: Local, arity: 3, run: clientNoEvict},
	{name: "client|no-touch", route: Local, arity: 3, run: clientNoTouch},
	{name: "client|getredir", route: Local, arity: 2, run: clientGetRedir},
	{name: "client|help", route: Local, arity: 2, run: clientHelp},
	{name: "client|list", route: Local, arity: -2, most: mostIDs, run: clientList},
	{name: "client|kill", route: Local, arity: -3, most: mostOptions, run: clientKill},
	{name: "client|pause", route: Local, arity: -3, most: mostOptions, run: clientPause},
	{name: "client|unpause", route: Local, arity: 2, flags: EndsPause, run: clientUnpause},
	{name: "client|unblock", route: Local, arity: -3, most: mostOptions, run: clientUnblock},
	{name: "client|reply", route: Local, arity: 3, run: clientReply, queue: QueueNever},
	{name: "client|tracking", route: Local, arity: -3, most: mostOptions, run: clientTracking},
	{name: "client|trackinginfo", route: Local, arity: 2, run: clientTrackingInfo},
	{name: "client|caching", route: Local, arity: 3, run: clientCaching, queue: QueueForward},

	// What the proxy is.
	{name: "command", route: Local, arity: -1, run: commandAll},
	{name: "command|count", route: Local, arity: 2, run: commandCount},
	{name: "command|info", route: Local, arity: -2, most: mostNamed, run: commandInfo},
	{name: "command|docs", route: Local, arity: -2, most: mostNamed, run: commandDocs},
	{name: "command|list", route: Local, arity: -2, most: mostOptions, run: commandList},
	{name: "command|getkeys", route: Local, arity: -3, run: commandGetKeys},
	{name: "command|getkeysandflags", route: Local, arity: -3, run: commandGetKeys},
	{name: "command|help", route: Local, arity: 2, run: commandHelp},
	{name: "config", route: Local, arity: -2, run: noSubcommand},
	{name: "config|get", route: Local, arity: -3, most: mostOptions, run: configGet},
	{name: "config|set", route: Local, arity: -4, most: mostNamed, flags: Fanned | Stepwise, run: configSet, secret: configSecrets},
	{name: "config|resetstat", route: Local, arity: 2, flags: Fanned, run: configResetStat},
	{name: "config|rewrite", route: Local, arity: 2, flags: Fanned, run: everyServer, why: theirFiles},
	{name: "config|help", route: AnyNode, flags: ReadOnly},
	{name: "info", route: Local, arity: -1, most: mostOptions, flags: Fanned, run: info},
	{name: "role", route: Local, arity: 1, run: role},
	{name: "cluster", route: Local, arity: -2, run: noSubcommand},
	{name: "cluster|info", route: Local, arity: 2, run: inCluster(clusterInfo)},
	{name: "cluster|nodes", route: Local, arity: 2, run: inCluster(clusterNodes)},
	{name: "cluster|slots", route: Local, arity: 2, run: inCluster(clusterSlots)},
	{name: "cluster|shards", route: Local, arity: 2, run: inCluster(clusterShards)},
	{name: "cluster|links", route: Local, arity: 2, run: inCluster(clusterLinks)},
	{name: "cluster|myid", route: Local, arity: 2, run: inCluster(clusterMyID)},
	{name: "cluster|myshardid", route: Local, arity: -2, run: clusterMyShardID},
	{name: "cluster|keyslot", route: Local, arity: 3, flags: Bulky, run: inCluster(clusterKeySlot)},
	{name: "cluster|countkeysinslot", route: Local, arity: 3, flags: ReadOnly, run: inCluster(clusterInSlot)},
	{name: "cluster|getkeysinslot", route: Local, arity: 4, flags: ReadOnly, run: inCluster(clusterInSlot)},
	{name: "cluster|replicas", route: Local, arity: 3, run: inCluster(clusterReplicas)},
	{name: "cluster|slaves", route: Local, arity: 3, run: inCluster(clusterReplicas)},
	{name: "cluster|count-failure-reports", route: Local, arity: 3, run: inCluster(clusterFailures)},
	{name: "cluster|help", route: Local, arity: 2, run: inCluster(clusterHelp)},
	{name: "cluster|addslots", route: Local, arity: -3, run: inCluster(clusterChange)},
	{name: "cluster|addslotsrange", route: Local, arity: -4, run: inCluster(clusterChange)},
	{name: "cluster|bumpepoch", route: Local, arity: 2, run: inCluster(clusterChange)},
	{name: "cluster|delslots", route: Local, arity: -3, run: inCluster(clusterChange)},
	{name: "cluster|delslotsrange", route: Local, arity: -4, run: inCluster(clusterChange)},
	{name: "cluster|failover", route: Local, arity: -2, run: inCluster(clusterChange)},
	{name: "cluster|flushslots", route: Local, arity: 2, run: inCluster(clusterChange)},
	{name: "cluster|forget", route: Local, arity: 3, run: inCluster(clusterChange)},
	{name: "cluster|meet", route: Local, arity: -4, run: inCluster(clusterChange)},
	{name: "cluster|replicate", route: Local, arity: 3, run: inCluster(clusterChange)},
	{name: "cluster|reset", route: Local, arity: -2, run: inCluster(clusterChange)},
	{name: "cluster|saveconfig", route: Local, arity: 2, run: inCluster(clusterChange)},
	{name: "cluster|set-config-epoch", route: Local, arity: 3, run: inCluster(clusterChange)},
	{name: "cluster|setslot", route: Local, arity: -4, run: inCluster(clusterChange)},
	{name: "acl", route: AnyNode},
	{name: "acl|setuser", route: Local, flags: Fanned, run: everyServer, secret: secretsFrom(2)},
	{name: "acl|deluser", route: Local, flags: Fanned, run: everyServer},
	{name: "acl|save", route: Local, flags: Fanned, run: everyServer},
	{name: "acl|load", route: Local, flags: Fanned, run: everyServer},
	{name: "acl|log", route: Local, flags: Fanned, run: aclLog},
	{name: "acl|list", route: AnyNode, flags: ReadOnly},
	{name: "acl|users", route: AnyNode, flags: ReadOnly},
	{name: "acl|getuser", route: AnyNode, flags: ReadOnly},
	{name: "acl|dryrun", route: AnyNode, flags: ReadOnly},
	{name: "acl|whoami", route: Local, arity: 2, run: aclWhoAmI},
	{name: "acl|cat", route: Local, arity: -2, run: aclCat},
	{name: "acl|genpass", route: AnyNode, flags: ReadOnly},
	{name: "acl|help", route: AnyNode, flags: ReadOnly},

	// Keys of several slots, put together again.
	{name: "mget", route: Split, step: 1},
	{name: "mset", route: Split, step: 2, merge: merge.First},
	{name: "msetnx", route: ByKeys}, // in parts it would not be all or nothing
	{name: "del", route: Split, step: 1, merge: merge.Sum},
	{name: "unlink", route: Split, step: 1, merge: merge.Sum},
	{name: "exists", route: Split, step: 1, merge: merge.Sum},
	{name: "touch", route: Split, flags: AtMaster, step: 1, merge: merge.Sum},

	{name: "pfcount", route: ByKeys, flags: Replicates}, // it may note what it has counted in the key

	// All nodes together.
	{name: "dbsize", route: AllNodes, flags: ReadOnly, merge: merge.Sum, queue: QueueEverywhere},
	{name: "keys", route: AllNodes, flags: ReadOnly, merge: merge.Concat, queue: QueueEverywhere},
	{name: "scan", route: Local, arity: -2, most: mostOptions, flags: ReadOnly | Stepwise, run: scan, queue: QueueAlone},
	{name: "randomkey", route: Local, arity: 1, flags: ReadOnly | Stepwise, run: randomKey, queue: QueueAlone},
	{name: "flushall", route: AllNodes, merge: merge.First, queue: QueueEverywhere},
	{name: "flushdb", route: AllNodes, merge: merge.First, queue: QueueEverywhere},
	{name: "memory|purge", route: AllNodes, flags: ReadOnly, merge: merge.First},
	{name: "memory|stats", route: AllNodes, flags: ReadOnly, merge: mergeMemoryStats},
	{name: "memory|doctor", route: AllNodes, flags: ReadOnly, merge: merge.Texts},
	{name: "memory|malloc-stats", route: AllNodes, flags: ReadOnly, merge: merge.Texts},
	{name: "slowlog|get", route: Local, most: mostOptions, flags: ReadOnly | Fanned, run: slowlogGet, queue: QueueSpread},
	{name: "slowlog|len", route: Local, flags: ReadOnly | Fanned, run: slowlogLen, queue: QueueSpread},
	{name: "slowlog|reset", route: Local, flags: ReadOnly | Fanned, run: slowlogReset, queue: QueueEverywhere, queued: emptiesSlowLog},
	{name: "latency|latest", route: AllNodes, flags: ReadOnly, merge: mergeLatest},
	{name: "latency|history", route: AllNodes, flags: ReadOnly, merge: mergeHistory},
	{name: "latency|histogram", route: Local, most: mostNamed, flags: ReadOnly | Fanned, run: latencyHistogram, queue: QueueSpread},
	{name: "latency|graph", route: AllNodes, flags: ReadOnly, merge: merge.Texts},
	{name: "latency|doctor", route: AllNodes, flags: ReadOnly, merge: merge.Texts},
	{name: "latency|reset", route: AllNodes, flags: ReadOnly, merge: merge.Max},
	{name: "lastsave", route: AllNodes, flags: ReadOnly, merge: merge.Min}, // all have saved since then
	{name: "bgsave", route: AllNodes, merge: merge.First},
	{name: "bgrewriteaof", route: AllNodes, merge: merge.First},
	{name: "save", route: AllNodes, merge: merge.First, why: standsStill},

	// Scripts and functions.
	{name: "eval", route: Local, arity: -3, flags: Scripted | Judged | Bulky, run: eval, queue: QueueForward, script: scriptSource},
	{name: "eval_ro", route: Local, arity: -3, flags: Scripted | Judged | Bulky, run: eval, queue: QueueForward, script: scriptSource},
	{name: "evalsha", route: ByKeys, flags: Scripted, script: scriptSHA},
	{name: "evalsha_ro", route: ByKeys, flags: Scripted, script: scriptSHA},
	{name: "fcall", route: ByKeys, flags: Scripted, script: scriptFunction},
	{name: "fcall_ro", route: ByKeys, flags: Scripted, script: scriptFunction},
	{name: "script|load", route: Local, arity: 3, flags: Fanned | Bulky, run: scriptLoad, queued: loadsScript},
	{name: "script|flush", route: Local, arity: -2, flags: Fanned | Stepwise, run: scriptFlush},
	{name: "script|exists", route: Local, arity: -3, most: mostIDs, flags: ReadOnly | Fanned, run: scriptExists},
	{name: "script|kill", route: Local, flags: Fanned | Judged, run: killScript},
	{name: "script|debug", route: Refused, why: forDebugger},
	{name: "function|load", route: Local, flags: Fanned | Bulky, run: functionLoad, queue: QueueEverywhere},
	{name: "function|restore", route: AllNodes, merge: merge.First, queue: QueueEverywhere},
	{name: "function|delete", route: AllNodes, merge: merge.First, queue: QueueEverywhere},
	{name: "function|flush", route: AllNodes, merge: merge.First, queue: QueueEverywhere},
	{name: "function|list", route: AnyNode, flags: ReadOnly},
	{name: "function|dump", route: AnyNode, flags: ReadOnly},
	{name: "function|stats", route: Local, flags: Fanned | Judged | Alone | Stepwise, run: functionStats, queue: QueueSpread},
	{name: "function|kill", route: Local, flags: Fanned | Judged, run: killScript},

	// Publishing and subscribing.
	{name: "subscribe", route: Local, arity: -2, most: mostIDs, flags: InSubscriber | Bulky, run: subscribe, queue: QueueNever, topics: topicNames},
	{name: "psubscribe", route: Local, arity: -2, most: mostIDs, flags: InSubscriber | Bulky, run: psubscribe, queue: QueueNever, topics: topicPatterns},
	{name: "ssubscribe", route: Local, arity: -2, most: mostIDs, flags: InSubscriber | Bulky, run: ssubscribe, queue: QueueNever},
	{name: "unsubscribe", route: Local, arity: -1, most: mostTopics, flags: InSubscriber | Bulky, run: unsubscribe, queue: QueueNever},
	{name: "punsubscribe", route: Local, arity: -1, most: mostTopics, flags: InSubscriber | Bulky, run: punsubscribe, queue: QueueNever},
	{name: "sunsubscribe", route: Local, arity: -1, most: mostTopics, flags: InSubscriber | Bulky, run: sunsubscribe, queue: QueueNever},
	{name: "publish", route: Local, arity: 3, flags: Judged | Replicates | Bulky, run: publish, queue: QueueForward, queued: publishes},
	{name: "spublish", route: Local, arity: 3, flags: Judged | Replicates | Bulky, run: spublish, queue: QueueForward, queued: publishes},
	{name: "pubsub", route: AnyNode, flags: ReadOnly}, // HELP, and what is wrong
	{name: "pubsub|channels", route: Local, arity: -2, flags: ReadOnly, run: channels(cluster.Classic)},
	{name: "pubsub|shardchannels", route: Local, arity: -2, flags: ReadOnly, run: channels(cluster.Shard)},
	{name: "pubsub|numsub", route: Local, arity: -2, most: mostTopics, flags: ReadOnly | Bulky, run: numSub(cluster.Classic)},
	{name: "pubsub|shardnumsub", route: Local, arity: -2, most: mostTopics, flags: ReadOnly | Bulky, run: numSub(cluster.Shard)},
	{name: "pubsub|numpat", route: Local, arity: -2, flags: ReadOnly, run: numPat},

	// Whichever node, or the only one.
	{name: "time", route: AnyNode, flags: ReadOnly},
	{name: "lolwut", route: AnyNode, flags: ReadOnly},
	{name: "swapdb", route: AnyNode},
	{name: "module|list", route: AnyNode, flags: ReadOnly},
	{name: "module|help", route: AnyNode, flags: ReadOnly},
	{name: "module|load", route: AllNodes, merge: merge.First, why: loadsModules},
	{name: "module|loadex", route: AllNodes, merge: merge.First, why: loadsModules},
	{name: "module|unload", route: AllNodes, merge: merge.First, why: loadsModules},

	// Those that block the connection they come over.
	{name: "blpop", route: Blocks, block: timeoutAt(-1, time.Second)},
	{name: "brpop", route: Blocks, block: timeoutAt(-1, time.Second)},
	{name: "brpoplpush", route: Blocks, block: timeoutAt(-1, time.Second)},
	{name: "blmove", route: Blocks, block: timeoutAt(-1, time.Second)},
	{name: "blmpop", route: Blocks, block: timeoutAt(1, time.Second)},
	{name: "bzpopmin", route: Blocks, block: timeoutAt(-1, time.Second)},
	{name: "bzpopmax", route: Blocks, block: timeoutAt(-1, time.Second)},
	{name: "bzmpop", route: Blocks, block: timeoutAt(1, time.Second)},
	{name: "xread", route: Blocks, block: streamTimeout},
	{name: "xreadgroup", route: Blocks, block: streamTimeout},
	{name: "wait", route: Blocks, merge: merge.Min, block: timeoutAt(2, time.Millisecond), none: ":0\r\n"},
	{name: "waitaof", route: Blocks, merge: merge.Min, block: timeoutAt(3, time.Millisecond), none: "*2\r\n:0\r\n:0\r\n"},

	// State of a connection that shared connections cannot carry.
	{name: "multi", route: Local, arity: 1, flags: Alone, run: multi, queue: QueueNot},
	{name: "exec", route: Local, arity: 1, flags: RunsQueue | EndsMulti, run: execMulti, queue: QueueNot},
	{name: "discard", route: Local, arity: 1, flags: EndsMulti, run: discardMulti, queue: QueueNot},
	{name: "watch", route: Local, arity: -2, flags: Alone | Judged | Bulky, run: watch, queue: QueueNot},
	{name: "unwatch", route: Local, arity: 1, run: unwatch, queue: QueueForward},
	{name: "monitor", route: Local, arity: 1, run: monitor, queue: QueueNever},

	// What belongs to one server, or to who runs it.
	{name: "sync", route: Refused, why: forReplicas},
	{name: "psync", route: Refused, why: forReplicas},
	{name: "replconf", route: Refused, why: forReplicas},
	{name: "replicaof", route: Local, run: oneNode, why: changesMasters},
	{name: "slaveof", route: Local, run: oneNode, why: changesMasters},
	{name: "failover", route: Local, run: oneNode, why: changesMasters},
	{name: "shutdown", route: AllNodes, merge: merge.First, why: stopsServers},
	{name: "debug", route: Local, flags: Fanned, run: debug, why: breaksServers, queue: QueueSpread},
	{name: "migrate", route: ByKeys, why: movesKeys, secret: migrateSecrets},
	{name: "restore-asking", route: ByKeys, why: amongServers},
	{name: "pfselftest", route: AnyNode, why: breaksServers},
}

// rowOf finds rows by name.
var rowOf = func() map[string]*row {
	m := make(map[string]*row, len(rows))
	for i := range rows {
		m[rows[i].name] = &rows[i]
	}
	return m
}()

// applyRows gives c and its subcommands their rules.
func (c *Command) applyRows() {
	own := rowOf[c.Name]
	c.apply(own)
	for _, sub := range c.Subs {
		r := rowOf[sub.Name]
		if r == nil && own != nil {
			inherited := *own
			inherited.arity = 0
			r = &inherited
		}
		sub.apply(r)
		if own != nil {
			sub.Flags |= own.flags & BesideCaching
		}
	}
}

func (c *Command) apply(r *row) {
	switch {
	case r != nil:
		c.Route, c.Merge, c.Step, c.Run, c.Reason, c.timeout = r.route, r.merge, r.step, r.run, r.why, r.block
		c.most, c.None, c.Queue, c.queued = r.most, []byte(r.none), r.queue, r.queued
		c.secret, c.script, c.topics = r.secret, r.script, r.topics
		c.Flags |= r.flags
		if r.arity != 0 {
			c.Arity = r.arity
		}
	case c.Flags&Blocking != 0:
		c.Route = Blocks
	case c.Flags&PubSub != 0:
		c.Route, c.Reason = Refused, wouldSubscribe
	default:
		c.applyTips()
	}
}
