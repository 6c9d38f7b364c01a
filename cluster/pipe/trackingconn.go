package pipe

import "lockproxy/internal/resp"

// trackingConn is a connection beside one of a Private: the node sends it the invalidations of that one.
// Both end together.
type trackingConn struct {
	of      *privatePipe
	pipe    *Pipe
	ready   bool // its id is known
	retired bool // it ends once what came before is passed on
	leaving bool
	heard   pushText
}

var askPing = resp.AppendCommandStrings(nil, "PING")

// newTrackingConn connects. opened is called when the id is known; if that never happens pp is closed.
func newTrackingConn(pp *privatePipe, opened func()) *trackingConn {
	s := &trackingConn{of: pp}
	s.pipe = pp.of.pool.Own(pp.pipe.addr, Mode{Proto: 3}, s)
	s.ping(func() { // the reply comes behind the id
		s.ready = true
		opened()
	})
	return s
}

// ping calls then behind all that the node has sent so far.
func (s *trackingConn) ping(then func()) {
	s.pipe.Request(askPing, &Collector{Then: func(_ []byte, err error) {
		if err == nil {
			then()
		}
	}}, 0)
}

func (s *trackingConn) end() {
	s.leaving = true
	s.pipe.End()
}

// retire ends the connection once everything that the node has sent over it is passed on.
func (s *trackingConn) retire() {
	s.retired = true
	s.ping(s.end)
}

// Push implements Owner.
func (s *trackingConn) Push(chunk []byte, last bool) { s.of.of.push(&s.heard, chunk, last) }

// Lost implements Owner.
func (s *trackingConn) Lost(err error) {
	switch {
	case s.leaving:
	case s.retired:
		s.of.stale() // it may have missed an invalidation
	default:
		s.of.pipe.close(err)
	}
}
