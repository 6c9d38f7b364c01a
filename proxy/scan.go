package proxy

import (
	"strconv"

	"lockproxy/cluster"
	"lockproxy/commands"
	"lockproxy/internal/slot"
)

// This file is what SCAN may ask of a session: it implements commands.ScanFan for the command s.current.

// scans is what a worker keeps for SCAN.
type scans struct {
	topology *cluster.Topology // of layout
	layout   string
	notes    map[string]string // by name of the node
}

// maxScanNotes bounds the nodes that something is noted of.
const maxScanNotes = 4096

// MasterAddr implements commands.ScanFan.
func (s *session) MasterAddr(i int) string { return s.w.pipes.Topology().Masters[i].Addr }

// Layout implements commands.ScanFan.
func (s *session) Layout() string {
	m := &s.w.scans
	if t := s.w.pipes.Topology(); t != m.topology {
		m.topology, m.layout = t, s.writeLayout()
	}
	return m.layout
}

// writeLayout has a number for the first slot of each run, and the name of its master.
func (s *session) writeLayout() string {
	var b []byte
	last := -2
	for n := range slot.Count {
		if owner := s.Owner(n); owner != last {
			last = owner
			b = append(strconv.AppendInt(b, int64(n), 10), ' ')
			if owner >= 0 {
				b = append(append(b, s.MasterName(owner)...), ' ')
			}
		}
	}
	return string(b)
}

// Noted implements commands.ScanFan.
func (s *session) Noted(name string) string { return s.w.scans.notes[name] }

// Note implements commands.ScanFan.
func (s *session) Note(name, text string) {
	m := &s.w.scans
	if m.notes == nil || len(m.notes) >= maxScanNotes {
		m.notes = make(map[string]string)
	}
	m.notes[name] = text
}

// SendAll implements commands.ScanFan.
func (s *session) SendAll(addr string, reqs [][]byte, then commands.Merge) {
	s.acted = true
	g := newGather(s, len(reqs), then)
	for i, req := range reqs {
		s.feed(s.w.pipes.Send(cluster.Request{
			Target: cluster.ToNode(addr), Mode: s.mode(), Bytes: req, To: g, Tag: uint32(i), Resend: true,
		}))
	}
}
