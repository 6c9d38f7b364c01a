package proxy

import (
	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/loop"
	"lockproxy/proxy/blocking"
	"lockproxy/proxy/client"
	"lockproxy/proxy/clients"
	"lockproxy/proxy/large"
	"lockproxy/proxy/login"
	"lockproxy/proxy/pubsub"
	"lockproxy/proxy/stats"
	"lockproxy/proxy/tracking"
	"lockproxy/proxy/transaction"
	"lockproxy/proxy/watch"
)

// session is one client. Everything in it belongs to the loop of its worker.
//
// Commands are numbered as they come. answers has an entry for each command whose answer has not been handed
// to out. So answers leave in the order of the commands, whenever the replies arrive.
type session struct {
	commands.Client
	onLoop
	life
	conn *loop.Conn
	footprint
	in  input
	out output

	answers answers
	present

	// Nothing is read while it is not 0. Set and cleared by SetHold and ClearHold alone, but for the end of
	// the session (life).
	hold     client.HoldReasons
	window   large.Window   // bounds the commands under way
	attempts login.Attempts // attempts to authenticate
	silence  silence        // CLIENT REPLY

	own      tracking.Connections
	tracking tracking.Tracker
	large    largeCommands // connections for some of its commands
	upload   upload
	router   router
	tx       transaction.Client
	taker    func(tag uint32, reply []byte) bool // has answers that are for EXEC; or nil

	tasks    tasks
	blocking blocking.Waiter

	// For WAIT: the masters that the client has written to.
	writes client.Writes
	among

	subscriber pubsub.Subscriber
}

// present is what a session does now. It is about one command at a time; what lasts longer is in the answer
// of the command.
type present struct {
	current uint32            // the number of the current command, which Actions is about
	acted   bool              // that command has called an Action
	running bool              // a command's Run is on the stack
	reading bool              // Read is on the stack
	last    *commands.Command // the last command that was read
}

// among is the client's part in what concerns all clients.
type among struct {
	monitor clients.Monitor
	watcher watch.Watcher
	pause   clients.PausedClient
}

// Mode is the mode of the upstream connections that carry what this client sends. It changes with SELECT,
// HELLO, AUTH, tracking and large commands, but only behind the answers to all earlier commands: see
// router.inOrder.
func (s *session) Mode() pipe.Mode {
	own := s.own.Set()
	if own == nil && s.large.on {
		own = s.large.set
	}
	return pipe.Mode{Proto: s.Proto, DB: s.DB, Second: s.router.stuckEpoch != 0 && own == nil, Own: own}
}

// beginCommand numbers a command and counts it with c, if c is not nil. From here on it is the current
// command, and needs exactly one answer.
func (s *session) beginCommand(c *stats.Counter) {
	var a *answer
	s.current, a = s.answers.pushAnswer(&s.w.spare, c)
	a.start, a.silent = s.w.loop.Now(), s.silence != 0
	// CLIENT REPLY SKIP is for one command only.
	s.silence &= silentAlways
	s.acted = false
	if s.answers.len() >= s.window.Size {
		s.SetHold(client.HoldPipeline)
	}
}

// Receive implements pipe.Receiver for requests that are forwarded as they are, and for those of Send. A
// reply of which the command makes the answer itself (then) is kept until it is whole.
func (s *session) Receive(tag uint32, chunk []byte, last bool) {
	a := s.answers.at(tag)
	switch {
	case a.then == nil:
		s.passAnswer(tag, a, chunk, last)
		return
	case last && a.Size() == 0 && len(chunk) <= loop.Shared: // the whole reply is in chunk
		applyReply(s, tag, a, chunk)
		return
	}
	a.noteBegun(chunk)
	s.out.keepAnswer(a, chunk)
	switch {
	case !last:
	case len(a.Front) > 0:
		applyApart(s, tag, a.Collected)
	default:
		applyKept(s, tag, a)
	}
}

// passAnswer takes a piece of answer a, which is that of command tag. The oldest answer goes to the client as
// it comes. One whose turn has not come is kept.
func (s *session) passAnswer(tag uint32, a *answer, piece []byte, last bool) {
	a.noteBegun(piece)
	turn := tag == s.answers.head && !s.gone
	switch {
	case s.gone || a.silent: // nobody gets it
	case turn:
		s.out.writeBytes(piece)
	default:
		a.done = last // before the limits are looked at, which may close the client
		s.out.keepAnswer(a, piece)
	}
	switch {
	case !last:
	case turn:
		s.advanceAnswers()
	default:
		s.settleAnswer(tag)
	}
}

// applyKept is applyReply for the reply that is kept in the answer. The buffer goes back to the loop once the
// command has made its answer of it.
func applyKept(s *session, tag uint32, a *answer) {
	reply := a.Buf
	s.out.held -= len(reply)
	a.Collected = client.Collected{}
	applyReply(s, tag, a, reply)
	s.w.loop.Put(reply)
}

// applyApart is applyReply for a reply that a goroutine joins. Its pieces may be many megabytes, and to copy
// them into one would hold up the loop.
func applyApart(s *session, tag uint32, reply client.Collected) {
	var whole []byte
	s.Background(func() { whole = reply.Whole() }, func() {
		a := s.answers.at(tag)
		a.Collected = client.Collected{Buf: whole}
		applyKept(s, tag, a)
	})
}

// applyReply makes the command turn the node's reply into its answer, or go on. The reply is valid until it
// returns. then is taken out first, since the command may set the next one.
func applyReply(s *session, tag uint32, a *answer, reply []byte) {
	if !s.gone {
		s.out.held -= a.heldBytes
	}
	then := a.then
	a.heldBytes = 0
	a.then, a.started, a.touched = nil, false, true
	s.Resume(tag, func() []byte { return then.Answer(reply) })
}

