package pipe

import "bytes"

// interruption is the error by which a node that becomes a replica ends the commands that block there. Then
// it closes their connections.
var interruption = []byte("-UNBLOCKED force unblock")

// Interrupted says that an error reply ended a blocking command that had no effect, because its node is no
// longer a master.
func Interrupted(reply []byte) bool { return bytes.HasPrefix(reply, interruption) }

// Refresh hints that the topology may be out of date.
func (p *Pool) Refresh() { p.control.Refresh() }
