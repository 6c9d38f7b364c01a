package proxy

import (
	"lockproxy/cluster"
	"lockproxy/commands"
	"lockproxy/proxy/client"
)

// private is the connections that a client has for itself as long as it tracks, or is a user of the upstream.
// Their protocol and database follow those of the client, once its earlier commands are answered.
type private struct {
	h   host
	set *cluster.Private // nil: shared ones serve it
	as  *user            // of the upstream; nil: it is whoever the proxy is

	turning bool   // HELLO has changed the protocol, and its answer waits for the connections
	turnTag uint32 // they change when this is the oldest answer
}

// precedes says that CLIENT CACHING holds for the current command.
func (p *private) precedes() bool { return p.set != nil && p.set.Precedes() }

// open makes connections for the client as that user, nil: as the proxy. They track if the client does.
func (p *private) open(as *user, owner *tracking) *cluster.Private {
	mode := p.h.Mode()
	mode.Second = false
	pipes := p.h.worker().pipes
	var set *cluster.Private
	if as == nil {
		set = pipes.Private(mode, owner)
	} else {
		set = pipes.PrivateAs(mode, owner, as.name, as.password)
	}
	if t := p.h.About().Tracking; t.On {
		set.Configure(trackingSetup(t, t.Prefixes), nil)
	}
	return set
}

// use has the client's commands go over set, or if it is nil over shared ones.
func (p *private) use(set *cluster.Private) {
	if p.set != nil {
		p.set.End()
	}
	p.set = set
}

// hello has HELLO, whose number is tag, answered when the connections speak the new protocol: a node drops what
// it would push to one that speaks RESP2 still. The answer to tag is one without bytes.
func (p *private) hello(tag uint32) {
	if p.set == nil || p.set.Mode() == p.h.Mode() { // nil: it is the default user again
		p.h.Answer(tag, nil)
		return
	}
	p.turning, p.turnTag = true, tag
	p.h.SetHold(client.HoldOrder)
	p.turn()
}

// turn has the connections speak as the client does now, once its earlier commands are answered.
func (p *private) turn() {
	if p.set == nil || p.h.Gone() || p.set.Mode() == p.h.Mode() {
		return
	}
	switch oldest, any := p.h.OldestTag(); {
	case p.turning && any && oldest == p.turnTag:
		p.turning = false
		p.set.SetMode(p.h.Mode(), func() { p.h.Answer(oldest, nil) })
	case !any:
		p.set.SetMode(p.h.Mode(), nil)
	default:
		p.h.SetHold(client.HoldOrder)
	}
}

// trackingSetup has the connections of a client track as t says; prefixes are new in it.
func trackingSetup(t commands.Tracking, prefixes []string) cluster.Setup {
	before := cachingNo
	if t.OptIn {
		before = cachingYes
	}
	return cluster.Setup{
		Requests: func(fresh bool, sink int64) [][]byte {
			if fresh {
				return t.Requests(t.Prefixes, sink)
			}
			return t.Requests(prefixes, sink)
		},
		Sink:   t.Redirect != 0,
		Before: before,
	}
}
