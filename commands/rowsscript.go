package commands

import "lockproxy/commands/merge"

// rowsOfScript are the rules for scripts and functions.
var rowsOfScript = []Row{
	{Name: "eval", Arity: -3, Flags: Scripted | Judged | Bulky, Run: eval, Queue: QueueForward, Script: scriptSource},
	{Name: "eval_ro", Arity: -3, Flags: Scripted | Judged | Bulky, Run: eval, Queue: QueueForward, Script: scriptSource},
	{Name: "evalsha", Route: ByKeys, Flags: Scripted, Script: scriptSHA},
	{Name: "evalsha_ro", Route: ByKeys, Flags: Scripted, Script: scriptSHA},
	{Name: "fcall", Route: ByKeys, Flags: Scripted, Script: scriptFunction},
	{Name: "fcall_ro", Route: ByKeys, Flags: Scripted, Script: scriptFunction},
	{Name: "script|load", Arity: 3, Flags: Fanned | Bulky, Run: scriptLoad, Queued: loadsScript},
	{Name: "script|flush", Arity: -2, Flags: Fanned | Stepwise, Run: scriptFlush},
	{Name: "script|exists", Arity: -3, MaxArgs: mostIDs, Flags: ReadOnly | Fanned, Run: scriptExists},
	{Name: "script|kill", Flags: Fanned | Judged, Run: killScript},
	{Name: "script|debug", Route: Refused, Why: ": a debugger needs a connection to one server for itself"},
	{Name: "function|load", Flags: Fanned | Bulky, Run: functionLoad, Queue: QueueEverywhere},
	{Name: "function|restore", Route: AllNodes, Merge: merge.First, Queue: QueueEverywhere},
	{Name: "function|delete", Route: AllNodes, Merge: merge.First, Queue: QueueEverywhere},
	{Name: "function|flush", Route: AllNodes, Merge: merge.First, Queue: QueueEverywhere},
	{Name: "function|list", Route: AnyNode, Flags: ReadOnly},
	{Name: "function|dump", Route: AnyNode, Flags: ReadOnly},
	{Name: "function|stats", Flags: Fanned | Judged | Alone | Stepwise, Run: functionStats, Queue: QueueSpread},
	{Name: "function|kill", Flags: Fanned | Judged, Run: killScript},
}
