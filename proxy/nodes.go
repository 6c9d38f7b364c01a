package proxy

import (
	"cmp"
	"strconv"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/slot"
)

// nodes is the upstream as a loop sees it: it implements commands.Nodes and commands.Notes.
type nodes struct{ w *worker }

// scans is what a worker keeps for SCAN.
type scans struct {
	topology *cluster.Topology // of layout
	layout   string
	notes    map[string]string // by name of the node
}

// maxScanNotes bounds how many nodes have notes.
const maxScanNotes = 4096

// masters is how many masters the upstream has now.
func (w *worker) masters() int { return len(w.pool.Topology().Masters) }

// Masters implements commands.Nodes.
func (n nodes) Masters() int { return n.w.masters() }

// Owner implements commands.Nodes.
func (n nodes) Owner(slot int) int { return n.w.pool.Owner(slot) }

// Name implements commands.Nodes.
func (n nodes) Name(i int) string {
	node := n.w.pool.Topology().Masters[i]
	return cmp.Or(node.ID, node.Addr)
}

// Addr implements commands.Nodes.
func (n nodes) Addr(i int) string { return n.w.pool.Topology().Masters[i].Addr }

// Single implements commands.Nodes.
func (n nodes) Single() bool { return n.w.pool.Topology().Kind == cluster.Single }

// Busy implements commands.Nodes.
func (n nodes) Busy() bool { return n.w.shared.Pipes.Stuck.Load() > 0 }

// TellReplicas implements commands.Nodes.
func (n nodes) TellReplicas(req []byte) {
	for _, node := range n.w.pool.Topology().Replicas {
		n.w.pool.Send(&pipe.Request{
			Target: pipe.ToNode(node.Addr), Mode: pipe.Mode{Proto: 2}, Bytes: req,
			To:     &pipe.Collector{Then: func(reply []byte, err error) { n.w.told(node.Addr, reply, err) }},
			Resend: true,
		})
	}
}

// Notes implements commands.Nodes.
func (n nodes) Notes() commands.Notes { return n }

// Layout implements commands.Notes.
func (n nodes) Layout() string {
	m := &n.w.scans
	if t := n.w.pool.Topology(); t != m.topology {
		m.topology, m.layout = t, n.writeLayout()
	}
	return m.layout
}

// writeLayout writes the first slot of each run of slots, and the name of its master.
func (n nodes) writeLayout() string {
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
func (n nodes) Of(name string) string { return n.w.scans.notes[name] }

// Set implements commands.Notes.
func (n nodes) Set(name, text string) {
	m := &n.w.scans
	if m.notes == nil || len(m.notes) >= maxScanNotes {
		m.notes = make(map[string]string)
	}
	m.notes[name] = text
}

// told takes the reply of the replica at addr.
func (w *worker) told(addr string, reply []byte, err error) {
	switch log := w.shared.Log; {
	case err != nil:
		log.Warn("replica could not be told what its master was", "node", addr, "err", err)
	case reply[0] == '-':
		log.Warn("replica refused what its master took", "node", addr, "err", string(reply))
	}
}
