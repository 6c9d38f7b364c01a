package proxy

import (
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/proxy/client"
)

// This file is commands of more than cluster.MaxShared bytes. They go over connections that their client has
// for itself, so that nobody waits behind them, and a node that finds one too large closes no connection but
// its client's.
//
//	readCommands --> largeCommands.turn --> session.Mode --> Private --> node
//
// A client that tracks, or is a user of the upstream, has connections of its own for all that it sends.

// largeIdle is how long the connections are kept when the client has sent nothing large.
const largeIdle = time.Second

// largeCommands are the connections of one client for its large commands.
type largeCommands struct {
	set *pipe.Private // nil: there was none for a while
	on  bool          // the latest command went over them
}

// own are the connections that the current command goes over, nil if it is not large.
func (l *largeCommands) own() *pipe.Private {
	if l.on {
		return l.set
	}
	return nil
}

// turn has the next command, large or not, go over the connections that are right for it. It reports false as
// long as that must wait for the answers to earlier ones.
func (l *largeCommands) turn(s *session, large bool) bool {
	switch {
	case large && (s.own.Set() != nil || s.tx.IsOpen()): // it has connections of its own already
		return true
	case large && l.on && l.set != nil && l.fits(s):
		return true
	case s.answers.len() > 0:
		s.SetHold(client.HoldOrder)
		return false
	}
	l.on = large
	if large {
		l.open(s)
	}
	return s.router.inOrder()
}

// open makes the connections, if there are none that are in the mode of the client.
func (l *largeCommands) open(s *session) {
	if l.set != nil {
		if l.fits(s) {
			return
		}
		l.set.End()
	}
	l.set = s.w.pool.Plain(pipe.Mode{Proto: s.Proto, DB: s.DB}, largeOwner{s})
	l.closeLater(s, l.set)
}

// closeLater ends the connections when they are not needed any more.
func (l *largeCommands) closeLater(s *session, set *pipe.Private) {
	s.w.loop.After(largeIdle, func() {
		busy := l.on && (s.answers.len() > 0 || s.w.loop.Now().Sub(s.active) < largeIdle)
		switch {
		case l.set != set:
		case busy:
			l.closeLater(s, set)
		default:
			l.end()
		}
	})
}

// end ends the connections as soon as what was sent over them is answered.
func (l *largeCommands) end() {
	if l.set != nil {
		l.set.End()
	}
	l.set, l.on = nil, false
}

// fits says that the connections speak the protocol of the client, and use its database.
func (l *largeCommands) fits(s *session) bool {
	is := l.set.Mode()
	return is.Proto == s.Proto && is.DB == s.DB
}

// largeOwner is a client as the owner of these connections. Nothing is asked for over them that would send
// pushes.
type largeOwner struct{ h client.Host }

// Push implements pipe.PrivateOwner.
func (o largeOwner) Push([]byte) {}

// Stale implements pipe.PrivateOwner.
func (o largeOwner) Stale() {}

// Party implements pipe.Counted.
func (o largeOwner) Party() pipe.Party { return client.PartyOf(o.h.About()) }
