package commands

// Nodes is what a command may learn of the upstream's nodes, and may tell them. None of its methods answers
// the command.
type Nodes interface {
	// Masters is how many masters the upstream has now. They are counted from 0 in the order of their lowest
	// slots.
	Masters() int
	// Owner is the number of the master of a slot; -1 if nobody serves it.
	Owner(slot int) int
	// Name identifies the i-th master: by its node id in a cluster, otherwise by its address.
	Name(i int) string
	// Addr is where the i-th master is reached.
	Addr(i int) string
	// Single says that the upstream is one Redis, with no other that could take over from it.
	Single() bool
	// Busy says that a script has kept a node busy for longer than a moment.
	Busy() bool
	// TellReplicas sends req to all replicas that can be reached. Nobody waits for them.
	TellReplicas(req []byte)
	// Notes is what SCAN keeps of the nodes.
	Notes() Notes
}

// Notes are short texts of SCAN, one a node.
type Notes interface {
	// Layout is a text that says which slots each master has. It changes whenever they do.
	Layout() string
	// Of is what was noted of the node of that name, "" if nothing was.
	Of(name string) string
	// Set keeps a text for Of. It may be forgotten at any time.
	Set(name, text string)
}
