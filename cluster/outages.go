package cluster

import (
	"slices"
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
	troubled atomic.Int32 // nodes in doubt or lost; without, nobody waits for mu

	mu    sync.Mutex
	nodes map[string]nodeState // by address: those of which something is known
}

// nodeState is what is known of one node. Of the zero value nothing is.
type nodeState struct {
	lost   Outage    // Since: zero if it serves
	felt   Felt      // since Forget
	doubt  time.Time // since when it is in doubt; else zero
	silent bool      // that is because it owes an answer; otherwise it cannot be reached
	left   time.Time // when it was no master any more, in doubt
	back   time.Time // when a doubt or an outage was over
}

// These do not exclude each other: a node may be lost, in doubt and felt at once.
func (n *nodeState) isLost() bool    { return !n.lost.Since.IsZero() }
func (n *nodeState) isDoubted() bool { return !n.doubt.IsZero() }
func (n *nodeState) isFelt() bool    { return !n.felt.Since.IsZero() }
func (n *nodeState) endDoubt()       { n.doubt, n.silent, n.left = time.Time{}, false, time.Time{} }

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

// Plus is both together. Since is that of f, the earlier one, unless f is empty; Err is the later one, of g.
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

// changeNode has f change what is known of the node at addr.
func (o *Outages) changeNode(addr string, f func(n *nodeState)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changeHeld(addr, f)
}

// changeHeld is changeNode for who holds mu. It keeps troubled right, and forgets a node of which nothing is
// known any more, so that those that come and go do not add up.
func (o *Outages) changeHeld(addr string, f func(n *nodeState)) {
	n := o.nodes[addr]
	was := n.isLost() || n.isDoubted()
	f(&n)
	is := n.isLost() || n.isDoubted()
	// Once at most: who looks at troubled without mu must not find it lower in between.
	if is && !was {
		o.troubled.Add(1)
	} else if was && !is {
		o.troubled.Add(-1)
	}
	if !is && !n.isFelt() && n.back.IsZero() {
		delete(o.nodes, addr)
		return
	}
	if o.nodes == nil {
		o.nodes = make(map[string]nodeState)
	}
	o.nodes[addr] = n
}

// Lose notes that the master at addr does not serve. It may be called again and again: Since stays, and
// begins with what commands have felt of it earlier.
func (o *Outages) Lose(addr string, err error) {
	o.changeNode(addr, func(n *nodeState) {
		switch {
		case n.isLost():
		case n.isFelt():
			n.lost.Since = n.felt.Since
		default:
			n.lost.Since = time.Now()
		}
		n.lost.Err = err
	})
}

// End notes that an outage is over, and returns what it was. It reports false if there was none. Doubts and
// what was felt stay.
func (o *Outages) End(addr string) (out Outage, was bool) {
	o.changeNode(addr, func(n *nodeState) {
		if out, was = n.lost, n.isLost(); was {
			n.lost, n.back = Outage{}, time.Now()
		}
	})
	return out, was
}

// Doubt notes that the master at addr owes an answer for longer than it uses to, and is silent, or cannot be
// reached. It reports whether that is new.
func (o *Outages) Doubt(addr string, silent bool) (is bool) {
	o.changeNode(addr, func(n *nodeState) {
		// Another kind of doubt begins anew: Silent says since when it is silent, not in doubt.
		if is = !n.isDoubted(); is || n.silent != silent {
			n.doubt, n.silent = time.Now(), silent
		}
	})
	return is
}

// Trust notes that the node at addr has answered. It reports whether that was in doubt.
func (o *Outages) Trust(addr string) (was bool) {
	o.changeNode(addr, func(n *nodeState) {
		if was = n.isDoubted(); was {
			n.endDoubt()
			n.back = time.Now()
		}
	})
	return was
}

// Doubted is since when the node at addr is in doubt. It reports false if it is not.
func (o *Outages) Doubted(addr string) (since time.Time, ok bool) {
	n := o.trouble(addr)
	return n.doubt, n.isDoubted()
}

// Silent is since when the node at addr owes an answer. It reports false if it does not.
func (o *Outages) Silent(addr string) (since time.Time, ok bool) {
	n := o.trouble(addr)
	return n.doubt, n.silent
}

// trouble is what is known of the node at addr, if any node is in doubt or lost. While there is none, which
// is the rule, it costs no lock: pipes ask for each request.
func (o *Outages) trouble(addr string) (n nodeState) {
	if o == nil || o.troubled.Load() == 0 {
		return n
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.nodes[addr]
}

// Masters notes which nodes are masters of t. A master that left it in doubt stays so for a while: it may
// owe replies still, which need not be waited for.
func (o *Outages) Masters(t *Topology) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for addr := range o.nodes {
		master := t.Master(addr) != nil
		replica := slices.ContainsFunc(t.Replicas, func(n *Node) bool { return n.Addr == addr })
		o.changeHeld(addr, func(n *nodeState) {
			if !master { // since when it serves again is of use for masters only
				n.back = time.Time{}
			}
			switch {
			case !n.isDoubted():
			case n.left.IsZero() && !master:
				n.left = time.Now()
			case n.left.IsZero(): // still a master, in doubt
			case master, replica, time.Since(n.left) > remembered:
				n.endDoubt()
			}
		})
	}
}

// Answers says whether the node at addr serves as far as anybody knows, and since when; the zero time if it
// was never away.
func (o *Outages) Answers(addr string) (since time.Time, ok bool) {
	if o == nil {
		return time.Time{}, true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.nodes[addr]
	return n.back, !n.isDoubted() && !n.isLost()
}

// Of is the outage of addr. It reports false if there is none.
func (o *Outages) Of(addr string) (Outage, bool) {
	n := o.trouble(addr)
	return n.lost, n.isLost()
}

// Feel notes what commands have felt of the node at addr. f has what is to be added; its Since is now. Pipes
// call it on all loops.
func (o *Outages) Feel(addr string, f Felt) {
	if o == nil {
		return
	}
	f.Since = time.Now()
	o.changeNode(addr, func(n *nodeState) { n.felt = n.felt.Plus(f) })
}

// Felt is what was felt of the node at addr since Forget.
func (o *Outages) Felt(addr string) Felt {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.nodes[addr].felt
}

// Forget drops what was felt of the node at addr.
func (o *Outages) Forget(addr string) { o.changeNode(addr, func(n *nodeState) { n.felt = Felt{} }) }

// Addrs are those of all nodes that are away or were felt.
func (o *Outages) Addrs() (all []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for addr, n := range o.nodes {
		if n.isLost() || n.isFelt() {
			all = append(all, addr)
		}
	}
	return all
}
