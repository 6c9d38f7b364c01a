package scan

import "lockproxy/commands"

// Rows are the rules for SCAN and RANDOMKEY.
var Rows = []commands.Row{
	{Name: "scan", Arity: -2, MaxArgs: commands.MaxOptions, Flags: commands.ReadOnly | commands.Stepwise, Run: scan, Queue: commands.QueueAlone},
	{Name: "randomkey", Arity: 1, Flags: commands.ReadOnly | commands.Stepwise, Run: randomKey, Queue: commands.QueueAlone},
}
