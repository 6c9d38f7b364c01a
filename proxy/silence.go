package proxy

import "lockproxy/commands"

// silence is what CLIENT REPLY has set: 0, or one of
type silence uint8

const (
	silentOnce   silence = 1 << iota // the next command is not answered
	silentAlways                     // none is
)

// SetReplies implements commands.Connection.
func (c connection) SetReplies(r commands.Replies) {
	s := c.s
	switch r {
	case commands.RepliesOn:
		s.silence = 0
		s.answers.at(s.current).silent = false
	case commands.RepliesOff:
		s.silence = silentAlways
	case commands.RepliesSkip:
		if s.silence == 0 {
			s.silence = silentOnce
		}
	}
}

// Reset implements commands.Connection.
func (c connection) Reset() { c.s.resetState() }

// resetState is the one place where what a connection has besides commands.Client is undone, for RESET and
// when the connection is closed.
func (s *session) resetState() {
	if s.silence == silentAlways && !s.gone {
		s.answers.at(s.current).silent = false
	}
	s.silence = 0
	s.pause.end()
	s.monitor.end()
	s.tx.End()
	s.tracking.End()
}
