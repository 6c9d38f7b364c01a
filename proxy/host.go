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
	"lockproxy/proxy/tracking"
	"lockproxy/proxy/transaction"
	"lockproxy/proxy/watch"
)

// onLoop is what a session has of its loop. With it the session has the methods of client.Host that are about
// the loop.
type onLoop struct{ w *worker }

func (l onLoop) shared() *Shared      { return l.w.shared }
func (l onLoop) Loop() *loop.Loop     { return l.w.loop }
func (l onLoop) Pool() *pipe.Pool     { return l.w.pool }
func (l onLoop) Call() *commands.Call { return &l.w.call }
func (l onLoop) InTurn(f func())      { l.w.later.Run(f) }

// Background runs task on a goroutine, then then on the loop. A drain waits for both. If the loop has ended,
// then never runs.
func (l onLoop) Background(task, then func()) {
	l.w.shared.Tasks.Go(func() { // the loop stays open until it ends
		task()
		l.w.loop.Post(then)
	})
}

func (s *session) About() *commands.Client   { return &s.Client }
func (s *session) Answers() client.Answers   { return &s.answers }
func (s *session) CurrentTag() uint32        { return s.current }
func (s *session) Actions() commands.Actions { return actions{s} }
func (s *session) CloseAfterWrite()          { s.conn.CloseAfterWrite() }

// Divert implements execution.Host. nil: the client gets its answers itself again.
func (s *session) Divert(take func(tag uint32, reply []byte) bool) { s.taker = take }

// TakesPushes implements client.Host. With CLIENT REPLY OFF a client is sent nothing at all.
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

// Collect implements scatter.Host. If the client has gone there is nobody to count it for.
func (s *session) Collect(tag uint32, n int) {
	if s.gone {
		return
	}
	if s.out.held += n; n > 0 {
		s.answers.at(tag).touched = true
		s.out.checkLimits()
	}
}

// Lend implements scatter.Host. They are let go by applyReply, when the command goes on.
func (s *session) Lend(tag uint32, n int) {
	if s.gone || !s.answers.hasCommand(tag) {
		return
	}
	if a := s.answers.at(tag); a.then != nil {
		a.heldBytes = n
		s.out.held += n
		s.CountMemory()
	}
}

// Resume implements scatter.Host. It may be called for any command that is not answered, whichever is the
// current one. A command that neither answers nor asks has a fault: its client gets NoAnswer, and does not
// wait for ever.
func (s *session) Resume(tag uint32, answer func() []byte) {
	s.current, s.acted = tag, false
	if reply := answer(); reply != nil {
		s.Answer(tag, reply)
	} else if !s.acted {
		s.Answer(tag, client.NoAnswer)
	}
	s.acted = true // this was the answer of that command
}

// newSession makes the session of a client before it has its connection. All parts of it are made here. They
// know each other by pointers into it, so a session must never be copied.
func newSession(about commands.Client, w *worker) *session {
	s := &session{Client: about, onLoop: onLoop{w}}
	s.footprint.s, s.life.s = s, s
	s.window.Size = min(large.FirstWindow, w.shared.Now.Load().MaxPipeline)
	s.monitor, s.pause = clients.NewMonitor(s, w.clients), clients.NewPause(s, w.clients)
	s.own = tracking.NewConnections(s)
	s.tracking = tracking.NewTracker(s, &s.own, &w.shared.Trackers)
	s.blocking = blocking.NewWaiter(s, &w.shared.Blocked, &s.own, &s.tracking, &s.writes)
	s.watcher = watch.NewWatcher(s, w.watchers, s.out.waitingBytes)
	s.router.s, s.out.s, s.upload.s = s, s, s
	s.tasks = tasks{h: s, answers: &s.answers, writes: &s.writes}
	s.tx = transaction.NewClient(s, &s.router, &s.own, &s.tracking, &s.writes)
	s.subscriber = pubsub.NewSubscriber(s, w.hub, &s.own, &s.tasks)
	return s
}

// otherClient is a session as other clients see it. It implements clients.Client. It may be kept and handed
// on by any goroutine. Its methods run on the loop of the session.
type otherClient struct{ s *session }

// Describe implements clients.Client.
func (p otherClient) Describe(to *commands.Peer) bool {
	if p.s.gone || p.s.conn.Over() {
		return false
	}
	*to = peerOf(p.s)
	return true
}

// Unblock implements clients.Client.
func (p otherClient) Unblock(withError bool, ended func(bool)) {
	switch s := p.s; {
	case !s.Blocked:
		ended(false)
	case !s.blocking.Unblock(withError, ended):
		ended(!s.gone && s.tasks.unblockWait(withError))
	}
}

// Close implements clients.Client.
func (p otherClient) Close() { p.s.conn.Close() }

// peerOf describes the session as it is between two commands. It must run on the loop.
func peerOf(s *session) commands.Peer {
	p := commands.Peer{
		Client: &s.Client, FD: s.conn.Descriptor(), Idle: s.w.loop.Now().Sub(s.active),
		Waits: s.Blocked || s.hold&client.HoldWaiting != 0, Closing: s.hold&client.HoldClosing != 0,
		Query: s.conn.Kept(), QueryRoom: s.conn.InputMemory() - s.conn.Kept(),
		Replies: s.out.waitingBytes(), ReplyRoom: s.out.buf.Cap(), Stalled: s.conn.Stalled(),
		BytesIn: s.in.bytes, BytesOut: s.out.deliveries.Written, Commands: s.in.commands,
	}
	if s.last != nil && s.last.Name != s.w.table.Unknown().Name {
		p.Command = s.last.Name
	}
	p.Memory = s.footprint.memoryUse().sum()
	return p
}

// selfOf describes the session while its command runs. As at Redis, where a client sees the command by which
// it asks.
func selfOf(s *session) *commands.Peer {
	p := peerOf(s)
	for _, arg := range s.w.call.Args {
		p.Args += len(arg)
	}
	if s.reading { // what it sends is in the buffer of the loop, or still in its own
		p.Query = s.w.input
		p.QueryRoom = max(loop.Shared-p.Query, 0)
	}
	p.Memory += p.Query
	return &p
}

// session is that of the client with this ID; nil: there is no such client. It belongs to its loop.
func (s *Shared) session(id int64) *session {
	found, _ := s.Clients.Find(id).(otherClient)
	return found.s
}

// tracker is that of the client with this ID; nil: there is no such client.
func (s *Shared) tracker(id int64) *tracking.Tracker {
	if found := s.session(id); found != nil {
		return &found.tracking
	}
	return nil
}
