// Package scan has SCAN over several masters, with a cursor of one number and no state at the proxy, and
// RANDOMKEY.
//
//	Rows --> scan(Call) --> parseScanCursor --> byNode: a page of one master | bySlot: a page of one slot
//	                                        --> the next cursor
//
// Each key that is there all the time is seen, also when slots move and masters fail meanwhile (scan.go).
package scan

import "lockproxy/commands"

// Rows are the rules for SCAN and RANDOMKEY.
var Rows = []commands.Row{
	{Name: "scan", Arity: -2, MaxArgs: commands.MaxOptions, Run: scan, Queue: commands.QueueAlone,
		Flags: commands.ReadOnly | commands.Stepwise},
	{Name: "randomkey", Arity: 1, Run: randomKey, Queue: commands.QueueAlone,
		Flags: commands.ReadOnly | commands.Stepwise},
}
