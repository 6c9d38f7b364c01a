package proxy

import (
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
)

var overloaded = []byte("-BUSY the node of this key has more to do than it can, so its answers would " +
	"take longer than shed-after, and the command has not run: send it again after a pause, or give the " +
	"upstream more nodes\r\n")

// shed refuses a command whose master is overloaded, and reports whether it has. Locks, transactions,
// commands that block and those that go to several nodes are not refused: they are few, or others wait for
// them.
func (r *router) shed(slot int, cmd *commands.Command) bool {
	s := r.s
	if !s.w.shared.Fixed.Sheds || r.readers(cmd) != pipe.MasterOnly ||
		!s.w.pool.Overloaded(slot, s.Mode()) {
		return false
	}
	s.Reply(overloaded)
	return true
}
