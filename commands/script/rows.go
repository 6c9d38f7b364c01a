// Package script has EVAL, SCRIPT and FUNCTION. The sources that clients use are kept in commands.Scripts, so
// that a node which has lost one is given it again.
//
//	Rows --> eval(Call) --> Scripts.Add --> the master of the keys, or of the key that the source names
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
	{Name: "script|kill", Flags: commands.Fanned | commands.Judged, Run: killScript},
	{Name: "script|debug", Route: commands.Refused,
		Why: ": a debugger needs a connection to one server for itself"},
	{Name: "function|load", Run: functionLoad, Queue: commands.QueueEverywhere,
		Flags: commands.Fanned | commands.Bulky},
	{Name: "function|restore", Route: commands.AllNodes, Merge: merge.First, Queue: commands.QueueEverywhere},
	{Name: "function|delete", Route: commands.AllNodes, Merge: merge.First, Queue: commands.QueueEverywhere},
	{Name: "function|flush", Route: commands.AllNodes, Merge: merge.First, Queue: commands.QueueEverywhere},
	{Name: "function|list", Route: commands.AnyNode, Flags: commands.ReadOnly},
	{Name: "function|dump", Route: commands.AnyNode, Flags: commands.ReadOnly},
	{Name: "function|stats", Run: functionStats, Queue: commands.QueueSpread,
		Flags: commands.Fanned | commands.Judged | commands.Alone | commands.Stepwise},
	{Name: "function|kill", Flags: commands.Fanned | commands.Judged, Run: killScript},
}
