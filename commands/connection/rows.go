// Package connection has the commands that concern the connection which they come over, and other clients:
// HELLO, AUTH, SELECT, CLIENT, MULTI and its like, MONITOR. A file has one of them, rows.go the rules for
// all.
//
//	SELECT 1      --> selectDB(Call)   --> Call.Connection().Select   this connection
//	CLIENT KILL   --> clientKill(Call) --> Call.Clients().Each        all connections, each on its own loop
//	MULTI, WATCH  --> ofTransaction    --> Call.Transactions()        the transaction of this connection
//
// None of them does much: it reads its arguments, in the order in which Redis does, for the first mistake is
// the answer, and says what is to become of the connection. commands.Client has what is known of it (its
// name, protocol, database); the session in package proxy acts on that.
//
// A client is shown to others as a commands.Peer. line.go writes it as CLIENT LIST does, kill.go and list.go
// choose among many of them.
//
// HELLO and AUTH are two kinds of login: with a password of the proxy's own, or as a user of the upstream,
// which its nodes judge (auth.go).
//
// Begin reading at clientID (name.go), then hello.go, then kill.go.
package connection

import "lockproxy/commands"

// Rows are the rules for what concerns the connection that a command comes over, and clients. Those with a
// Run and without a Queue run in the proxy when EXEC has succeeded (commands.QueueHere).
var Rows = []commands.Row{
	// PING and ECHO are queued at the node, whose answer stands in that of EXEC.
	{Name: "ping", Arity: -1, Run: ping, Queue: commands.QueueForward,
		Flags: commands.InSubscriber | commands.Bulky},
	{Name: "echo", Arity: 2, Flags: commands.Bulky, Run: echo, Queue: commands.QueueForward},
	{Name: "hello", Arity: -1, MaxArgs: commands.MaxOptions,
		Run: commands.Answering(hello), Queued: setsProtocol,
		// The word behind SETNAME may be AUTH itself, and what follows is no secret then.
		Secret: commands.SecretBehind(2, commands.SecretWord{Word: "AUTH", N: 2},
			commands.SecretWord{Word: "SETNAME"}),
		Flags: commands.NoAuth | commands.Alone | commands.LogsIn | commands.SetsProtocol},
	{Name: "auth", Arity: -2, MaxArgs: commands.MaxOptions,
		Run: commands.Answering(auth), Secret: commands.SecretsFrom(1),
		Flags: commands.NoAuth | commands.LogsIn},
	{Name: "quit", Arity: -1, Run: quit, Queue: commands.QueueNot,
		Flags: commands.NoAuth | commands.Alone | commands.InSubscriber},
	{Name: "reset", Arity: 1, Run: reset, Queue: commands.QueueNot,
		Flags: commands.NoAuth | commands.Alone | commands.InSubscriber},
	{Name: "select", Arity: 2, Run: selectDB, Queue: commands.QueueForward, Queued: selects},
	{Name: "readonly", Arity: 1, Run: readOnly},
	{Name: "readwrite", Arity: 1, Run: readWrite},
	{Name: "post", Arity: -1, Flags: commands.NoAuth, Run: crossProtocol, Queue: commands.QueueNot},
	{Name: "host:", Arity: -1, Flags: commands.NoAuth, Run: crossProtocol, Queue: commands.QueueNot},
	{Name: "client", Arity: -2, Flags: commands.BesideCaching, Run: commands.NoSubcommand},
	{Name: "client|setname", Arity: 3, Run: commands.Answering(clientSetName)},
	{Name: "client|getname", Arity: 2, Run: clientGetName},
	{Name: "client|id", Arity: 2, Run: clientID},
	{Name: "client|setinfo", Arity: 4, Run: commands.Answering(clientSetInfo)},
	{Name: "client|info", Arity: 2, Run: clientInfo},
	{Name: "client|no-evict", Arity: 3, Run: clientNoEvict},
	{Name: "client|no-touch", Arity: 3, Run: clientNoTouch},
	{Name: "client|import-source", Arity: 3, Run: commands.SinceValkey(8, 1, clientImportSource)},
	{Name: "client|capa", Arity: -3, MaxArgs: commands.MaxOptions,
		Run: commands.SinceValkey(8, 0, clientCapa)},
	{Name: "client|getredir", Arity: 2, Run: clientGetRedir},
	{Name: "client|help", Route: commands.AnyNode, Flags: commands.ReadOnly},
	{Name: "client|list", Arity: -2, MaxArgs: commands.MaxIDs, Run: clientList},
	{Name: "client|kill", Arity: -3, MaxArgs: commands.MaxOptions, Run: clientKill},
	{Name: "client|pause", Arity: -3, MaxArgs: commands.MaxOptions, Run: commands.Answering(clientPause)},
	{Name: "client|unpause", Arity: 2, Flags: commands.EndsPause, Run: clientUnpause},
	{Name: "client|unblock", Arity: -3, MaxArgs: commands.MaxOptions, Run: commands.Answering(clientUnblock)},
	{Name: "client|reply", Arity: 3, Run: clientReply, Queue: commands.QueueNever},
	{Name: "client|tracking", Arity: -3, MaxArgs: commands.MaxOptions,
		Run: commands.Answering(clientTracking)},
	{Name: "client|trackinginfo", Arity: 2, Run: clientTrackingInfo},
	{Name: "client|caching", Arity: 3, Run: clientCaching, Queue: commands.QueueForward},
	// What makes a transaction cannot be queued in it. UNWATCH can, and does nothing there.
	{Name: "multi", Arity: 1, Run: ofTransaction(commands.Transactions.Multi), Queue: commands.QueueNot,
		Flags: commands.Alone},
	{Name: "exec", Arity: 1, Run: ofTransaction(commands.Transactions.Exec), Queue: commands.QueueNot,
		Flags: commands.RunsQueue | commands.EndsMulti},
	{Name: "discard", Arity: 1, Run: ofTransaction(commands.Transactions.Discard), Queue: commands.QueueNot,
		Flags: commands.EndsMulti},
	{Name: "watch", Arity: -2, Run: ofTransaction(commands.Transactions.Watch), Queue: commands.QueueNot,
		Flags: commands.Alone | commands.Judged | commands.Bulky},
	{Name: "unwatch", Arity: 1, Run: ofTransaction(commands.Transactions.Unwatch),
		Queue: commands.QueueForward},
	{Name: "monitor", Arity: 1, Run: monitor, Queue: commands.QueueNever},
}

// ofTransaction is a command that changes the transaction of the connection and nothing else.
func ofTransaction(step func(commands.Transactions)) func(c *commands.Call) {
	return func(c *commands.Call) { step(c.Transactions()) }
}
