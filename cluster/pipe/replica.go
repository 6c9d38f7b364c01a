package pipe

import (
	"errors"
	"time"

	"lockproxy/cluster"
)

// This file is about reads at replicas:
//
//	Request.Readers --> a fit replica of the slot's master ... reply
//	                                    \--> in trouble: the master, at once
//
// A read that a replica cannot answer goes to the master like any other request; it may run twice.

// shunFor is how long a replica is not used after it has refused a read. By then its state is known.
const shunFor = time.Second

// errUnfit is why the connection to a replica was closed: its reads go elsewhere.
var errUnfit = errors.New("the replica is not fit to be read from")

// followReaders takes over which replicas may be read from. Reads that are on their way to other replicas are
// sent again elsewhere.
func (p *Pool) followReaders(t *cluster.Topology) {
	p.readers = make([][]node, len(t.Masters))
	fit := make(map[string]bool)
	for i, master := range t.Masters {
		for _, n := range t.Readers[master] {
			fit[n.Addr] = true
			p.readers[i] = append(p.readers[i], node{addr: n.Addr})
		}
	}
	for _, pipe := range p.byNode {
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
func (p *Pool) readerFor(r *Request) *Pipe {
	n, i := r.Target.n, 0
	if n >= 0 {
		i = int(p.index[n])
	}
	if r.Mode.Own != nil || i < 0 || i >= len(p.readers) || n < 0 && len(p.masters) != 1 {
		return nil
	}
	return p.reader(p.readers[i], r.Mode, uint64(r.Seed), r.Readers == AllReaders)
}

// reader is the pipe to one of the readers; nil if none can be used now, or if it is the master's turn.
func (p *Pool) reader(all []node, m Mode, seed uint64, share bool) *Pipe {
	n := uint64(len(all))
	if n == 0 || share && seed%(n+1) == n {
		return nil
	}
	now := p.loop.Now()
	for k := range n {
		pipe := all[(seed+k)%n].pipe(p, Mode{Proto: m.Proto, DB: m.DB, Replica: true})
		if !now.Before(pipe.retryAt) && !now.Before(pipe.shunned) {
			return pipe
		}
	}
	return nil
}
