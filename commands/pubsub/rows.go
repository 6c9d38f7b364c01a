package pubsub

import (
	"lockproxy/cluster"
	"lockproxy/commands"
)

// Rows are the rules for publishing and subscribing.
var Rows = []commands.Row{
	{Name: "subscribe", Arity: -2, MaxArgs: commands.MaxIDs, Flags: commands.InSubscriber | commands.Bulky, Run: subscribe, Queue: commands.QueueNever, Topics: commands.TopicNames},
	{Name: "psubscribe", Arity: -2, MaxArgs: commands.MaxIDs, Flags: commands.InSubscriber | commands.Bulky, Run: psubscribe, Queue: commands.QueueNever, Topics: commands.TopicPatterns},
	{Name: "ssubscribe", Arity: -2, MaxArgs: commands.MaxIDs, Flags: commands.InSubscriber | commands.Bulky, Run: ssubscribe, Queue: commands.QueueNever},
	{Name: "unsubscribe", Arity: -1, MaxArgs: commands.MaxTopics, Flags: commands.InSubscriber | commands.Bulky, Run: unsubscribe, Queue: commands.QueueNever},
	{Name: "punsubscribe", Arity: -1, MaxArgs: commands.MaxTopics, Flags: commands.InSubscriber | commands.Bulky, Run: punsubscribe, Queue: commands.QueueNever},
	{Name: "sunsubscribe", Arity: -1, MaxArgs: commands.MaxTopics, Flags: commands.InSubscriber | commands.Bulky, Run: sunsubscribe, Queue: commands.QueueNever},
	{Name: "publish", Arity: 3, Flags: commands.Judged | commands.Replicates | commands.Bulky, Run: publish, Queue: commands.QueueForward, Queued: publishes},
	{Name: "spublish", Arity: 3, Flags: commands.Judged | commands.Replicates | commands.Bulky, Run: spublish, Queue: commands.QueueForward, Queued: publishes},
	{Name: "pubsub", Route: commands.AnyNode, Flags: commands.ReadOnly}, // HELP, and what is wrong
	{Name: "pubsub|channels", Arity: -2, Flags: commands.ReadOnly, Run: channels(cluster.Classic)},
	{Name: "pubsub|shardchannels", Arity: -2, Flags: commands.ReadOnly, Run: channels(cluster.Shard)},
	{Name: "pubsub|numsub", Arity: -2, MaxArgs: commands.MaxTopics, Flags: commands.ReadOnly | commands.Bulky, Run: numSub(cluster.Classic)},
	{Name: "pubsub|shardnumsub", Arity: -2, MaxArgs: commands.MaxTopics, Flags: commands.ReadOnly | commands.Bulky, Run: numSub(cluster.Shard)},
	{Name: "pubsub|numpat", Arity: -2, Flags: commands.ReadOnly, Run: numPat},
}
