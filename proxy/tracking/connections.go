package tracking

import (
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/proxy/client"
)

// Connections is the connections that a client has for itself as long as it tracks, or is a user of the
// upstream. Their protocol and database follow those of the client, once its earlier commands are answered.
type Connections struct {
	h   client.Host
	set *pipe.Private // nil: shared ones serve it
	as  *User         // of the upstream; nil: it is whoever the proxy is

	turning bool   // HELLO has changed the protocol, and its answer waits for the connections
	turnTag uint32 // they change when this is the oldest answer
}

// NewConnections is none, for a client that uses shared ones.
func NewConnections(h client.Host) Connections { return Connections{h: h} }

// Set are the connections; nil: shared ones serve the client.
func (p *Connections) Set() *pipe.Private { return p.set }

// User is the user of the upstream that the client is; nil: it is whoever the proxy is.
func (p *Connections) User() *User { return p.as }

// Turning says that the answer to HELLO waits for the connections.
func (p *Connections) Turning() bool { return p.turning }

// Precedes says that CLIENT CACHING holds for the current command.
func (p *Connections) Precedes() bool { return p.set != nil && p.set.Precedes() }

// User is one of the upstream's ACL.
type User struct {
	Name, Password string
	Rules          string // that its client was last judged by; "": it is to be judged
}

// Home is the mode of connections for what the proxy asks by itself in database 0, as its own user: nothing
// of that is the client's to judge.
func (p *Connections) Home() pipe.Mode {
	if about := p.h.About(); about.DB != 0 || p.as != nil {
		return pipe.Mode{Proto: about.Proto}
	}
	return p.h.Mode()
}

// Open makes connections for the client as that user, nil: as the proxy. They track if the client does.
func (p *Connections) Open(as *User, owner *Tracker) *pipe.Private {
	mode := p.h.Mode()
	mode.Second = false
	pool := p.h.Pool()
	var set *pipe.Private
	if as == nil {
		set = pool.Private(mode, owner)
	} else {
		set = pool.PrivateAs(mode, owner, as.Name, as.Password)
	}
	if t := p.h.About().Tracking; t.On {
		set.Configure(trackingSetup(t, t.Prefixes), nil)
	}
	return set
}

// use has the client's commands go over set, or if it is nil over shared ones.
func (p *Connections) use(set *pipe.Private) {
	if p.set != nil {
		p.set.End()
	}
	p.set = set
}

// Become has the client's commands go over set, the connections of that user, or if it is nil over shared
// ones. It returns those of before, which are to be ended, or nil.
func (p *Connections) Become(as *User, set *pipe.Private) (before *pipe.Private) {
	before = p.set
	p.as, p.set = as, set
	return before
}

// Hello has HELLO, whose number is tag, answered when the connections speak the new protocol: a node drops
// what it would push to one that speaks RESP2 still. The answer to tag is one without bytes.
func (p *Connections) Hello(tag uint32) {
	if p.set == nil || p.set.Mode() == p.h.Mode() { // nil: it is the default user again
		p.h.Answer(tag, nil)
		return
	}
	p.turning, p.turnTag = true, tag
	p.h.SetHold(client.HoldOrder)
	p.Turn()
}

// Turn has the connections speak as the client does now, once its earlier commands are answered.
func (p *Connections) Turn() {
	if p.set == nil || p.h.Gone() || p.set.Mode() == p.h.Mode() {
		return
	}
	switch oldest, any := p.h.Answers().Oldest(); {
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
func trackingSetup(t commands.Tracking, prefixes []string) pipe.Setup {
	before := CachingNo
	if t.OptIn {
		before = CachingYes
	}
	return pipe.Setup{
		Requests: func(fresh bool, redirect int64) [][]byte {
			if fresh {
				return t.Requests(t.Prefixes, redirect)
			}
			return t.Requests(prefixes, redirect)
		},
		Redirect: t.Redirect != 0,
		Before:   before,
	}
}
