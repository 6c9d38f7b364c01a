package proxy

import (
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/proxy/client"
)

// This file is commands of more than cluster.MaxShared bytes. They go over connections that their client has
// for itself: nobody waits behind them, and a node that finds one too large closes only a connection of that
// client.
//
//	readCommands --> largeCommands.turn --> session.Mode --> Private --> node
//
// A client that tracks, or is a user of the upstream, has connections of its own for all its commands.

// largeIdle is how long the connections are kept after the last large command.
const largeIdle = time.Second

// largeCommands has the connections of one client for its large commands.
type largeCommands struct {
	set *pipe.Private // nil: none are open
	on  bool          // the latest command went over them
}

// own returns the connections that the current command goes over, nil if it is not large.
func (l *largeCommands) own() *pipe.Private {
	if l.on {
		return l.set
	}
	return nil
}

// turn makes the next command, large or not, go over the right connections. It reports false while the
// command must wait for the answers to earlier ones.
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

// open opens the connections, unless they are open in the mode of the client.
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

// closeLater ends the connections when they are no longer needed.
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

// end ends the connections once what was sent over them is answered.
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

// largeOwner is a client as the owner of these connections. Nothing that causes pushes is sent over them.
type largeOwner struct{ h client.Host }

// Push implements pipe.PrivateOwner.
func (o largeOwner) Push([]byte) {}

// Stale implements pipe.PrivateOwner.
func (o largeOwner) Stale() {}

// Party implements pipe.Counted.
func (o largeOwner) Party() pipe.Party { return client.PartyOf(o.h.About()) }
