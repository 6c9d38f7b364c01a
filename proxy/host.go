package proxy

import (
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/loop"
	"lockproxy/proxy/blocking"
	"lockproxy/proxy/client"
	"lockproxy/proxy/pubsub"
	"lockproxy/proxy/tracking"
	"lockproxy/proxy/transaction"
)

// host is client.Host for what belongs to the proxy as a whole, and not to one feature.
type host interface {
	client.Host
	worker() *worker
}

func (s *session) About() *commands.Client   { return &s.Client }
func (s *session) worker() *worker           { return s.w }
func (s *session) Loop() *loop.Loop          { return s.w.loop }
func (s *session) Pool() *pipe.Pool          { return s.w.pool }
func (s *session) Call() *commands.Call      { return &s.w.call }
func (s *session) Answers() client.Answers   { return &s.answers }
func (s *session) CurrentTag() uint32        { return s.current }
func (s *session) Gone() bool                { return s.gone }
func (s *session) Actions() commands.Actions { return actions{s} }

func (s *session) TakesPushes() bool {
	return s.silence != silentAlways && s.hold&client.HoldClosing == 0 && !s.gone
}

// AnswerLater implements client.Host. Behind EXEC it is a part of its answer.
func (s *session) AnswerLater(by client.By) {
	s.acted = true
	if s.executing == nil {
		s.answers.at(s.current).by = by
	}
}

func (s *session) HalfClosed() bool { return s.eof }
func (s *session) Draining() bool   { return s.draining }
func (s *session) CloseAfterWrite() { s.conn.CloseAfterWrite() }

// SetBlocked implements blocking.Host.
func (s *session) SetBlocked(on bool) {
	if s.Blocked = on; on {
		s.w.blocked[s.ID] = s
	} else {
		delete(s.w.blocked, s.ID)
	}
}

// newSession makes the session of a client, whose connection is not there yet.
func newSession(about commands.Client, w *worker) *session {
	s := &session{Client: about, w: w, window: window{size: min(firstWindow, w.server.o.MaxPipeline)}}
	s.monitor.h, s.pause.h, s.own = s, s, tracking.NewConnections(s)
	s.tracking = tracking.NewTracker(s, &s.own, &w.server.trackers)
	s.blocking = blocking.NewWaiter(s, &w.server.blockedCounts, &s.own, &s.tracking, &s.writes)
	s.router.s, s.out.s = s, s
	s.tasks = tasks{h: s, answers: &s.answers, writes: &s.writes}
	s.tx = transaction.NewClient(s, &s.router, &s.own, &s.tracking, &s.writes)
	s.subscriber = pubsub.NewSubscriber(s, w.hub, &s.own, &s.tasks)
	return s
}

// trackerOf is that of the client of this ID; nil: there is no such client.
func (s *Server) trackerOf(id int64) *tracking.Tracker {
	if found, ok := s.byID.Load(id); ok {
		return &found.(*session).tracking
	}
	return nil
}
