package proxy

import (
	"errors"
	"slices"

	"lockproxy/cluster"
)

// writes is where a client has written to since its writes were last known to be with the
// replicas that it asked for. WAIT asks for it. The zero value: it has not written.
type writes struct {
	last  *cluster.Pipe // the last one that was noted, or nil
	since *written
}

// written are the writes since WAIT was satisfied.
type written struct {
	nodes     []string // addresses
	somewhere bool     // elsewhere too, nobody knows where
	synced    bool     // WAIT has said so: the next write is the first of others
}

var errReplaced = errors.New("a master that this connection wrote to has been replaced: what became of the writes is not known")

// add notes that a command went over p which may change data; nil: it waits for a node. What a client's
// commands change over other pipes must be noted too.
func (w *writes) add(p *cluster.Pipe) {
	if p == nil {
		w.addSomewhere()
	} else if p != w.last {
		w.addNode(p)
	}
}

func (w *writes) addNode(p *cluster.Pipe) {
	n := w.next()
	w.last = p
	if !slices.Contains(n.nodes, p.Addr()) {
		n.nodes = append(n.nodes, p.Addr())
	}
}

// addSomewhere notes a write that may be with any master.
func (w *writes) addSomewhere() { w.next().somewhere = true }

// next is where the next write is noted.
func (w *writes) next() *written {
	if w.since == nil || w.since.synced {
		w.since = new(written)
	}
	return w.since
}

// synced notes that WAIT was answered with as many replicas as were asked for.
func (w *writes) synced() {
	if w.since != nil {
		w.since.synced, w.last = true, nil
	}
}

// nodes are the addresses of the masters that the client has written to: all of them if nobody knows,
// or it has not written, which any tells. A master that has left takes the writes with
// it as far as anybody knows: that is an error, once.
func (w *writes) nodes(masters []*cluster.Node) (nodes []string, any bool, err error) {
	var all []string
	for _, n := range masters {
		all = append(all, n.Addr)
	}
	switch {
	case len(all) == 0:
		return nil, false, errNoMasters
	case w.since == nil:
		return all, false, nil
	}
	for _, node := range w.since.nodes {
		if !slices.Contains(all, node) {
			*w = writes{}
			return nil, false, errReplaced
		}
	}
	if w.since.somewhere {
		return all, true, nil
	}
	return w.since.nodes, true, nil
}
