package commands

// rowsOfScan are the rules for SCAN and RANDOMKEY.
var rowsOfScan = []Row{
	{Name: "scan", Arity: -2, MaxArgs: mostOptions, Flags: ReadOnly | Stepwise, Run: scan, Queue: QueueAlone},
	{Name: "randomkey", Arity: 1, Flags: ReadOnly | Stepwise, Run: randomKey, Queue: QueueAlone},
}
