package pipe

import (
	"lockproxy/cluster/retry"
)

// This file is for the owners of owned pipes, who send requests again by themselves.

// Redirection is where to send a request that a node did not run.
type Redirection struct {
	Addr   string // the node; "": the master of its slot, after a while
	Asking bool   // the node only imports the slot: ASKING goes before the request
}

// Retryable says that an error reply on an owned pipe does not concern the client: the node did not run the
// request, which may be sent to to. It counts the reply, and hints that the topology may be out of date.
func (p *Pipe) Retryable(reply []byte) (to Redirection, ok bool) {
	r, rest := retry.ErrorOf(reply)
	switch {
	case r == nil, r.Verdict == retry.LoadScript:
		return Redirection{}, false
	case r.Verdict == retry.Redirect:
		if _, to.Addr, ok = parseRedirect(rest, p.addr); !ok {
			return Redirection{}, false
		}
		to.Addr = p.home.member(to.Addr) // "": until the topology shows it
		to.Asking = to.Addr != "" && r.Counts == retry.Ask
	}
	p.stats.Redirects[r.Counts].Add(1)
	p.Refresh()
	return to, true
}
