package pipe

import (
	"lockproxy/cluster/retry"
)

// This file is what the owners of pipes that are not shared need to send a request once more by themselves.

// Redirection is where a request may go that a node did not run.
type Redirection struct {
	Addr   string // the node; "": the master of its slot, after a while
	Asking bool   // the node only imports the slot: ASKING goes before the request
}

// Retryable says that an error reply on a pipe that is not shared does not concern the client: the node did
// not run the request, which may go to to. It counts the reply, and has the topology asked for.
func (p *Pipe) Retryable(reply []byte) (to Redirection, ok bool) {
	r, rest := retry.ErrorOf(reply)
	switch {
	case r == nil, r.Verdict == retry.LoadScript:
		return Redirection{}, false
	case r.Verdict == retry.Elsewhere:
		if _, to.Addr, ok = parseRedirect(rest, p.addr); !ok {
			return Redirection{}, false
		}
		to.Asking = r.Counts == retry.Ask
		if !p.pool.knows(to.Addr, p.pool.control) {
			to = Redirection{} // until the topology shows it
		}
	}
	p.pool.stats.Redirects[r.Counts].Add(1)
	p.pool.control.Refresh()
	return to, true
}

// Proven says that SetProven was called: something about the connection, which its owners agree on, need not
// be tried again.
func (p *Pipe) Proven() bool { return p.proven }

// SetProven notes that for this owner and those that come after it.
func (p *Pipe) SetProven() { p.proven = true }

// GaveUp counts a request whose budget is used up.
func (p *Pool) GaveUp() { p.stats.GivenUp.Add(1) }
