package proxy

import "lockproxy/commands"

// silence is what CLIENT REPLY has set: 0, or one of
type silence uint8

const (
	silentOnce   silence = 1 << iota // the next command gets no answer
	silentAlways                     // no command gets one
)

// set is CLIENT REPLY. It says whether CLIENT REPLY itself is answered.
func (s *silence) set(r commands.Replies) bool {
	switch {
	case r == commands.RepliesOn:
		*s = 0
		return true
	case r == commands.RepliesOff:
		*s = silentAlways
	case *s == 0:
		*s = silentOnce
	}
	return false
}
