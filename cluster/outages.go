package cluster

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Outages are the masters that do not serve now, by address, as the control plane finds. The slots that
// have no master at all are an outage too, whose address is "". The zero value is of none. Safe for
// concurrent use.
type Outages struct {
	mu    sync.Mutex
	nodes map[string]Outage
}

// Outage is one master that does not serve.
type Outage struct {
	Addr  string
	Since time.Time // its first sign
	Err   error     // the latest
}

// Lose notes that the master at addr does not serve. It reports false if that is known.
func (o *Outages) Lose(addr string, err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.nodes == nil {
		o.nodes = make(map[string]Outage)
	}
	out, known := o.nodes[addr]
	if !known {
		out = Outage{Addr: addr, Since: time.Now()}
	}
	out.Err = err
	o.nodes[addr] = out
	return !known
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
	o.mu.Lock()
	defer o.mu.Unlock()
	out, ok := o.nodes[addr]
	return out, ok
}

// All are the outages, in the order of their addresses.
func (o *Outages) All() []Outage {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []Outage
	for _, addr := range slices.Sorted(maps.Keys(o.nodes)) {
		all = append(all, o.nodes[addr])
	}
	return all
}
