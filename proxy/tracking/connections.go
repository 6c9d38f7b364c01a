package tracking

import (
	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/commands"
	"lockproxy/proxy/client"
)

// Connections are the connections that a client has to itself while it tracks or is a user of the upstream.
type Connections struct {
	h   client.Host
	set *owned.Set // nil: it uses the shared ones
	as  *User      // user of the upstream; nil: the proxy's own

	turning bool   // HELLO has changed the protocol, and its answer waits until the connections have, too
	turnTag uint32 // they change when this is the oldest command without an answer
}

// NewConnections returns none: the client uses the shared ones.
func NewConnections(h client.Host) Connections { return Connections{h: h} }

// Set is the set of connections; nil: the client uses the shared ones.
func (p *Connections) Set() *owned.Set { return p.set }

// User is the user of the upstream that the client is; nil: the proxy's own.
func (p *Connections) User() *User { return p.as }

// Turning says that the answer to HELLO waits for the connections.
func (p *Connections) Turning() bool { return p.turning }

// Precedes says that CLIENT CACHING applies to the current command.
func (p *Connections) Precedes() bool { return p.set.Precedes() }

// User is one of the upstream's ACL.
type User struct {
	Name, Password string
	Rules          string // the rules by which its client was last checked; "": it must be checked
}

// Home is the mode for what the proxy asks on its own behalf, in database 0 and as its own user: the client's
// rights do not matter for that.
func (p *Connections) Home() pipe.Mode {
	if about := p.h.About(); about.DB != 0 || p.as != nil {
		return pipe.Mode{Proto: about.Proto}
	}
	return p.h.Mode()
}

// Open makes connections for the client, as that user of the upstream, or as the proxy if it is nil. They
// track if the client does.
func (p *Connections) Open(as *User, owner *Tracker) *owned.Set {
	mode := p.h.Mode()
	mode.Second = false
	var login *cluster.Login
	if as != nil {
		login = &cluster.Login{User: as.Name, Password: as.Password}
	}
	set := p.h.Pool().Private(mode, owner, login)
	if t := p.h.About().Tracking; t.On {
		set.Configure(trackingSetup(t, t.Prefixes), nil)
	}
	return set
}

// Become makes the client's commands go over set, the connections of that user, or over the shared ones if
// set is nil. The set before ends once what was sent over it is answered.
func (p *Connections) Become(as *User, set *owned.Set) {
	if p.set != nil {
		p.set.End()
	}
	p.as, p.set = as, set
}

// Hello answers HELLO, the command tag, once the connections speak the new protocol: a node drops pushes to a
// connection that still speaks RESP2. The answer to tag must be one without bytes.
func (p *Connections) Hello(tag uint32) {
	if p.set == nil || pipe.ModeOf(p.set) == p.h.Mode() { // nil: the default user again
		p.h.Answer(tag, nil)
		return
	}
	p.turning, p.turnTag = true, tag
	p.h.SetHold(client.HoldOrder)
	p.Turn()
}

// Turn makes the connections speak the client's protocol, once its earlier commands are answered.
func (p *Connections) Turn() {
	now := p.h.Mode()
	if p.set == nil || p.h.Gone() || pipe.ModeOf(p.set) == now {
		return
	}
	switch oldest, any := p.h.Answers().Oldest(); {
	case p.turning && any && oldest == p.turnTag:
		p.turning = false
		p.set.SetMode(now.Proto, now.DB, func() { p.h.Answer(oldest, nil) })
	case !any:
		p.set.SetMode(now.Proto, now.DB, nil)
	default:
		p.h.SetHold(client.HoldOrder)
	}
}

// trackingSetup makes connections track as t says. prefixes are those that are new in t.
func trackingSetup(t commands.Tracking, prefixes []string) owned.Setup {
	before := CachingNo
	if t.OptIn {
		before = CachingYes
	}
	return owned.Setup{
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
