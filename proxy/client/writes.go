package client

import (
	"errors"
	"slices"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
)

// Writes is where a client has written to since its writes were last known to be with the
// replicas that it asked for. WAIT asks for it. The zero value: it has not written.
type Writes struct {
	last  *pipe.Pipe // the last one that was noted, or nil
	since *written
}

// written are the writes since WAIT was satisfied.
type written struct {
	nodes     []string // addresses
	somewhere bool     // elsewhere too, nobody knows where
	synced    bool     // WAIT has said so: the next write is the first of others
}

var errReplaced = errors.New(
	"a master that this connection wrote to has been replaced: what became of the writes is not known",
)

// Add notes that a command went over p which may change data; nil: it waits for a node. What a client's
// commands change over other pipes must be noted too.
func (w *Writes) Add(p *pipe.Pipe) {
	if p == nil {
		w.AddSomewhere()
	} else if p != w.last {
		w.addNode(p)
	}
}

func (w *Writes) addNode(p *pipe.Pipe) {
	n := w.next()
	w.last = p
	if !slices.Contains(n.nodes, p.Addr()) {
		n.nodes = append(n.nodes, p.Addr())
	}
}

// AddSomewhere notes a write that may be with any master.
func (w *Writes) AddSomewhere() { w.next().somewhere = true }

// next is where the next write is noted.
func (w *Writes) next() *written {
	if w.since == nil || w.since.synced {
		w.since = new(written)
	}
	return w.since
}

// Synced notes that WAIT was answered with as many replicas as were asked for.
func (w *Writes) Synced() {
	if w.since != nil {
		w.since.synced, w.last = true, nil
	}
}

// Nodes are the addresses of the masters that the client has written to: all of them if nobody knows,
// or it has not written, which any tells. A master that has left takes the writes with
// it as far as anybody knows: that is an error, once.
func (w *Writes) Nodes(masters []*cluster.Node) (nodes []string, any bool, err error) {
	var all []string
	for _, n := range masters {
		all = append(all, n.Addr)
	}
	switch {
	case len(all) == 0:
		return nil, false, ErrNoMasters
	case w.since == nil:
		return all, false, nil
	}
	for _, node := range w.since.nodes {
		if !slices.Contains(all, node) {
			*w = Writes{}
			return nil, false, errReplaced
		}
	}
	if w.since.somewhere {
		return all, true, nil
	}
	return w.since.nodes, true, nil
}
