// Package scan has SCAN over several masters, with a cursor that is one number and without state at the
// proxy, and RANDOMKEY.
//
//	SCAN 0 --> scan(Call) --> parseScanCursor --> byNode: a page of one master | bySlot: a page of one slot
//	  ^                                                            |
//	  +-- cursor, keys <-- scanCursor.number <---------------------+
//
// SCAN promises to return each key that is there all the time. One Redis keeps that promise. With several
// masters two things may break it: slots move, and another process takes over from a master, to which the old
// cursors mean nothing. So a cursor names what it relies on:
//
//	cursor of the node | tag: run id, epoch, layout | first slot that is not done | form
//
// While the tag is right the masters are scanned one after the other, each with its own cursor (nodes.go). As
// soon as it is not, the slots that are not done are read one by one, each in one instant (slots.go). Keys
// may then come twice, as they may in Redis, but none is left out. All of that is in the cursor, so that any
// proxy can go on.
//
// Begin with scan (scan.go), then scanCursor (cursor.go).
package scan

import "lockproxy/commands"

// Rows are the rules for SCAN and RANDOMKEY.
var Rows = []commands.Row{
	{Name: "scan", Arity: -2, MaxArgs: commands.MaxOptions, Run: commands.Answering(scan),
		Queue: commands.QueueAlone, Globs: commands.GlobsBehind("MATCH"),
		Flags: commands.ReadOnly | commands.Stepwise},
	{Name: "randomkey", Arity: 1, Run: randomKey, Queue: commands.QueueAlone,
		Flags: commands.ReadOnly | commands.Stepwise},
}
