package owned

import (
	"bytes"
	"fmt"
	"time"

	"lockproxy/cluster"
)

// This file is about sets of connections that one client has to itself, one to each node, made when first
// needed. They are for what a node remembers of a connection while it serves any command. The requests of
// such a client go the same ways as any other's, but over the connections of its set.

// SetOwner has a Set. Its methods run on the loop.
type SetOwner interface {
	// Push is given a whole push message of a node, valid during the call, at its place among the replies of
	// that node.
	Push(message []byte)
	// Stale says that pushes about what was asked so far may have been missed, or will not come: a
	// connection was lost, or its node has lost slots.
	Stale()
}

// Setup is the state that the connections of a Set are put into, behind everything sent before.
type Setup struct {
	// Requests, if not nil, are the commands of the Setup, for a new connection, or for one that was in the
	// state of the last Setup. redirect is the node's id of the connection that Redirect asks for, 0 without
	// one. If one of them is answered with an error, that is final.
	Requests func(fresh bool, redirect int64) [][]byte
	// Redirect gives each connection another one beside it, of RESP3. Its pushes are passed on like those of
	// the connection itself, as CLIENT TRACKING REDIRECT wants.
	Redirect bool
	// Before is the command that goes in front of requests while Set.Precede is on.
	Before []byte
}

const (
	// leastReach and mostReach bound the pause before a master that Everywhere wants is dialled again.
	leastReach = 50 * time.Millisecond
	mostReach  = time.Second
)

// Set are the connections of one client. All methods run on the loop.
type Set struct {
	places     *Places
	mode       cluster.Mode // of all connections
	owner      SetOwner
	setup      Setup
	byAddr     map[string]*setConn // none of them is dead
	everywhere bool                // a connection to each master is kept up
	reaching   bool                // reach will be called
	pause      time.Duration       // the last one of reachSoon; 0: one was set up since
	preceded   bool                // see Precede
	refused    []byte              // see Refused
	ended      bool                // what is left only answers what was sent; no pushes are passed on
	paused     bool                // nothing is read
	done       func()              // of Configure or SetMode; nil: it was called, or nobody waits
}

// NewSet returns a set of connections that is empty so far, in the same state as shared ones. If the mode has
// a user, and a node refuses it, requests to that node fail with ErrMode, in its words.
func (o *Places) NewSet(m cluster.Mode, owner SetOwner) *Set {
	s := &Set{places: o, mode: m, owner: owner, byAddr: make(map[string]*setConn)}
	o.sets[s] = struct{}{}
	return s
}

// Mode is the mode of the connections.
func (s *Set) Mode() cluster.Mode { return s.mode }

// SetMode makes all connections speak another protocol, or use another database. It calls done, if not nil,
// once they do. No request may be on its way.
func (s *Set) SetMode(proto, db int, done func()) {
	s.mode.Proto, s.mode.DB = proto, db
	for _, m := range s.byAddr {
		m.turnMode(s.mode)
	}
	if done != nil {
		s.done = done
		s.settleSetup()
	}
}

// Configure makes all connections take over setup. It calls done, if not nil, once the existing ones have.
func (s *Set) Configure(setup Setup, done func()) {
	s.setup, s.done, s.refused = setup, done, nil
	for _, m := range s.byAddr {
		m.configure()
	}
	s.settleSetup()
}

// settleSetup calls done if all connections are in their state. It is called behind whatever may have been
// the last of them.
func (s *Set) settleSetup() {
	if s.done == nil {
		return
	}
	for _, m := range s.byAddr {
		if m.pending > 0 {
			return
		}
	}
	done := s.done
	s.done = nil
	done()
}

// Refused is the error reply of a node that refused the latest Setup, nil if none did.
func (s *Set) Refused() []byte { return s.refused }

// Precede turns on or off that Setup.Before goes in front of each request, also when that is sent again.
func (s *Set) Precede(on bool) { s.preceded = on }

// Preceding runs f, with Precede on if on is true. s may be nil.
func (s *Set) Preceding(on bool, f func()) {
	if s != nil && on {
		defer s.Precede(s.preceded)
		s.preceded = true
	}
	f()
}

