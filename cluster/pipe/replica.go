package pipe

import (
	"lockproxy/cluster"
)

// This file is about reads at replicas:
//
//	Request.Readers --> a fit replica of the slot's master ... reply
//	                                    \--> in trouble: the master, at once
//
// A read that a replica cannot answer goes to the master like any other request; it may run twice.

// followReaders takes over which replicas may be read from. Reads that are on their way to other replicas are
// sent again elsewhere.
func (s *sharedPipes) followReaders(t *cluster.Topology) {
	s.readers = make([][]node, len(t.Masters))
	fit := make(map[string]bool)
	for i, master := range t.Masters {
		for _, n := range t.Readers[master] {
			fit[n.Addr] = true
			s.readers[i] = append(s.readers[i], node{addr: n.Addr})
		}
	}
	for _, pipe := range s.byNode {
		switch {
		case !pipe.mode.Replica || fit[pipe.addr]:
		case pipe.dialing:
			pipe.cancel()
		default:
			pipe.hangUp(errUnfit)
		}
	}
}

// readerFor is the pipe to a replica that may answer r now: a replica of its slot's master, or of the only
// master if r names no slot. nil: r goes to the master. A client with connections of its own has them to
// masters only.
func (s *sharedPipes) readerFor(r *Request) *Pipe {
	n, i := r.Target.n, 0
	if n >= 0 {
		i = int(s.index[n])
	}
	if r.Mode.Own != nil || i < 0 || i >= len(s.readers) || n < 0 && len(s.masters) != 1 {
		return nil
	}
	return s.reader(s.readers[i], r.Mode, uint64(r.Seed), r.Readers == AllReaders)
}

// reader is the pipe to one of the readers; nil if none can be used now, or if it is the master's turn.
func (s *sharedPipes) reader(all []node, m Mode, seed uint64, share bool) *Pipe {
	n := uint64(len(all))
	if n == 0 || share && seed%(n+1) == n {
		return nil
	}
	now := s.loop.Now()
	for k := range n {
		pipe := all[(seed+k)%n].pipe(s, Mode{Proto: m.Proto, DB: m.DB, Replica: true})
		if !now.Before(pipe.retryAt) && !now.Before(pipe.shunned) {
			return pipe
		}
	}
	return nil
}
