package cluster

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// Outages are the masters that do not serve now, by address, as the control plane finds, and what the
// commands of clients feel of that. The slots that have no master at all are an outage too, whose address is
// "". nil is one of which nobody knows. Safe for concurrent use.
//
// A master that owes the control plane an answer is in doubt at once, long before it counts as lost: that is
// time enough to send it nothing more, and not to blame a command for the time in which nobody could run it.
type Outages struct {
	some atomic.Bool // there may be a doubt or an outage; without, nobody waits for mu

	mu     sync.Mutex
	nodes  map[string]Outage
	felt   map[string]Felt
	doubts map[string]masterDoubt
	back   map[string]time.Time // when a doubt or an outage was over
}

// masterDoubt is about one master.
type masterDoubt struct {
	since  time.Time
	silent bool      // it owes an answer; otherwise it cannot be reached
	left   time.Time // when it was no master any more; zero: it is one
}

// remembered is how long a master that has left in doubt is remembered.
const remembered = time.Minute

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

// Unready is why a master does not serve, by its own account.
type Unready string

func (r Unready) Error() string { return string(r) }

// ErrFails is that it answers CLUSTERDOWN because other nodes are missing.
var ErrFails error = Unready("its cluster_state is fail, so commands get CLUSTERDOWN: " +
	"it misses masters that have no replica to take their place")

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
	o.some.Store(true)
}

// End notes that an outage is over, and returns what it was. It reports false if there was none.
func (o *Outages) End(addr string) (Outage, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	out, ok := o.nodes[addr]
	delete(o.nodes, addr)
	if ok {
		o.over(addr)
	}
	return out, ok
}

// over notes that addr serves again. mu is held.
func (o *Outages) over(addr string) {
	if o.back == nil {
		o.back = make(map[string]time.Time)
	}
	o.back[addr] = time.Now()
	o.some.Store(len(o.nodes)+len(o.doubts) > 0)
}

// Doubt notes that the master at addr owes an answer for longer than it uses to, and is silent, or cannot be
// reached. It reports whether that is new.
func (o *Outages) Doubt(addr string, silent bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.doubts == nil {
		o.doubts = make(map[string]masterDoubt)
	}
	d, known := o.doubts[addr]
	if !known || d.silent != silent {
		d.since, d.silent = time.Now(), silent
		o.doubts[addr] = d
	}
	o.some.Store(true)
	return !known
}

// Trust notes that the node at addr has answered. It reports whether that was in doubt.
func (o *Outages) Trust(addr string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, was := o.doubts[addr]
	delete(o.doubts, addr)
	if was {
		o.over(addr)
	}
	return was
}

// Doubted is since when the node at addr is in doubt. It reports false if it is not.
func (o *Outages) Doubted(addr string) (since time.Time, ok bool) {
	d, ok := o.doubt(addr)
	return d.since, ok
}

// Silent is since when the node at addr owes an answer. It reports false if it does not.
func (o *Outages) Silent(addr string) (since time.Time, ok bool) {
	d, _ := o.doubt(addr)
	return d.since, d.silent
}

func (o *Outages) doubt(addr string) (d masterDoubt, ok bool) {
	if o == nil || !o.some.Load() {
		return masterDoubt{}, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	d, ok = o.doubts[addr]
	return d, ok
}

// Masters notes which nodes are masters of t. A master that left it in doubt stays so for a while: it may
// owe replies still, which need not be waited for.
func (o *Outages) Masters(t *Topology) {
	o.mu.Lock()
	defer o.mu.Unlock()
	masters, replicas := make(map[string]bool), make(map[string]bool)
	for _, n := range t.Masters {
		masters[n.Addr] = true
	}
	for _, n := range t.Replicas {
		replicas[n.Addr] = true
	}
	maps.DeleteFunc(o.back, func(addr string, _ time.Time) bool { return !masters[addr] })
	for addr, d := range o.doubts {
		switch {
		case d.left.IsZero() && !masters[addr]:
			d.left = time.Now()
			o.doubts[addr] = d
		case d.left.IsZero():
		case masters[addr], replicas[addr], time.Since(d.left) > remembered:
			delete(o.doubts, addr)
		}
	}
	o.some.Store(len(o.nodes)+len(o.doubts) > 0)
}

// Answers says whether the node at addr serves as far as anybody knows, and since when; the zero time if it
// was never away.
func (o *Outages) Answers(addr string) (since time.Time, ok bool) {
	if o == nil {
		return time.Time{}, true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, doubted := o.doubts[addr]
	_, lost := o.nodes[addr]
	return o.back[addr], !doubted && !lost
}

// Of is the outage of addr. It reports false if there is none.
func (o *Outages) Of(addr string) (Outage, bool) {
	if o == nil || !o.some.Load() {
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
