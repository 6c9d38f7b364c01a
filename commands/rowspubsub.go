package commands

import "lockproxy/cluster"

// rowsOfPubsub are the rules for publishing and subscribing.
var rowsOfPubsub = []Row{
	{Name: "subscribe", Arity: -2, MaxArgs: mostIDs, Flags: InSubscriber | Bulky, Run: subscribe, Queue: QueueNever, Topics: topicNames},
	{Name: "psubscribe", Arity: -2, MaxArgs: mostIDs, Flags: InSubscriber | Bulky, Run: psubscribe, Queue: QueueNever, Topics: topicPatterns},
	{Name: "ssubscribe", Arity: -2, MaxArgs: mostIDs, Flags: InSubscriber | Bulky, Run: ssubscribe, Queue: QueueNever},
	{Name: "unsubscribe", Arity: -1, MaxArgs: mostTopics, Flags: InSubscriber | Bulky, Run: unsubscribe, Queue: QueueNever},
	{Name: "punsubscribe", Arity: -1, MaxArgs: mostTopics, Flags: InSubscriber | Bulky, Run: punsubscribe, Queue: QueueNever},
	{Name: "sunsubscribe", Arity: -1, MaxArgs: mostTopics, Flags: InSubscriber | Bulky, Run: sunsubscribe, Queue: QueueNever},
	{Name: "publish", Arity: 3, Flags: Judged | Replicates | Bulky, Run: publish, Queue: QueueForward, Queued: publishes},
	{Name: "spublish", Arity: 3, Flags: Judged | Replicates | Bulky, Run: spublish, Queue: QueueForward, Queued: publishes},
	{Name: "pubsub", Route: AnyNode, Flags: ReadOnly}, // HELP, and what is wrong
	{Name: "pubsub|channels", Arity: -2, Flags: ReadOnly, Run: channels(cluster.Classic)},
	{Name: "pubsub|shardchannels", Arity: -2, Flags: ReadOnly, Run: channels(cluster.Shard)},
	{Name: "pubsub|numsub", Arity: -2, MaxArgs: mostTopics, Flags: ReadOnly | Bulky, Run: numSub(cluster.Classic)},
	{Name: "pubsub|shardnumsub", Arity: -2, MaxArgs: mostTopics, Flags: ReadOnly | Bulky, Run: numSub(cluster.Shard)},
	{Name: "pubsub|numpat", Arity: -2, Flags: ReadOnly, Run: numPat},
}