// Before is the command that Precede puts in front of requests.
func (s *Set) Before() []byte { return s.setup.Before }

// Precedes is what Precede said. s may be nil.
func (s *Set) Precedes() bool { return s != nil && s.preceded }

// Pause stops reading from the connections, as long as their client does not take what came: the nodes keep
// the rest. Otherwise they are read on.
func (s *Set) Pause(on bool) {
	s.paused = on
	for _, m := range s.byAddr {
		m.applyPause()
	}
}

// Everywhere keeps a connection to each master up from now on, whether or not requests need one.
func (s *Set) Everywhere() {
	s.everywhere = true
	s.reach()
}

// reach makes the connections that Everywhere wants.
func (s *Set) reach() {
	s.reaching = false
	if s.ended || s.places.closed {
		return
	}
	for _, master := range s.places.Masters() {
		s.At(master.Addr)
	}
}

// reachSoon calls reach after a pause, which grows until a connection is made.
func (s *Set) reachSoon() {
	if s.everywhere && !s.reaching {
		s.reaching = true
		s.pause = min(max(2*s.pause, leastReach), mostReach)
		s.places.Loop.After(s.pause, s.reach)
	}
}

// End ends the set: each connection is closed as soon as the requests that were sent are answered.
func (s *Set) End() {
	s.ended, s.done = true, nil
	for _, m := range s.byAddr {
		m.fade()
	}
	s.forgetIfOver()
}

// forgetIfOver lets go of an ended set without connections.
func (s *Set) forgetIfOver() {
	if s.ended && len(s.byAddr) == 0 {
		delete(s.places.sets, s)
	}
}

// At finds or makes the connection to the node at addr.
func (s *Set) At(addr string) *Conn {
	m := s.byAddr[addr]
	if m == nil {
		m = &setConn{of: s, fading: s.ended}
		m.Conn = s.places.makeConn(Key{addr, s.mode}, m, s)
		m.Conn.of = m
		s.byAddr[addr] = m
		s.places.sets[s] = struct{}{}
		m.beginSetup()
	}
	return m.Conn
}

// Lend is Places.Lend for the client of the set: it gets the connection of the set, which Release gives back
// to the set, or another one beside it.
func (s *Set) Lend(addr string, owner Owner) *Conn {
	c := s.At(addr)
	if c.owner == nil {
		c.owner = owner
		return c
	}
	if s.mode.As == nil {
		return s.places.lend(Key{addr, s.mode}, owner, nil)
	}
	return s.places.lend(Key{addr, s.mode}, owner, s)
}

// Moved tells the sets that the topology is another one, in which these nodes have lost slots: tracking of
// what was read over connections to them has ended.
func (o *Places) Moved(from map[string]bool) {
	for s := range o.sets {
		for addr, m := range s.byAddr {
			if from[addr] {
				m.fade()
			}
		}
		if s.everywhere {
			s.reach()
		}
	}
}

// setConn is one connection of a Set. It is used until it is lost.
type setConn struct {
	*Conn
	of       *Set
	tracking *trackingConn
	pending  int  // replies to its setup that are to come, and ids of tracking connections
	asked    bool // the setup was sent
	served   bool // it was in its state once
	used     bool // something was answered since pushes may have been missed
	fading   bool // it closes when all is answered
	heard    pushText
}

// Party implements Counted.
func (m *setConn) Party() Party { return partyOf(m.of.owner) }

// beginSetup connects and sets up the connection. With Redirect the other connection comes first, because the
// requests of the setup name its id; they go in front of what clients have sent meanwhile.
func (m *setConn) beginSetup() {
	if m.of.setup.Redirect {
		m.tracking = newTrackingConn(m, func() {
			m.link.Front(m.requests(), m.setUp)
			m.places.admitConn(m.Conn)
		})
		return
	}
	m.configure()
	m.places.admitConn(m.Conn)
}

