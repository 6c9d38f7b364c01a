package proxy

import (
	"io"
	"time"

	"lockproxy/commands"
	"lockproxy/internal/loop"
	"lockproxy/proxy/client"
)

// This file ends a session: because its client has sent its last command or has gone, or because the proxy
// drains.

// lingerFor is how long a connection that ended right after a grant is watched for a reset, the sign that its
// client never read the grant.
const lingerFor = 200 * time.Millisecond

// lastMessages is how long a subscriber that has ended its side waits for messages that are on their way.
const lastMessages = time.Second

// life is how far a session has come to its end. It goes one way only: eof or draining, then gone. active is
// by the clock of the loop.
type life struct {
	s        *session
	eof      bool      // the client will send no more
	gone     bool      // the connection is closed
	draining bool      // only what was read is still answered
	active   time.Time // of the last input or output
}

func (l *life) Gone() bool       { return l.gone }
func (l *life) HalfClosed() bool { return l.eof }
func (l *life) Draining() bool   { return l.draining }

// EOF implements loop.HalfCloser: earlier commands are answered first, but none waits any longer for a lock
// or for the end of a pause. false: a client that was to wait is closed at once, and what it holds is given
// back.
func (l *life) EOF() bool {
	s := l.s
	if s.hold&(client.HoldPause|client.HoldLogin) != 0 || s.tasks.lockWaits > 0 {
		return false
	}
	s.eof = true
	s.upload.giveUp(nil)
	if s.blocking.Waits() {
		s.blocking.HalfClosed()
		return true
	}
	s.EndIfDone()
	return true
}

// EndIfDone closes a session that has nothing left to do. While nothing holds it, the only input left is the
// beginning of a command. It is called after everything that may have been the last.
func (l *life) EndIfDone() {
	s := l.s
	if (s.eof || s.draining) && s.hold == 0 && !s.reading {
		s.hold |= client.HoldClosing
		s.closeIfAnswered()
	}
}

// closeIfAnswered closes a session that reads no more commands, once the last answer is written. A client
// that ended its side right after a grant may not have read it: then it waits for a reset. It may be called
// again and again; what it starts does no harm a second time.
func (l *life) closeIfAnswered() {
	s := l.s
	switch {
	case s.gone || s.hold != client.HoldClosing || s.answers.len() > 0:
	case s.eof && s.subscriber.Listens(): // what was published before it ended its side is for it, too
		s.silence = silentAlways
		s.beginCommand(nil)
		s.w.loop.After(lastMessages, func() { s.tasks.endTasks(errClientGone) })
		s.subscriber.End(func() []byte { return nil })
	case s.eof && s.out.deliveries.Any():
		s.w.loop.After(lingerFor, func() {
			if !s.gone {
				s.conn.CloseAfterWrite()
			}
		})
	default:
		s.conn.CloseAfterWrite()
	}
}

// endSession ends the session once earlier commands are answered. Nothing that comes behind the current
// command is read.
func (l *life) endSession() {
	s := l.s
	s.draining = true
	s.SetHold(client.HoldClosing)
	s.closeIfAnswered()
}

var refusedByDrain = commands.ErrorReply(commands.ErrDraining)

// drainSession ends the session once the commands that were read are answered. What waits for others is ended
// with an error, since it could take for ever; what is at a node is answered.
func (l *life) drainSession() {
	s := l.s
	s.draining = true
	s.conn.EndInput(time.Second)
	s.upload.giveUp(refusedByDrain)
	s.tasks.endTasks(commands.ErrDraining)
	s.Waits.Drain(commands.ErrDraining)
	s.blocking.Drain()
	if s.hold&client.HoldPause != 0 { // the command that is held is answered, and none behind it is read
		s.SetHold(client.HoldClosing)
		if s.upload.cmd == nil { // otherwise giveUp has answered it
			s.beginCommand(nil)
			s.Reply(refusedByDrain)
		}
		s.pause.End()
	}
	s.ClearHold(client.HoldLogin)
	s.EndIfDone()
}

// Closed implements loop.Handler. Only a client that ends its side properly, or has announced its end (QUIT,
// RESET), gives back the locks that it keeps alive. When the proxy closes the connection, or the network
// breaks it, the client may still be at work: then its holds last until their leases are over. Holds with
// LINGER are kept alive for so long before that, unless the client has announced its end. It runs once, on
// the loop.
func (l *life) Closed(err error) {
	s := l.s
	s.gone = true
	if err == loop.ErrUnread {
		s.w.shared.Log.Warn("client closed: client-query-buffer-limit", "client", s.Addr)
	}
	s.upload.giveUp(nil)
	s.tasks.endTasks(errClientGone)
	s.Waits.Close(commands.ErrEnded)
	s.blocking.Abandon()
	s.resetState()
	s.large.endConnections()
	s.Keepalives.Break(s.Host(), s.w.draining || !s.eof && err != io.EOF)
	s.subscriber.Leave()
	s.out.buf.Free(s.w.loop)
	s.out.holdNodes(nil)
	s.out.deliveries.End(s.conn, s.w.loop.Now(), s.eof, err)
	// Those that nodes still owe come to settleAnswer one by one.
	for tag := s.answers.head; tag != s.answers.tail; tag++ {
		a := s.answers.at(tag)
		if a.then == nil {
			a.Drop(s.w.loop)
		}
		if a.done {
			s.takeBack(a)
		} else if a.lost != nil && a.by != client.ByProxy { // otherwise it is a task already
			a.owed = true
			s.w.shared.Tasks.Add(1)
		}
	}
	s.out.pushes, s.out.held = nil, 0
	// What was counted for it is given back. Since it is gone nothing more is, whoever still asks.
	s.w.memory.Add(-s.bytes)
	s.bytes = 0
	delete(s.w.sessions, s)
	s.w.shared.Clients.Remove(s.ID)
	s.w.shared.Left() // last, because Drain may go on after this
}

// takeBack takes back what an answer gave to a client that has gone.
func (l *life) takeBack(a *answer) {
	if lost := a.lost; lost != nil {
		a.lost = nil
		lost.Lost()
	}
	if a.owed { // Closed has counted it as a task
		a.owed = false
		l.s.w.shared.Tasks.Done()
	}
}

// resetState undoes all of a connection's state outside commands.Client, for RESET and for a closed
// connection. It is the only place that does.
func (l *life) resetState() {
	s := l.s
	if s.silence == silentAlways && s.answers.hasCommand(s.current) && !s.gone {
		s.answers.Speak(s.current)
	}
	s.silence = 0
	s.pause.End()
	s.monitor.End()
	s.watcher.End()
	s.tx.End()
	s.tracking.End()
	s.CountMemory()
}
