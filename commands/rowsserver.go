package commands

import "lockproxy/commands/merge"

// Reasons for refusing: see commands.Row.
const (
	theirFiles    = ": it writes the files of the upstream's servers, and not the settings of lockproxy"
	breaksServers = ": it can stop or damage the servers of the upstream"
)

// rowsOfServer are the rules for what is asked of a server as a whole.
var rowsOfServer = []Row{
	{Name: "command", Arity: -1, Run: commandAll},
	{Name: "command|count", Arity: 2, Run: commandCount},
	{Name: "command|info", Arity: -2, MaxArgs: mostNamed, Run: commandInfo},
	{Name: "command|docs", Arity: -2, MaxArgs: mostNamed, Run: commandDocs},
	{Name: "command|list", Arity: -2, MaxArgs: mostOptions, Run: commandList},
	{Name: "command|getkeys", Arity: -3, Run: commandGetKeys},
	{Name: "command|getkeysandflags", Arity: -3, Run: commandGetKeys},
	{Name: "command|help", Arity: 2, Run: commandHelp},
	{Name: "config", Arity: -2, Run: noSubcommand},
	{Name: "config|get", Arity: -3, MaxArgs: mostOptions, Run: configGet},
	{Name: "config|set", Arity: -4, MaxArgs: mostNamed, Flags: Fanned | Stepwise, Run: configSet, Secret: configSecrets},
	{Name: "config|resetstat", Arity: 2, Flags: Fanned, Run: configResetStat},
	{Name: "config|rewrite", Arity: 2, Flags: Fanned, Run: everyServer, Why: theirFiles},
	{Name: "config|help", Route: AnyNode, Flags: ReadOnly},
	{Name: "info", Arity: -1, MaxArgs: mostOptions, Flags: Fanned, Run: info},
	{Name: "role", Arity: 1, Run: role},
	{Name: "acl", Route: AnyNode},
	{Name: "acl|setuser", Flags: Fanned, Run: everyServer, Secret: secretsFrom(2)},
	{Name: "acl|deluser", Flags: Fanned, Run: everyServer},
	{Name: "acl|save", Flags: Fanned, Run: everyServer},
	{Name: "acl|load", Flags: Fanned, Run: everyServer},
	{Name: "acl|log", Flags: Fanned, Run: aclLog},
	{Name: "acl|list", Route: AnyNode, Flags: ReadOnly},
	{Name: "acl|users", Route: AnyNode, Flags: ReadOnly},
	{Name: "acl|getuser", Route: AnyNode, Flags: ReadOnly},
	{Name: "acl|dryrun", Route: AnyNode, Flags: ReadOnly},
	{Name: "acl|whoami", Arity: 2, Run: aclWhoAmI},
	{Name: "acl|cat", Arity: -2, Run: aclCat},
	{Name: "acl|genpass", Route: AnyNode, Flags: ReadOnly},
	{Name: "acl|help", Route: AnyNode, Flags: ReadOnly},
	{Name: "memory|purge", Route: AllNodes, Flags: ReadOnly, Merge: merge.First},
	{Name: "memory|stats", Route: AllNodes, Flags: ReadOnly, Merge: mergeMemoryStats},
	{Name: "memory|doctor", Route: AllNodes, Flags: ReadOnly, Merge: merge.Texts},
	{Name: "memory|malloc-stats", Route: AllNodes, Flags: ReadOnly, Merge: merge.Texts},
	{Name: "slowlog|get", MaxArgs: mostOptions, Flags: ReadOnly | Fanned, Run: slowlogGet, Queue: QueueSpread},
	{Name: "slowlog|len", Flags: ReadOnly | Fanned, Run: slowlogLen, Queue: QueueSpread},
	{Name: "slowlog|reset", Flags: ReadOnly | Fanned, Run: slowlogReset, Queue: QueueEverywhere, Queued: emptiesSlowLog},
	{Name: "latency|latest", Route: AllNodes, Flags: ReadOnly, Merge: mergeLatest},
	{Name: "latency|history", Route: AllNodes, Flags: ReadOnly, Merge: mergeHistory},
	{Name: "latency|histogram", MaxArgs: mostNamed, Flags: ReadOnly | Fanned, Run: latencyHistogram, Queue: QueueSpread},
	{Name: "latency|graph", Route: AllNodes, Flags: ReadOnly, Merge: merge.Texts},
	{Name: "latency|doctor", Route: AllNodes, Flags: ReadOnly, Merge: merge.Texts},
	{Name: "latency|reset", Route: AllNodes, Flags: ReadOnly, Merge: merge.Max},
	{Name: "lastsave", Route: AllNodes, Flags: ReadOnly, Merge: merge.Min}, // all have saved since then
	{Name: "debug", Flags: Fanned, Run: debug, Why: breaksServers, Queue: QueueSpread},
}
