package pipe

import "bytes"

// interruption is what a node says to the clients that it blocks when it becomes a replica.
// It closes their connections behind that.
var interruption = []byte("-UNBLOCKED force unblock")

// Interrupted says that an error reply ended a command that was blocking, and that had no effect,
// because its node is no master any more.
func Interrupted(reply []byte) bool { return bytes.HasPrefix(reply, interruption) }

// Refresh hints that the topology may be out of date.
func (p *Pool) Refresh() { p.control.Refresh() }
