package proxy

import (
	"errors"
	"slices"

	"lockproxy/cluster"
)

// writes is where a client has written to since its writes were last known to be with the
// replicas that it asked for.
type writes struct {
	nodes     []string // addresses
	somewhere bool     // elsewhere too, nobody knows where
	synced    bool     // WAIT has said so: the next write is the first of others
}

var errReplaced = errors.New("a master that this connection wrote to has been replaced: what became of the writes is not known")

// wrote notes that a command went over p which may change data; nil: it waits for a node. What a client's
// commands change over other pipes must be noted too.
func (s *session) wrote(p *cluster.Pipe) {
	if p == nil {
		s.wroteSomewhere()
	} else if p != s.lastWrote {
		s.wroteOver(p)
	}
}

func (s *session) wroteOver(p *cluster.Pipe) {
	w := s.writing()
	s.lastWrote = p
	if !slices.Contains(w.nodes, p.Addr()) {
		w.nodes = append(w.nodes, p.Addr())
	}
}

// wroteSomewhere notes a write that may be with any master.
func (s *session) wroteSomewhere() { s.writing().somewhere = true }

// writing is where the next write is noted.
func (s *session) writing() *writes {
	if s.writes == nil || s.writes.synced {
		s.writes = new(writes)
	}
	return s.writes
}

// synced notes that WAIT was answered with as many replicas as were asked for.
func (s *session) synced() {
	if s.writes != nil {
		s.writes.synced, s.lastWrote = true, nil
	}
}

// writtenTo are the addresses of the masters that this client has written to: all of them if nobody knows,
// or it has not written, which any tells. A master that has left takes the writes with
// it as far as anybody knows: that is an error, once.
func (s *session) writtenTo() (nodes []string, any bool, err error) {
	var all []string
	for _, n := range s.w.pipes.Topology().Masters {
		all = append(all, n.Addr)
	}
	if len(all) == 0 {
		return nil, false, errNoMasters
	}
	w := s.writes
	if w == nil {
		return all, false, nil
	}
	for _, node := range w.nodes {
		if !slices.Contains(all, node) {
			s.writes, s.lastWrote = nil, nil
			return nil, false, errReplaced
		}
	}
	if w.somewhere {
		return all, true, nil
	}
	return w.nodes, true, nil
}
