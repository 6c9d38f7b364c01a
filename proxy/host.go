package proxy

import "lockproxy/commands"

// host is a session as its features see it: MONITOR, CLIENT PAUSE, tracking and the like, which keep their
// state themselves. All of it belongs to the loop of the client.
type host interface {
	// about is what commands know of the client.
	about() *commands.Client
	worker() *worker
	// currentTag is the number of the command that is being run.
	currentTag() uint32
	// answer gives a command its whole answer, which is copied, or kept if it is large.
	answer(tag uint32, reply []byte)
	// answerLater says that the proxy itself answers the current command, with answer, some time later.
	answerLater()
	// setHold has no further command read, clearHold ends that.
	setHold(h hold)
	clearHold(h hold)
	// push has message make a push, which is written behind the answer of command tag.
	push(tag uint32, message func(proto int) []byte)
	// answeredTag is the number of the last command that is answered.
	answeredTag() uint32
	// takesPushes says that the connection is there, will stay, and wants to be told anything.
	takesPushes() bool
	isGone() bool
}

func (s *session) about() *commands.Client { return &s.Client }
func (s *session) worker() *worker         { return s.w }
func (s *session) currentTag() uint32      { return s.current }
func (s *session) answeredTag() uint32     { return s.answers.head - 1 }
func (s *session) isGone() bool            { return s.gone }

func (s *session) takesPushes() bool {
	return s.silence != silentAlways && s.hold&holdClosing == 0 && !s.gone
}

// answerLater implements host. Behind EXEC it is a part of its answer.
func (s *session) answerLater() {
	s.acted = true
	if s.aside == nil {
		s.answers.at(s.current).by = byProxy
	}
}

// newSession makes the session of a client, whose connection is not there yet.
func newSession(about commands.Client, w *worker) *session {
	s := &session{Client: about, w: w, window: window{size: min(firstWindow, w.server.o.MaxPipeline)}}
	s.monitor.h, s.pause.h = s, s
	return s
}