// requests are the requests of the Setup, which are about to be sent.
func (m *setConn) requests() [][]byte {
	var id int64
	if m.of.setup.Redirect {
		id = m.tracking.conn.clientID
	}
	fresh := !m.asked
	m.asked = true
	if m.of.setup.Requests == nil {
		return nil
	}
	reqs := m.of.setup.Requests(fresh, id)
	m.pending += len(reqs)
	return reqs
}

// configure takes over the Setup, the first one or a new one.
func (m *setConn) configure() {
	switch {
	case m.tracking != nil && !m.tracking.ready: // its requests are still to be made
	case m.of.setup.Redirect && m.tracking == nil:
		m.tracking = newTrackingConn(m, m.configure)
	default:
		for _, req := range m.requests() {
			m.link.Ask(req, m.setUp)
		}
	}
}

// turnMode changes the mode of the connection.
func (m *setConn) turnMode(mode cluster.Mode) {
	if m.key.Mode.DB != mode.DB && m.Special() { // its user may not be allowed SELECT
		if m.link.Up() {
			m.link.Listen(true) // Pause does not reach it any more
		}
		m.leaveSet() // what it owes, or is lent for, does not keep it there
		m.fade()
		return
	}
	m.pending += m.Conn.turnMode(mode, m.setUp)
}

// setUp takes a reply to the setup. An error of the node is final: the set has no connection to it, and
// Refused tells why.
func (m *setConn) setUp(reply []byte, err error) {
	if err != nil {
		return
	}
	m.pending--
	if reply[0] == '-' || reply[0] == '!' {
		m.of.refused = reply
		m.Close(fmt.Errorf("%w: %s", ErrRefused, bytes.TrimRight(reply[1:], "\r\n")))
		return
	}
	if m.pending > 0 {
		return
	}
	if m.tracking != nil && !m.of.setup.Redirect {
		m.tracking.retireConn()
		m.tracking = nil
	}
	if !m.served && m.of.everywhere && !m.of.ended {
		m.of.owner.Stale() // nobody listened since the last connection was lost
	}
	m.served, m.of.pause = true, 0
	m.of.settleSetup()
}

// leaveSet takes the connection out of the set. Requests from now on, perhaps sent by an owner who hears that
// it was lost, take a new one.
func (m *setConn) leaveSet() {
	if m.of.byAddr[m.key.Addr] == m {
		delete(m.of.byAddr, m.key.Addr)
	}
}

// noteLost tells the set that the connection is lost. It comes last, for the owner of the set may send anew,
// or end it.
func (m *setConn) noteLost() {
	if m.of.ended {
		m.of.forgetIfOver()
		return
	}
	m.tellStale()
	m.of.settleSetup()
	m.of.reachSoon()
}

// noteAnswered is called behind each reply.
func (m *setConn) noteAnswered(asked, astray bool) {
	m.used = m.used || asked
	if astray && !m.of.everywhere {
		m.tellStale()
	}
	if m.fading {
		m.fade()
	}
}

// fade closes the connection as soon as everything is answered. From now on, what was read over it may
// change without a message.
func (m *setConn) fade() {
	owed := m.link.Owed()
	if !m.fading && owed > 0 {
		m.tellStale()
	}
	m.fading = true
	if m.owner == nil && (owed == 0 || !m.link.Up() && !m.link.Owes(false)) {
		m.Close(ErrReleased)
	}
}

// tellStale says that pushes may have been missed, unless there was nothing that they could be about.
func (m *setConn) tellStale() {
	if !m.of.ended && m.served && (m.used || m.of.everywhere) {
		m.used = false
		m.of.owner.Stale()
	}
}

// giveBack ends the use by the owner. If replies are still to come, the next owner would get them, so the
// connection is closed then.
func (m *setConn) giveBack() {
	if m.link.Owes(true) {
		m.End()
		return
	}
	m.owner = nil
	m.SetPatient(false)
	if m.fading {
		m.fade()
	}
}

// applyPause does what Set.Pause has said.
func (m *setConn) applyPause() {
	if m.link.Up() {
		m.link.Listen(!m.of.paused)
	}
}
