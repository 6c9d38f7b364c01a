package cluster

import (
	"sync"
	"time"
)

// Outages are the masters that do not serve now, by address, as the control plane finds, and what the
// commands of clients feel of that. The slots that have no master at all are an outage too, whose address is
// "". nil is one of which nobody knows. Safe for concurrent use.
type Outages struct {
	mu    sync.Mutex
	nodes map[string]Outage
	felt  map[string]Felt
}

// Outage is one master that does not serve.
type Outage struct {
	Since time.Time // its first sign
	Err   error     // the latest
}

// Felt is what commands have felt of a node.
type Felt struct {
	Since       time.Time // the first of it
	Delayed     int       // commands that had to be sent again later
	Failed      int       // commands that ended in an error, for the node was away
	Connections int       // that were lost under commands, or could not be made
	Err         error     // of the last of them
}

// Plus is both together.
func (f Felt) Plus(g Felt) Felt {
	f.Delayed, f.Failed, f.Connections = f.Delayed+g.Delayed, f.Failed+g.Failed, f.Connections+g.Connections
	if f.Since.IsZero() {
		f.Since = g.Since
	}
	if g.Err != nil {
		f.Err = g.Err
	}
	return f
}

// Lose notes that the master at addr does not serve.
func (o *Outages) Lose(addr string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.nodes == nil {
		o.nodes = make(map[string]Outage)
	}
	out, known := o.nodes[addr]
	if !known {
		out.Since = time.Now()
		if f := o.felt[addr]; !f.Since.IsZero() {
			out.Since = f.Since
		}
	}
	out.Err = err
	o.nodes[addr] = out
}

// End notes that an outage is over, and returns what it was. It reports false if there was none.
func (o *Outages) End(addr string) (Outage, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	out, ok := o.nodes[addr]
	delete(o.nodes, addr)
	return out, ok
}

// Of is the outage of addr. It reports false if there is none.
func (o *Outages) Of(addr string) (Outage, bool) {
	if o == nil {
		return Outage{}, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	out, ok := o.nodes[addr]
	return out, ok
}

// Feel notes what commands have felt of the node at addr.
func (o *Outages) Feel(addr string, f Felt) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.felt == nil {
		o.felt = make(map[string]Felt)
	}
	f.Since = time.Now()
	o.felt[addr] = o.felt[addr].Plus(f)
}

// Felt is what was felt of the node at addr since Forget.
func (o *Outages) Felt(addr string) Felt {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.felt[addr]
}

// Forget drops what was felt of the node at addr.
func (o *Outages) Forget(addr string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.felt, addr)
}

// Addrs are those of all nodes that are away or were felt.
func (o *Outages) Addrs() map[string]bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make(map[string]bool)
	for addr := range o.nodes {
		all[addr] = true
	}
	for addr := range o.felt {
		all[addr] = true
	}
	return all
}