// Most implements pipe.Longer. What the command takes apart itself has to be kept whole, so it is bounded;
// what only passes through need not be.
func (s *session) Most(tag uint32) int {
	if s.answers.at(tag).then == nil {
		return pipe.AnyLength
	}
	return pipe.MostData
}

// Fail implements pipe.Receiver.
func (s *session) Fail(tag uint32, err error) {
	a := s.answers.at(tag)
	if a.isShown() && tag == s.answers.head && !s.gone {
		// The client has half a reply: nothing valid can follow it.
		s.w.shared.Log.Warn(
			"client closed: its reply was cut off by the node",
			"client",
			s.Addr,
			"err",
			err,
		)
		s.conn.Close()
	}
	s.dropReply(a)
	if a.then != nil {
		applyReply(s, tag, a, commands.ErrorReply(err))
		return
	}
	s.Answer(tag, commands.ErrorReply(err))
}

// Discard implements pipe.Receiver: what the client already has stays.
func (s *session) Discard(tag uint32) bool {
	a := s.answers.at(tag)
	if a.isShown() && tag == s.answers.head && !s.gone {
		return false
	}
	s.dropReply(a)
	return true
}

// dropReply forgets what has arrived for an answer. It may come again: nothing of it has been shown.
func (s *session) dropReply(a *answer) {
	s.out.held -= a.Size()
	a.Drop(s.w.loop)
	a.started = false
}

// Detour implements pipe.Receiver: later commands wait, so that none overtakes the one that is sent again.
func (s *session) Detour(uint32) {
	s.SetHold(client.HoldOrder)
	s.writes.AddSomewhere()
}

// Answer gives command tag its whole answer, which is copied, or kept if it is larger than loop.Shared: then
// it must not be changed any more. It is for the oldest command as for any other; if it is not its turn yet,
// it waits here.
func (s *session) Answer(tag uint32, reply []byte) {
	if s.taker == nil || !s.taker(tag, reply) {
		s.passAnswer(tag, s.answers.at(tag), reply, true)
	}
}

// settleAnswer marks an answer as complete; it waits for its turn. If the client has gone nobody takes
// answers out of the queue any more, so what else hangs on this one is done here.
func (s *session) settleAnswer(tag uint32) {
	a := s.answers.at(tag)
	a.done = true
	if s.gone {
		s.w.countCommand(a)
		s.takeBack(a)
	}
}

// advanceAnswers ends the oldest answer and writes those that waited for it. It may be called only when the
// oldest answer is complete and written. It may close the connection, or have the client read on, and both
// before it returns.
func (s *session) advanceAnswers() {
	for {
		a := s.answers.first()
		s.w.countCommand(a)
		switch {
		case a.lost == nil:
		case s.gone: // since the answer was begun
			s.takeBack(a)
		default:
			s.out.deliveries.Add(s.w.loop.Now(), a.lost)
		}
		if a.kept != 0 {
			s.KeepFor(s.answers.head, -a.kept)
		}
		s.answers.popAnswer(&s.w.spare)
		// A large reply: the next ones may be as large.
		if s.window.Answered(s.out.deliveries.Appended) > cluster.MaxShared {
			s.large.expectReads()
		}
		s.out.writePushes()
		if s.answers.len() == 0 {
			break
		}
		a = s.answers.first()
		if a.then == nil && len(a.Buf) > 0 {
			s.out.writeAll(&a.Collected)
			s.out.held -= a.Size()
			a.Drop(s.w.loop)
		}
		if !a.done {
			break
		}
	}
	// The answer to HELLO waits for its turn as any other.
	if s.own.Turning() {
		s.own.Turn()
	}
	// Not at the first free place: to read a command at a time would have it sent alone.
	if n := s.answers.len(); s.hold&client.HoldPipeline != 0 && (2*n < s.window.Size || n == 0) {
		s.window.Adjust(s.out.waitingBytes() < narrowFrom, s.w.shared.Now.Load().MaxPipeline)
		s.ClearHold(client.HoldPipeline)
	}
	if s.answers.len() == 0 {
		s.router.locks.Tidy(s.answers.unanswered())
		s.ClearHold(client.HoldPipeline | client.HoldOrder)
	}
	s.out.relieveClient() // what waited may not be written at all: pieces of an answer, or one that is silent
	s.closeIfAnswered()
	s.EndIfDone()
	if s.blocking.Waits() {
		s.blocking.ItsTurn()
	}
}

// SetHold stops reading commands. It may be called from within Read, which then ends behind the current
// command.
func (s *session) SetHold(h client.HoldReasons) {
	s.hold |= h
	if !s.gone {
		s.conn.Pause(mostAhead(s))
	}
}

// mostAhead is for Conn.Pause: how much input is kept that the session does not read now. If that may last,
// as much as at Redis, so that the end of the connection is seen behind it. 0: nothing more is read from the
// socket, and the client feels it.
func mostAhead(s *session) int {
	if s.hold&client.HoldWaiting == 0 || s.hold&client.HoldMemory != 0 || !s.Authenticated {
		return 0
	}
	return s.w.shared.Limits.Of(s.Authenticated).Command
}

// ClearHold reads on if no other reason to wait is left. It does nothing if none of h was set. What the
// client waited for, EXEC or BLPOP, may have let go of memory.
func (s *session) ClearHold(h client.HoldReasons) {
	if s.hold&h == 0 {
		return
	}
	s.hold &^= h
	s.CountMemory()
	s.own.Turn()
	switch {
	case s.gone:
	case s.hold == 0:
		s.conn.Resume()
		s.EndIfDone()
	default:
		s.conn.Pause(mostAhead(s))
		s.closeIfAnswered()
	}
}
