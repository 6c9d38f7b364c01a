package pipe

import (
	"time"

	"lockproxy/cluster"
)

// This file is about sets of connections that one client has to itself, one to each node, made when first
// needed. They are for what a node remembers of a connection while it serves any command.
//
//	Pool.Private --> Mode.Own --> Pool.Send: redirects, retries and all, over the set's own pipes
//
// Wherever a Pool chooses a pipe, it does so by the Mode of the request. So a request whose Mode names a
// Private goes the same ways as any other.

// PrivateOwner has a Private. Its methods run on the loop.
type PrivateOwner interface {
	// Push is given a whole push message of a node, valid during the call, at its place among the replies of
	// that node.
	Push(message []byte)
	// Stale says that pushes about what was asked so far may have been missed, or will not come: a
	// connection was lost, or its node has lost slots.
	Stale()
}

// Setup is the state that the connections of a Private are put into, behind everything sent before.
type Setup struct {
	// Requests, if not nil, are the commands of the Setup, for a new connection, or for one that was in the
	// state of the last Setup. redirect is the node's id of the connection that Redirect asks for, 0 without
	// one. If one of them is answered with an error, that is final.
	Requests func(fresh bool, redirect int64) [][]byte
	// Redirect gives each connection another one beside it, of RESP3. Its pushes are passed on like those of
	// the connection itself, as CLIENT TRACKING REDIRECT wants.
	Redirect bool
	// Before is the command that goes in front of requests while Private.Precede is on.
	Before []byte
}

// maxReachPause bounds the pause before a master that Everywhere wants is dialled again.
const maxReachPause = time.Second

// Private are the connections of one client. All methods run on the loop.
type Private struct {
	pool       *Pool
	mode       Mode           // of all connections; its Own is this
	as         *cluster.Login // how they authenticate; nil: as the proxy does
	owner      PrivateOwner
	setup      Setup
	byAddr     map[string]*privatePipe
	everywhere bool // a connection to each master is kept up
	reaching   bool // soon
	pause      time.Duration
	preceded   bool
	refused    []byte
	ended      bool
	paused     bool   // nothing is read
	done       func() // of Configure
}

// Private returns a set of connections that is empty so far, in the same state as shared ones. Its Mode is m
// with it in Own. as, if not nil, is another user than the proxy, whose client it is for: the connections
// authenticate as that user, and if a node refuses it, requests to that node fail with ErrMode, in its words.
func (p *Pool) Private(m Mode, owner PrivateOwner, as *cluster.Login) *Private {
	o := &Private{pool: p, mode: m, as: as, owner: owner, byAddr: make(map[string]*privatePipe)}
	o.mode.Own = o
	p.privates[o] = struct{}{}
	return o
}

// Mode is the mode of requests that go over the set.
func (o *Private) Mode() Mode { return o.mode }

// SetMode makes all connections speak another protocol, or use another database. It calls done, if not nil,
// once they do. No request may be on its way.
func (o *Private) SetMode(m Mode, done func()) {
	m.Own = o
	o.mode = m
	for _, pp := range o.byAddr {
		pp.turn(m)
	}
	if done != nil {
		o.done = done
		o.settle()
	}
}

// Configure makes all connections take over setup. It calls done, if not nil, once the existing ones have.
func (o *Private) Configure(setup Setup, done func()) {
	o.setup, o.done, o.refused = setup, done, nil
	for _, pp := range o.byAddr {
		pp.configure()
	}
	o.settle()
}

// settle calls done if all connections are in their state.
func (o *Private) settle() {
	if o.done == nil {
		return
	}
	for _, pp := range o.byAddr {
		if pp.pending > 0 {
			return
		}
	}
	done := o.done
	o.done = nil
	done()
}

// Refused is the error reply of a node that refused the latest Setup, nil if none did.
func (o *Private) Refused() []byte { return o.refused }

// Precede turns on or off that Setup.Before goes in front of each request, also when that is sent again.
func (o *Private) Precede(on bool) { o.preceded = on }

// Before is the command that Precede puts in front of requests.
func (o *Private) Before() []byte { return o.setup.Before }

// Precedes is what Precede said.
func (o *Private) Precedes() bool { return o.preceded }

// Everywhere keeps a connection to each master up from now on, whether or not requests need one.
func (o *Private) Everywhere() {
	o.everywhere = true
	o.reach()
}

// reach makes the connections that Everywhere wants.
func (o *Private) reach() {
	o.reaching = false
	if o.ended || o.pool.closed {
		return
	}
	for _, master := range o.pool.topology.Masters {
		o.at(master.Addr)
	}
}

// reachSoon calls reach after a pause, which grows until a connection is made.
func (o *Private) reachSoon() {
	if o.everywhere && !o.reaching {
		o.reaching = true
		o.pause = min(max(2*o.pause, redialAfter), maxReachPause)
		o.pool.loop.After(o.pause, o.reach)
	}
}

// End ends the set: each connection is closed as soon as the requests that were sent are answered.
func (o *Private) End() {
	o.ended, o.done = true, nil
	for _, pp := range o.byAddr {
		pp.fade()
	}
	o.forget()
}

// forget lets go of an ended set without connections.
func (o *Private) forget() {
	if o.ended && len(o.byAddr) == 0 {
		delete(o.pool.privates, o)
	}
}

// pipe finds or makes the pipe to addr.
func (o *Private) pipe(addr string) *Pipe { return o.at(addr).pipe }

func (o *Private) at(addr string) *privatePipe {
	pp := o.byAddr[addr]
	if pp == nil {
		pp = &privatePipe{of: o, fading: o.ended}
		pp.pipe = o.pool.newOwn(addr, o.mode, pp)
		pp.pipe.private = pp
		o.byAddr[addr] = pp
		o.pool.privates[o] = struct{}{}
		pp.begin()
	}
	return pp
}

// lend is Pool.Own for a client that has a Private.
func (o *Private) lend(addr string, owner Owner) *Pipe {
	pp := o.at(addr)
	if pp.owner != nil {
		return o.another(addr, owner)
	}
	pp.owner = owner
	return pp.pipe
}

// another is a connection to the node at addr for a client that uses the one of its set already.
func (o *Private) another(addr string, owner Owner) *Pipe {
	if o.as == nil {
		return o.pool.Own(addr, Mode{Proto: o.mode.Proto, DB: o.mode.DB}, owner)
	}
	return o.pool.lend(addr, o.mode, owner)
}

// moved closes the pipes to nodes that have lost slots: tracking of what was read over them has ended.
func (o *Private) moved(from map[string]bool) {
	for addr, pp := range o.byAddr {
		if from[addr] {
			pp.fade()
		}
	}
}

// privates are the sets that have not ended, or have connections.
type privates map[*Private]struct{}

// moved tells the sets that the topology is another one, in which these nodes have lost slots.
func (all privates) moved(from map[string]bool) {
	for o := range all {
		o.moved(from)
		if o.everywhere {
			o.reach()
		}
	}
}
