package owned

import "lockproxy/cluster"

// trackingConn is a connection beside one of a Set: the node sends it the invalidations of that one.
// Both end together.
type trackingConn struct {
	of      *setConn
	conn    *Conn
	ready   bool // its id is known
	retired bool // it ends once what came before is passed on
	heard   pushText
}

// newTrackingConn connects. opened is called when the id is known; if that never happens m is closed. It
// takes one place more, of the same party.
func newTrackingConn(m *setConn, opened func()) *trackingConn {
	s := &trackingConn{of: m}
	m.pending++
	s.conn = m.places.Lend(Key{m.key.Addr, cluster.Mode{Proto: 3}}, s)
	s.pingNode(func() { // the reply comes behind the id
		if busy := s.conn.unnumbered; busy != nil { // without an id the invalidations would go nowhere
			m.setUp(busy, nil)
			return
		}
		s.ready = true
		m.pending--
		opened()
	})
	return s
}

// Party implements Counted.
func (s *trackingConn) Party() Party { return s.of.Party() }

// pingNode calls then behind all that the node has sent so far.
func (s *trackingConn) pingNode(then func()) {
	s.conn.link.Ask(askPing, func(_ []byte, err error) {
		if err == nil {
			then()
		}
	})
}

// retireConn ends the connection once everything that the node has sent over it is passed on.
func (s *trackingConn) retireConn() {
	s.retired = true
	s.pingNode(s.conn.End)
}

// Push implements Owner.
func (s *trackingConn) Push(chunk []byte, last bool) { s.of.of.passPush(&s.heard, chunk, last) }

// Lost implements Owner.
func (s *trackingConn) Lost(err error) {
	if s.retired {
		s.of.tellStale() // it may have missed an invalidation
		return
	}
	// Nobody hears any more what changes at that node, so nothing may be read over it.
	s.of.Close(err)
}

// pushText collects a push message.
type pushText struct {
	text []byte
	long bool // longer than is kept
}

// passPush passes on a push message once it is whole. Of one that is too long, only the fact that it came is
// passed on.
func (s *Set) passPush(t *pushText, chunk []byte, last bool) {
	if s.ended {
		return
	}
	switch {
	case last && t.text == nil && !t.long:
		s.owner.Push(chunk)
		return
	case t.long:
	case len(t.text)+len(chunk) > s.places.MaxPush:
		t.text, t.long = nil, true
	default:
		t.text = append(t.text, chunk...)
	}
	if !last {
		return
	}
	text, long := t.text, t.long
	*t = pushText{}
	if long {
		s.owner.Stale()
		return
	}
	s.owner.Push(text)
}
