// Package nodes is the nodes of the upstream as the commands of one loop see them, and what SCAN notes of
// them.
package nodes

import (
	"cmp"
	"log/slog"
	"strconv"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/slot"
)

// Nodes is the upstream as a loop sees it: it implements commands.Nodes and commands.Notes. It belongs to the
// loop.
type Nodes struct {
	pool  *pipe.Pool
	stats *pipe.Stats
	log   *slog.Logger

	topology *cluster.Topology // of layout
	layout   string
	notes    map[string]string // of SCAN, by name of the node
}

// New is that of the loop with pool.
func New(pool *pipe.Pool, stats *pipe.Stats, log *slog.Logger) *Nodes {
	return &Nodes{pool: pool, stats: stats, log: log}
}

// maxScanNotes bounds how many nodes have notes.
const maxScanNotes = 4096

// Masters implements commands.Nodes.
func (n *Nodes) Masters() int { return len(n.pool.Topology().Masters) }

// Owner implements commands.Nodes.
func (n *Nodes) Owner(slot int) int { return n.pool.Owner(slot) }

// Name implements commands.Nodes.
func (n *Nodes) Name(i int) string {
	node := n.pool.Topology().Masters[i]
	return cmp.Or(node.ID, node.Addr)
}

// Addr implements commands.Nodes.
func (n *Nodes) Addr(i int) string { return n.pool.Topology().Masters[i].Addr }

// Single implements commands.Nodes.
func (n *Nodes) Single() bool { return n.pool.Topology().Kind == cluster.Single }

// Busy implements commands.Nodes.
func (n *Nodes) Busy() bool { return n.stats.Stuck.Load() > 0 }

// TellReplicas implements commands.Nodes.
func (n *Nodes) TellReplicas(req []byte) {
	for _, node := range n.pool.Topology().Replicas {
		pipe.Ask(n.pool, pipe.ToNode(node.Addr), pipe.Mode{Proto: 2}, req, func(reply []byte, err error) {
			switch {
			case err != nil:
				n.log.Warn("replica could not be told what its master was", "node", node.Addr, "err", err)
			case reply[0] == '-':
				n.log.Warn("replica refused what its master took", "node", node.Addr, "err", string(reply))
			}
		})
	}
}

// Notes implements commands.Nodes.
func (n *Nodes) Notes() commands.Notes { return n }

// Layout implements commands.Notes.
func (n *Nodes) Layout() string {
	if t := n.pool.Topology(); t != n.topology {
		n.topology, n.layout = t, n.writeLayout()
	}
	return n.layout
}

// writeLayout writes the first slot of each run of slots, and the name of its master.
func (n *Nodes) writeLayout() string {
	var b []byte
	last := -2
	for s := range slot.Count {
		if owner := n.Owner(s); owner != last {
			last = owner
			b = append(strconv.AppendInt(b, int64(s), 10), ' ')
			if owner >= 0 {
				b = append(append(b, n.Name(owner)...), ' ')
			}
		}
	}
	return string(b)
}

// Of implements commands.Notes.
func (n *Nodes) Of(name string) string { return n.notes[name] }

// Set implements commands.Notes.
func (n *Nodes) Set(name, text string) {
	if n.notes == nil || len(n.notes) >= maxScanNotes {
		n.notes = make(map[string]string)
	}
	n.notes[name] = text
}
