// Package script has EVAL, SCRIPT and FUNCTION.
//
// A client loads a script once and calls it by its SHA1. Behind a proxy the call may reach a node that does
// not have it, because masters fail over and slots move. So the proxy remembers the sources that it has seen
// (commands.Scripts) and gives them to nodes that have lost them:
//
//	EVAL source   --> eval(Call) --> Scripts.Add --> the master of the keys
//	EVALSHA sha   --> by its keys --> NOSCRIPT --> pipe loads the source, and sends EVALSHA again
//	SCRIPT LOAD   --> scriptLoad(Call) --> all masters; remembered when one has taken it
//	SCRIPT FLUSH  --> scriptFlush(Call) --> all masters; forgotten when one has
//
// A script without keys goes to the master of the first key that its source names, or of its SHA1
// (commands/scripthome.go). What a user may not do at the nodes, the proxy's memory must not do for him: the
// sources of a user of the upstream are remembered only after a node has run them.
//
// SCRIPT KILL and FUNCTION STATS go over connections of their own: on the shared ones they would wait behind
// the very script that they are about.
//
// Begin with eval (script.go).
package script

import (
	"lockproxy/commands"
	"lockproxy/commands/merge"
)

// Rows are the rules for scripts and functions.
var Rows = []commands.Row{
	{Name: "eval", Arity: -3, Run: eval, Queue: commands.QueueForward, Script: commands.ScriptSource,
		Flags: commands.Scripted | commands.Judged | commands.Bulky},
	{Name: "eval_ro", Arity: -3, Run: eval, Queue: commands.QueueForward, Script: commands.ScriptSource,
		Flags: commands.Scripted | commands.Judged | commands.Bulky},
	{Name: "evalsha", Route: commands.ByKeys, Flags: commands.Scripted, Script: commands.ScriptSHA},
	{Name: "evalsha_ro", Route: commands.ByKeys, Flags: commands.Scripted, Script: commands.ScriptSHA},
	{Name: "fcall", Route: commands.ByKeys, Flags: commands.Scripted, Script: commands.ScriptFunction},
	{Name: "fcall_ro", Route: commands.ByKeys, Flags: commands.Scripted, Script: commands.ScriptFunction},
	{Name: "script|load", Arity: 3, Run: scriptLoad, Queued: loadsScript,
		Flags: commands.Fanned | commands.Bulky},
	{Name: "script|flush", Arity: -2, Flags: commands.Fanned | commands.Stepwise, Run: scriptFlush},
	{Name: "script|exists", Arity: -3, MaxArgs: commands.MaxIDs, Run: scriptExists,
		Flags: commands.ReadOnly | commands.Fanned},
	// of Valkey: any node may have it
	{Name: "script|show", Route: commands.AllNodes, Flags: commands.ReadOnly, Merge: merge.One},
	{Name: "script|kill", Flags: commands.Fanned | commands.Judged, Run: killScript},
	{Name: "script|debug", Route: commands.Refused,
		Why: ": a debugger needs a connection to one server for itself"},
	{Name: "function|load", Run: functionLoad, Queue: commands.QueueEverywhere,
		Flags: commands.Fanned | commands.Bulky},
	{Name: "function|restore", Route: commands.AllNodes, Merge: merge.First, Queue: commands.QueueEverywhere},
	{Name: "function|delete", Route: commands.AllNodes, Merge: merge.First, Queue: commands.QueueEverywhere},
	{Name: "function|flush", Route: commands.AllNodes, Merge: merge.First, Queue: commands.QueueEverywhere},
	{Name: "function|list", Route: commands.AnyNode, Globs: commands.GlobsBehind("LIBRARYNAME"),
		Flags: commands.ReadOnly},
	{Name: "function|dump", Route: commands.AnyNode, Flags: commands.ReadOnly},
	{Name: "function|stats", Run: functionStats, Queue: commands.QueueSpread,
		Flags: commands.Fanned | commands.Judged | commands.Alone | commands.Stepwise},
	{Name: "function|kill", Flags: commands.Fanned | commands.Judged, Run: killScript},
}
