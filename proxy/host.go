package proxy

import (
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/loop"
	"lockproxy/proxy/blocking"
	"lockproxy/proxy/client"
	"lockproxy/proxy/clients"
	"lockproxy/proxy/large"
	"lockproxy/proxy/pubsub"
	"lockproxy/proxy/scatter"
	"lockproxy/proxy/tracking"
	"lockproxy/proxy/transaction"
	"lockproxy/proxy/watch"
)

// host is client.Host for the parts that belong to the proxy as a whole, not to one feature.
type host interface {
	client.Host
	worker() *worker
}

// asker is a session as seen by those who ask nodes on behalf of its commands.
type asker interface {
	host
	scatter.Host
	pipe.Receiver // takes the reply of a node as the answer to a command
	// Reply answers the current command with a reply that the proxy made.
	Reply(reply []byte)
	// Expect makes then turn the reply to the current command into its answer.
	Expect(then func(reply []byte) []byte)
	// divert makes to take the answers to commands in place of the client; nil ends that.
	divert(to taker)
}

// taker takes the answer to a command, or reports false if it is not for it.
type taker interface {
	take(tag uint32, reply []byte) bool
}

// onLoop is what a session has of its loop.
type onLoop struct{ w *worker }

func (l onLoop) worker() *worker              { return l.w }
func (l onLoop) Loop() *loop.Loop             { return l.w.loop }
func (l onLoop) Pool() *pipe.Pool             { return l.w.pool }
func (l onLoop) Call() *commands.Call         { return &l.w.call }
func (l onLoop) InTurn(f func())              { l.w.later.Run(f) }
func (l onLoop) Background(task, then func()) { l.w.background(task, then) }

// life is how far a session has come to its end.
type life struct {
	eof      bool // the client will send no more
	gone     bool // the connection is closed
	draining bool // only what was read is still answered
}

func (l *life) Gone() bool       { return l.gone }
func (l *life) HalfClosed() bool { return l.eof }
func (l *life) Draining() bool   { return l.draining }

func (s *session) About() *commands.Client   { return &s.Client }
func (s *session) Answers() client.Answers   { return &s.answers }
func (s *session) CurrentTag() uint32        { return s.current }
func (s *session) Actions() commands.Actions { return actions{s} }
func (s *session) CloseAfterWrite()          { s.conn.CloseAfterWrite() }
func (s *session) divert(to taker)           { s.taker = to }

func (s *session) TakesPushes() bool {
	return s.silence != silentAlways && s.hold&client.HoldClosing == 0 && !s.gone
}

// AnswerLater implements client.Host. In an execution the answer becomes a part of EXEC's.
func (s *session) AnswerLater(by client.By) {
	s.acted = true
	if s.taker == nil {
		s.answers.at(s.current).by = by
	}
}

// SetBlocked implements blocking.Host.
func (s *session) SetBlocked(on bool) { s.Blocked = on }

// Collect implements scatter.Host.
func (s *session) Collect(tag uint32, n int) {
	if s.gone {
		return
	}
	if s.out.held += n; n > 0 {
		s.answers.at(tag).touched = true
		s.out.check()
	}
}

// Lend implements scatter.Host.
func (s *session) Lend(tag uint32, n int) {
	if s.gone || !s.answers.has(tag) {
		return
	}
	if a := s.answers.at(tag); a.then != nil {
		a.heldBytes = n
		s.out.held += n
		s.CountMemory()
	}
}

// Resume implements scatter.Host.
func (s *session) Resume(tag uint32, answer func() []byte) {
	s.current, s.acted = tag, false
	if reply := answer(); reply != nil {
		s.Answer(tag, reply)
	} else if !s.acted {
		s.Answer(tag, client.NoAnswer)
	}
	s.acted = true // this was the answer of that command
}

// newSession makes the session of a client before it has its connection.
func newSession(about commands.Client, w *worker) *session {
	s := &session{Client: about, onLoop: onLoop{w}}
	s.footprint.s = s
	s.window.Size = min(large.FirstWindow, w.shared.Now.Load().MaxPipeline)
	s.monitor, s.pause = clients.NewMonitor(s, w.clients), clients.NewPause(s, w.clients)
	s.own = tracking.NewConnections(s)
	s.tracking = tracking.NewTracker(s, &s.own, &w.shared.Trackers)
	s.blocking = blocking.NewWaiter(s, &w.shared.Blocked, &s.own, &s.tracking, &s.writes)
	s.watcher = watch.NewWatcher(s, w.watchers, s.out.waiting)
	s.router.s, s.out.s, s.upload.s = s, s, s
	s.tasks = tasks{h: s, answers: &s.answers, writes: &s.writes}
	s.tx = transaction.NewClient(s, &s.router, &s.own, &s.tracking, &s.writes)
	s.subscriber = pubsub.NewSubscriber(s, w.hub, &s.own, &s.tasks)
	return s
}
