// Package server has the commands that ask a server as a whole: COMMAND, CONFIG, INFO, ACL, SLOWLOG. All
// masters are asked, the proxy adds what it has done itself, and the client sees one server. What only one
// server can tell, as LATENCY and MEMORY DOCTOR do, is asked at that server (commands.OneNode).
//
//	INFO --> info(Call) --> AskAll: INFO --> mergeInfo --> addOwn: the proxy's own numbers --> the reply
//
//	SLOWLOG GET    --> one log of all of theirs, the newest entry first               slowlog.go
//	CONFIG SET     --> all masters, or none as far as that is possible, then the own  configset.go
//	COMMAND        --> what a node says, with the verbs among it; COUNT, LIST: the Table  command.go
//
// How numbers become one depends on what they are: keys and memory are added, a peak is the highest, a mean
// is weighted, and what is the same everywhere stays as it is (infomerge.go). Addresses of nodes are left
// out, for clients cannot reach them.
//
// What a command names that only one server can have (its files, its process) is refused, or goes to all of
// them; the row says why (Row.Why).
//
// Begin reading at info.go, then mergeInfo (infomerge.go).
package server

import (
	"lockproxy/commands"
	"lockproxy/commands/merge"
)

// Reasons for refusing: see commands.Row. They go on behind "... is not available through lockproxy", and
// hold by default: refused-commands may name others.
const (
	theirFiles    = ": it writes the files of the upstream's servers, and not the settings of lockproxy"
	breaksServers = ": it can stop or damage the servers of the upstream"
)

// Rows are the rules for what is asked of a server as a whole.
var Rows = []commands.Row{
	{Name: "command", Arity: -1, Run: commandAll},
	{Name: "command|count", Arity: 2, Run: commandCount},
	{Name: "command|info", Arity: -2, MaxArgs: commands.MaxNames, Run: commandInfo},
	{Name: "command|docs", Arity: -2, MaxArgs: commands.MaxNames, Run: commandDocs},
	{Name: "command|list", Arity: -2, MaxArgs: commands.MaxOptions, Run: commandList},
	{Name: "command|getkeys", Arity: -3, Run: commands.Answering(commandGetKeys)},
	{Name: "command|getkeysandflags", Arity: -3, Run: commands.Answering(commandGetKeys)},
	{Name: "command|help", Route: commands.AnyNode, Flags: commands.ReadOnly},
	{Name: "config", Arity: -2, Run: commands.NoSubcommand},
	{Name: "config|get", Arity: -3, MaxArgs: commands.MaxOptions, Run: configGet},
	{Name: "config|set", Arity: -4, MaxArgs: commands.MaxNames, Run: commands.Answering(configSet),
		Secret: configSecrets, Flags: commands.Fanned | commands.Stepwise},
	{Name: "config|resetstat", Arity: 2, Flags: commands.Fanned, Run: configResetStat},
	{Name: "config|rewrite", Arity: 2, Flags: commands.Fanned, Run: everyServer, Why: theirFiles},
	{Name: "config|help", Route: commands.AnyNode, Flags: commands.ReadOnly},
	{Name: "info", Arity: -1, MaxArgs: commands.MaxOptions, Flags: commands.Fanned, Run: info},
	{Name: "role", Arity: 1, Run: role},
	{Name: "acl", Route: commands.AnyNode},
	{Name: "acl|setuser", Arity: -3, Flags: commands.Fanned, Run: aclSetUser,
		Secret: commands.SecretsFrom(2)},
	{Name: "acl|deluser", Arity: -3, Flags: commands.Fanned, Run: aclDelUser},
	{Name: "acl|save", Flags: commands.Fanned, Run: everyServer},
	{Name: "acl|load", Flags: commands.Fanned, Run: everyServer},
	{Name: "acl|log", Flags: commands.Fanned, Run: aclLog},
	{Name: "acl|list", Route: commands.AnyNode, Flags: commands.ReadOnly},
	{Name: "acl|users", Route: commands.AnyNode, Flags: commands.ReadOnly},
	{Name: "acl|getuser", Route: commands.AnyNode, Flags: commands.ReadOnly},
	{Name: "acl|dryrun", Route: commands.AnyNode, Flags: commands.ReadOnly},
	{Name: "acl|whoami", Arity: 2, Run: aclWhoAmI},
	{Name: "acl|cat", Arity: -2, Run: aclCat},
	{Name: "acl|genpass", Route: commands.AnyNode, Flags: commands.ReadOnly},
	{Name: "acl|help", Route: commands.AnyNode, Flags: commands.ReadOnly},
	{Name: "memory|purge", Route: commands.AllNodes, Flags: commands.ReadOnly, Merge: merge.First},
	{Name: "memory|stats", Run: commands.OneNode, Queue: commands.QueueSpread, Flags: commands.ReadOnly},
	{Name: "memory|doctor", Run: commands.OneNode, Queue: commands.QueueSpread, Flags: commands.ReadOnly},
	{Name: "memory|malloc-stats", Run: commands.OneNode, Queue: commands.QueueSpread,
		Flags: commands.ReadOnly},
	{Name: "slowlog|get", MaxArgs: commands.MaxOptions, Run: slowlogGet, Queue: commands.QueueSpread,
		Flags: commands.ReadOnly | commands.Fanned},
	{Name: "slowlog|len", Route: commands.AllNodes, Flags: commands.ReadOnly, Merge: merge.Sum},
	{Name: "slowlog|reset", Route: commands.AllNodes, Flags: commands.ReadOnly, Merge: merge.First,
		Queue: commands.QueueEverywhere},
	{Name: "commandlog|get", MaxArgs: commands.MaxOptions, Run: slowlogGet,
		Queue: commands.QueueSpread, Flags: commands.ReadOnly | commands.Fanned},
	{Name: "commandlog|len", Route: commands.AllNodes, Flags: commands.ReadOnly, Merge: merge.Sum},
	{Name: "commandlog|reset", Route: commands.AllNodes, Flags: commands.ReadOnly, Merge: merge.First},
	{Name: "latency|latest", Run: commands.OneNode, Queue: commands.QueueSpread, Flags: commands.ReadOnly},
	{Name: "latency|history", Run: commands.OneNode, Queue: commands.QueueSpread, Flags: commands.ReadOnly},
	{Name: "latency|histogram", Run: commands.OneNode, Queue: commands.QueueSpread, Flags: commands.ReadOnly},
	{Name: "latency|graph", Run: commands.OneNode, Queue: commands.QueueSpread, Flags: commands.ReadOnly},
	{Name: "latency|doctor", Run: commands.OneNode, Queue: commands.QueueSpread, Flags: commands.ReadOnly},
	{Name: "latency|reset", Route: commands.AllNodes, Flags: commands.ReadOnly, Merge: merge.Max},
	// all have saved since then
	{Name: "lastsave", Route: commands.AllNodes, Merge: merge.Min, Flags: commands.ReadOnly},
	{Name: "debug", Run: commands.OneNode, Why: breaksServers, Queue: commands.QueueSpread},
}
