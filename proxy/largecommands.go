package proxy

import (
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/commands"
	"lockproxy/proxy/client"
	"lockproxy/proxy/large"
)

// This file is commands of more than cluster.MaxShared bytes, and reads with such replies. They go over
// connections that their client has for itself: nobody waits behind them, a node that finds one too large
// closes only a connection of that client, and a node keeps what its client does not take.
//
//	readCommands --> largeCommands.turnConnections --> session.Mode --> Private --> node
//
// How long a reply is nobody knows before. So after a large reply or command the next reads of the client go
// this way, too. A first reply of more than large.WindowBytes is asked for again.
//
// A client that tracks, or is a user of the upstream, has connections of its own for all its commands.

// largeIdle is how long the connections are kept after the last large command.
const largeIdle = time.Second

// largeCommands has the connections of one client for its large commands. It belongs to the loop. Its
// connections are those of the proxy's own user.
type largeCommands struct {
	set *owned.Set // nil: none are open
	on  bool       // the latest command went over them
	// so many reads go over them, because there was a large reply or command
	reads int
}

// expectLarge is how many reads after a large reply may have one, too. Reads of one kind often follow each
// other; and should none be large, it costs no more than this many over a connection of the client's own.
const expectLarge = 100

// expectReads notes that the next reads may have large replies.
func (l *largeCommands) expectReads() { l.reads = expectLarge }

// takesRead says that the command is a read to go over the connections, and counts it. What replicas may
// answer, or a goroutine has taken apart, is none. A client for which there is no room for one more
// connection uses the shared ones.
func (l *largeCommands) takesRead(s *session, args [][]byte) bool {
	if len(args) == 0 || s.in.long != nil || s.own.Set() != nil || s.tx.IsOpen() {
		return false
	}
	cmd := s.w.table.Lookup(args[0])
	if cmd == nil || cmd.Route != commands.ByKeys || !cmd.ReadsKeys() || cmd.Flags&commands.Scripted != 0 ||
		s.router.readers(cmd) != pipe.MasterOnly || !s.w.pool.HasRoom(large.ClientOwner{Host: s}) {
		return false
	}
	l.reads--
	return true
}

// turnConnections makes the next command, large or not, go over the right connections. It reports false while
// the command must wait for the answers to earlier ones.
func (l *largeCommands) turnConnections(s *session, large bool) bool {
	switch {
	case large && (s.own.Set() != nil || s.tx.IsOpen()): // it has connections of its own already
		return true
	case large && l.on && l.set != nil && l.fitsMode(s):
		return true
	case s.answers.len() > 0:
		s.SetHold(client.HoldOrder)
		return false
	}
	l.on = large
	if large {
		l.openConnections(s)
	}
	return s.router.inOrder()
}

// openConnections opens the connections, unless they are open in the mode of the client.
func (l *largeCommands) openConnections(s *session) {
	if l.set != nil {
		if l.fitsMode(s) {
			return
		}
		l.set.End()
	}
	l.set = s.w.pool.Private(pipe.Mode{Proto: s.Proto, DB: s.DB}, large.ClientOwner{Host: s}, nil)
	l.closeLater(s, l.set)
}

// closeLater ends the connections when they are no longer needed. It looks again after each largeIdle, and
// does nothing once other connections have taken their place.
func (l *largeCommands) closeLater(s *session, set *owned.Set) {
	s.w.loop.After(largeIdle, func() {
		busy := l.on && (s.answers.len() > 0 || s.w.loop.Now().Sub(s.active) < largeIdle)
		switch {
		case l.set != set:
		case busy:
			l.closeLater(s, set)
		default:
			l.endConnections()
		}
	})
}

// endConnections ends the connections once what was sent over them is answered.
func (l *largeCommands) endConnections() {
	if l.set != nil {
		l.set.End()
	}
	l.set, l.on = nil, false
}

// fitsMode says that the connections speak the protocol of the client, and use its database.
func (l *largeCommands) fitsMode(s *session) bool {
	is := pipe.ModeOf(l.set)
	return is.Proto == s.Proto && is.DB == s.DB
}
