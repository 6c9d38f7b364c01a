package client

import (
	"errors"
	"slices"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
)

// Writes is where a client has written since its writes were last known to be on the replicas that it asked
// for. WAIT needs that. The zero value: it has not written.
type Writes struct {
	last      *pipe.Pipe // the last one that was noted
	nodes     []string   // addresses of nodes
	somewhere bool       // also somewhere else, nobody knows where
	synced    bool       // WAIT was satisfied: the next write starts anew
}

var errReplaced = errors.New(
	"a master that this connection wrote to has been replaced: what became of the writes is not known",
)

// Add notes that a command that may change data went over p; nil: it waits for a node. What a client's
// commands change over other pipes must be noted too.
func (w *Writes) Add(p *pipe.Pipe) {
	if p == nil {
		w.AddSomewhere()
	} else if p != w.last {
		w.addNode(p)
	}
}

func (w *Writes) addNode(p *pipe.Pipe) {
	w.beginWrite()
	w.last = p
	if !slices.Contains(w.nodes, p.Addr()) {
		w.nodes = append(w.nodes, p.Addr())
	}
}

// AddSomewhere notes a write that any master may have.
func (w *Writes) AddSomewhere() {
	w.beginWrite()
	w.somewhere = true
}

// beginWrite comes before a write is noted.
func (w *Writes) beginWrite() {
	if w.synced {
		*w = Writes{}
	}
}

// Synced notes that a WAIT got as many replicas as it asked for.
func (w *Writes) Synced() { w.last, w.synced = nil, true }

// Nodes are the addresses of the masters that the client has written to. any says that it has written. If
// nobody knows where, they are all masters. If one of the masters has left, nobody knows what became of the
// writes: that is an error, once.
func (w *Writes) Nodes(masters []*cluster.Node) (nodes []string, any bool, err error) {
	var all []string
	for _, n := range masters {
		all = append(all, n.Addr)
	}
	switch {
	case len(all) == 0:
		return nil, false, ErrNoMasters
	case len(w.nodes) == 0 && !w.somewhere:
		return all, false, nil
	}
	for _, node := range w.nodes {
		if !slices.Contains(all, node) {
			*w = Writes{}
			return nil, false, errReplaced
		}
	}
	if w.somewhere {
		return all, true, nil
	}
	return w.nodes, true, nil
}
