package commands

// Fan is the part of Actions for commands that concern several nodes, besides
// Broadcast. Owner, MasterName, Single, Busy and Tell do not answer; the others do, as in Actions.
type Fan interface {
	// Owner is the number of the master of a slot, as SendMaster counts them; -1 if nobody
	// serves it.
	Owner(slot int) int
	// MasterName is by what the i-th master is known: its node id in a cluster, else its
	// address.
	MasterName(i int) string
	// Single says that the upstream is one Redis that no other takes over from.
	Single() bool
	// Busy says that a script has kept a node busy for longer than a moment.
	Busy() bool
	// Gather is Broadcast whose then runs also when the client has gone meanwhile,
	// and may go on instead of answering, as then of Send may.
	Gather(req []byte, resend bool, then Merge)
	// Split sends each part to the master of its slot and answers with merge of
	// the replies. resend: as in Send.
	Split(parts []Part, resend bool, merge Merge)
	// Apart is Broadcast over connections that nobody else uses meanwhile, to database
	// 0: nothing that goes on on the shared ones is in its way.
	Apart(req []byte, merge Merge)
	// SendTo is Send to the node at addr and to no other, master or not.
	SendTo(addr string, req []byte, resend bool, then func(reply []byte) []byte)
	// Tell sends req to all replicas that can be reached. Nobody waits for them.
	Tell(req []byte)
}
