package commands

// Nodes is what a command may know of the upstream's nodes, and tell them. None of it answers the command.
type Nodes interface {
	// Masters is how many masters the upstream has now. They are counted from 0 in the order of their lowest
	// slots.
	Masters() int
	// Owner is the number of the master of a slot; -1 if nobody serves it.
	Owner(slot int) int
	// Name is by what the i-th master is known: its node id in a cluster, else its address.
	Name(i int) string
	// Addr is where the i-th master is reached.
	Addr(i int) string
	// Single says that the upstream is one Redis that no other takes over from.
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
	// Layout says which slots which master has: it is another text whenever that changes.
	Layout() string
	// Of is what was noted of the node of that name, "" if nothing was.
	Of(name string) string
	// Set keeps a text for Of. It may be forgotten at any time.
	Set(name, text string)
}
