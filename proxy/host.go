package proxy

import (
	"lockproxy/cluster"
	"lockproxy/commands"
)

// host is a session as its features see it: MONITOR, CLIENT PAUSE, tracking and the like, which keep their
// state themselves. All of it belongs to the loop of the client.
type host interface {
	// about is what commands know of the client.
	about() *commands.Client
	worker() *worker
	// mode is that of the connections which carry what the client sends.
	mode() cluster.Mode
	// actions are those of the current command.
	actions() commands.Actions
	// currentTag is the number of the command that is being run.
	currentTag() uint32
	// answer gives a command its whole answer, which is copied, or kept if it is large.
	answer(tag uint32, reply []byte)
	// answerLater says that the current command is answered, with answer, some time later, and by whom.
	answerLater(by uint8)
	// setHold has no further command read, clearHold ends that.
	setHold(h hold)
	clearHold(h hold)
	// push has message make a push, which is written behind the answer of command tag.
	push(tag uint32, message func(proto int) []byte)
	// answeredTag is the number of the last command that is answered.
	answeredTag() uint32
	// oldestTag is the number of the oldest command that is not answered, if any is.
	oldestTag() (tag uint32, any bool)
	// touchedTag is the number of the latest command of whose answer anything has come, and whether it is the
	// latest of all.
	touchedTag() (tag uint32, latest bool)
	// takesPushes says that the connection is there, will stay, and wants to be told anything.
	takesPushes() bool
	isGone() bool
}

func (s *session) about() *commands.Client   { return &s.Client }
func (s *session) worker() *worker           { return s.w }
func (s *session) currentTag() uint32        { return s.current }
func (s *session) answeredTag() uint32       { return s.answers.head - 1 }
func (s *session) isGone() bool              { return s.gone }
func (s *session) actions() commands.Actions { return actions{s} }

func (s *session) oldestTag() (tag uint32, any bool) { return s.answers.head, s.answers.len() > 0 }

// touchedTag implements host: an invalidation that comes now must not overtake that command, for it may be
// about what its answer says. If there is none it is a command that is answered.
func (s *session) touchedTag() (tag uint32, latest bool) {
	for tag = s.answers.tail; tag != s.answers.head; tag-- {
		if a := s.answers.at(tag - 1); a.started || a.done || a.touched {
			return tag - 1, tag == s.answers.tail
		}
	}
	return s.answers.head - 1, s.answers.len() == 0
}

func (s *session) takesPushes() bool {
	return s.silence != silentAlways && s.hold&holdClosing == 0 && !s.gone
}

// answerLater implements host. Behind EXEC it is a part of its answer.
func (s *session) answerLater(by uint8) {
	s.acted = true
	if s.executing == nil {
		s.answers.at(s.current).by = by
	}
}

func (s *session) isHalfClosed() bool     { return s.eof }
func (s *session) isDraining() bool       { return s.draining }
func (s *session) closeAfterWrite()       { s.conn.CloseAfterWrite() }
func (s *session) currentAnswer() *answer { return s.answers.at(s.current) }

// setBlocked implements blockingHost.
func (s *session) setBlocked(on bool) {
	if s.Blocked = on; on {
		s.w.blocked[s.ID] = s
	} else {
		delete(s.w.blocked, s.ID)
	}
}

// newSession makes the session of a client, whose connection is not there yet.
func newSession(about commands.Client, w *worker) *session {
	s := &session{Client: about, w: w, window: window{size: min(firstWindow, w.server.o.MaxPipeline)}}
	s.monitor.h, s.pause.h, s.own.h = s, s, s
	s.tracking = tracking{h: s, own: &s.own}
	s.blocking = blocking{h: s, own: &s.own, tracking: &s.tracking, writes: &s.writes}
	s.router.s = s
	s.tasks = tasks{h: s, writes: &s.writes}
	s.tx = transactions{s: s, router: &s.router, own: &s.own, tracking: &s.tracking, writes: &s.writes}
	s.subscriber = subscriber{h: s, own: &s.own, tasks: &s.tasks}
	return s
}
