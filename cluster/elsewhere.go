package cluster

import (
	"bytes"
	"time"
)

// This file is what owners of pipes of their own need to send a request once more by
// themselves.

// Elsewhere is where a request may go that a node did not run.
type Elsewhere struct {
	Addr   string // the node; "": the master of its slot, after a while
	Asking bool   // the node only imports the slot: ASKING goes before the request
}

// Elsewhere says of an error reply, which came over a pipe of somebody's own, that the node
// did not run the request and that it does not concern the client: MOVED, LOADING and
// the like. It counts it, and has the topology asked for.
func (p *Pipe) Elsewhere(reply []byte) (to Elsewhere, ok bool) {
	word, rest, _ := bytes.Cut(reply[1:], []byte(" "))
	kind := kindOf[string(word)]
	switch string(word) {
	case "MOVED", "ASK":
		if _, to.Addr, ok = parseRedirect(rest, p.addr); !ok {
			return Elsewhere{}, false
		}
		if to.Asking = string(word) == "ASK"; to.Asking {
			kind = AskRedirect
		}
		if !p.pipes.knows(to.Addr) {
			to = Elsewhere{} // until the topology shows it
		}
	case "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY":
	default:
		return Elsewhere{}, false
	}
	p.pipes.stats.Redirects[kind].Add(1)
	p.pipes.control.Refresh()
	return to, true
}

// Proven says that SetProven was called: something about the connection, which its owners agree on, need not be tried again.
func (p *Pipe) Proven() bool { return p.proven }

// SetProven notes that for this owner and those that come after it.
func (p *Pipe) SetProven() { p.proven = true }

// Budget is how long a request may be sent again and again while nodes fail over.
func (p *Pipes) Budget() time.Duration { return p.o.Budget }

// GaveUp counts a request whose budget is used up.
func (p *Pipes) GaveUp() { p.stats.GivenUp.Add(1) }

// SendNode is Send to the node at addr, and only to it.
func (p *Pipes) SendNode(addr string, m Mode, req []byte, to Receiver, tag uint32, resend bool) {
	c := call{to: to, tag: tag, slot: thisNode, resend: resend, deadline: p.deadline()}
	p.sendTo(p.pipe(addr, m), c, req)
}
