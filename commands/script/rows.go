package script

import (
	"lockproxy/commands"
	"lockproxy/commands/merge"
)

// Rows are the rules for scripts and functions.
var Rows = []commands.Row{
	{Name: "eval", Arity: -3, Flags: commands.Scripted | commands.Judged | commands.Bulky, Run: eval, Queue: commands.QueueForward, Script: commands.ScriptSource},
	{Name: "eval_ro", Arity: -3, Flags: commands.Scripted | commands.Judged | commands.Bulky, Run: eval, Queue: commands.QueueForward, Script: commands.ScriptSource},
	{Name: "evalsha", Route: commands.ByKeys, Flags: commands.Scripted, Script: commands.ScriptSHA},
	{Name: "evalsha_ro", Route: commands.ByKeys, Flags: commands.Scripted, Script: commands.ScriptSHA},
	{Name: "fcall", Route: commands.ByKeys, Flags: commands.Scripted, Script: commands.ScriptFunction},
	{Name: "fcall_ro", Route: commands.ByKeys, Flags: commands.Scripted, Script: commands.ScriptFunction},
	{Name: "script|load", Arity: 3, Flags: commands.Fanned | commands.Bulky, Run: scriptLoad, Queued: loadsScript},
	{Name: "script|flush", Arity: -2, Flags: commands.Fanned | commands.Stepwise, Run: scriptFlush},
	{Name: "script|exists", Arity: -3, MaxArgs: commands.MaxIDs, Flags: commands.ReadOnly | commands.Fanned, Run: scriptExists},
	{Name: "script|kill", Flags: commands.Fanned | commands.Judged, Run: killScript},
	{Name: "script|debug", Route: commands.Refused, Why: ": a debugger needs a connection to one server for itself"},
	{Name: "function|load", Flags: commands.Fanned | commands.Bulky, Run: functionLoad, Queue: commands.QueueEverywhere},
	{Name: "function|restore", Route: commands.AllNodes, Merge: merge.First, Queue: commands.QueueEverywhere},
	{Name: "function|delete", Route: commands.AllNodes, Merge: merge.First, Queue: commands.QueueEverywhere},
	{Name: "function|flush", Route: commands.AllNodes, Merge: merge.First, Queue: commands.QueueEverywhere},
	{Name: "function|list", Route: commands.AnyNode, Flags: commands.ReadOnly},
	{Name: "function|dump", Route: commands.AnyNode, Flags: commands.ReadOnly},
	{Name: "function|stats", Flags: commands.Fanned | commands.Judged | commands.Alone | commands.Stepwise, Run: functionStats, Queue: commands.QueueSpread},
	{Name: "function|kill", Flags: commands.Fanned | commands.Judged, Run: killScript},
}
