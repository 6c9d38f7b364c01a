// Package pubsub has SUBSCRIBE, PUBLISH and PUBSUB.
//
// At a node the proxy is one subscriber for all its clients. So a node's numbers of subscribers are not those
// of clients, and must be corrected:
//
//	SUBSCRIBE news --> subscribe(Call) --> Call.Subscriptions().Subscribe   joins what the proxy listens to
//	PUBLISH news x --> publish(Call)   --> Call.Subscriptions().Publish     --> node: 1, the proxy
//	                                                                            client: 3, who listen
//	PUBSUB NUMSUB  --> numSub(Call)    --> AskAll --> the nodes' numbers, less the proxy, plus its clients
//
// This package checks the arguments and combines the replies to PUBSUB. proxy/pubsub decides which client
// gets which message, cluster/pubsub at which node the proxy is subscribed. In RESP2 a client that listens
// may send little else: rules mark what it may with commands.InSubscriber.
//
// A node compares each pattern with each name, and what that costs it at worst is glob.Price. So names and
// patterns have bounds (commands.Command.Excess), and so have all patterns of the proxy's clients together
// (cluster/pubsub).
//
// Begin with subscribe (pubsub.go), then mergeNumSub.
package pubsub

import (
	"lockproxy/cluster/pubsub"
	"lockproxy/commands"
)

// Rows are the rules for publishing and subscribing.
var Rows = []commands.Row{
	{Name: "subscribe", Arity: -2, MaxArgs: commands.MaxIDs, Run: subscribe, Queue: commands.QueueNever,
		Topics: commands.TopicNames, Flags: commands.Alone | commands.InSubscriber | commands.Bulky},
	{Name: "psubscribe", Arity: -2, MaxArgs: commands.MaxIDs, Run: psubscribe, Queue: commands.QueueNever,
		Globs: commands.AllGlobs, Topics: commands.TopicPatterns,
		Flags: commands.Alone | commands.InSubscriber | commands.Bulky},
	{Name: "ssubscribe", Arity: -2, MaxArgs: commands.MaxIDs, Run: ofShards(ssubscribe),
		Queue: commands.QueueNever, Flags: commands.Alone | commands.InSubscriber | commands.Bulky},
	{Name: "unsubscribe", Arity: -1, MaxArgs: commands.MaxTopics, Run: unsubscribe,
		Queue: commands.QueueNever, Flags: commands.Alone | commands.InSubscriber | commands.Bulky},
	{Name: "punsubscribe", Arity: -1, MaxArgs: commands.MaxTopics, Run: punsubscribe,
		Queue: commands.QueueNever, Flags: commands.Alone | commands.InSubscriber | commands.Bulky},
	{Name: "sunsubscribe", Arity: -1, MaxArgs: commands.MaxTopics, Run: ofShards(sunsubscribe),
		Queue: commands.QueueNever, Flags: commands.Alone | commands.InSubscriber | commands.Bulky},
	{Name: "publish", Arity: 3, Run: publish, Queue: commands.QueueForward, Queued: publishes,
		Topics: commands.TopicFirst,
		Flags:  commands.Judged | commands.Replicates | commands.Bulky},
	{Name: "spublish", Arity: 3, Run: spublish, Queue: commands.QueueForward, Queued: publishes,
		Flags: commands.Judged | commands.Replicates | commands.Bulky},
	{Name: "pubsub", Route: commands.AnyNode, Flags: commands.ReadOnly}, // HELP, and what is wrong
	{Name: "pubsub|channels", Arity: -2, Flags: commands.ReadOnly, Run: channels(pubsub.Classic)},
	{Name: "pubsub|shardchannels", Arity: -2, Flags: commands.ReadOnly, Run: channels(pubsub.Shard)},
	{Name: "pubsub|numsub", Arity: -2, MaxArgs: commands.MaxTopics, Run: numSub(pubsub.Classic),
		Flags: commands.ReadOnly | commands.Bulky},
	{Name: "pubsub|shardnumsub", Arity: -2, MaxArgs: commands.MaxTopics, Run: numSub(pubsub.Shard),
		Flags: commands.ReadOnly | commands.Bulky},
	{Name: "pubsub|numpat", Arity: -2, Flags: commands.ReadOnly, Run: numPat},
}
