package scan

import "lockproxy/commands"

// Rows are the rules for SCAN and RANDOMKEY.
var Rows = []commands.Row{
	{Name: "scan", Arity: -2, MaxArgs: commands.MaxOptions, Run: scan, Queue: commands.QueueAlone,
		Flags: commands.ReadOnly | commands.Stepwise},
	{Name: "randomkey", Arity: 1, Run: randomKey, Queue: commands.QueueAlone,
		Flags: commands.ReadOnly | commands.Stepwise},
}
