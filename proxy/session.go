package proxy

import (
	"errors"
	"time"

	"lockproxy/cluster"
	"lockproxy/commands"
	"lockproxy/internal/loop"
	"lockproxy/internal/resp"
	"lockproxy/proxy/blocking"
	"lockproxy/proxy/client"
	"lockproxy/proxy/pubsub"
	"lockproxy/proxy/tracking"
	"lockproxy/proxy/transaction"
)

const (
	// roundCommands is after how many commands of a client the loop looks whether the round has taken longer
	// than roundTime: then others have their turn first.
	roundCommands = 32
	roundTime     = 3 * time.Millisecond

	// outputLow is how many bytes of replies may be left when commands are read again.
	outputLow = 64 << 10
	// crowded is how many bytes of replies make the window of commands on their way smaller.
	crowded = 256 << 10
	// maxScratch is how large a command may be whose arguments stay in the
	// scratch of the worker.
	maxScratch = 64 << 10
	// lingerFor is how long a connection that ended right after a grant is
	// watched for a reset, the sign that its client never read the grant.
	lingerFor = 200 * time.Millisecond
)

// session is one client. Everything in it belongs to the loop of its worker.
//
// Commands are numbered as they come; answers holds one entry for each
// whose reply is not yet handed to out, so replies leave in the order of the
// commands whenever they arrive.
type session struct {
	commands.Client
	w      *worker
	conn   *loop.Conn
	memory footprint
	guard  resp.Guard
	long   *longCommand // at the front of what is read, or nil
	out    loop.Buffer
	active time.Time // when input came or output went last

	answers answers
	pushes  []push // that wait for their place among the answers
	held    int    // bytes in answers and pushes
	kept    int    // bytes of long commands that are not answered
	current uint32 // the command that Actions speak of
	acted   bool   // that command has called one of them
	running bool   // a command's Run is on the stack
	replied bool   // and has called Reply
	reading bool   // Read is on the stack

	hold       client.Hold
	window     window       // of commands on their way
	version    uint64       // of the topology that routed the requests on their way
	routed     cluster.Mode // of the connections that they went over
	stuckEpoch uint64       // cluster.Pipes.StuckEpoch when they went
	eof        bool         // the client will send no more
	gone       bool         // the connection is closed
	attempts   attempts     // to authenticate
	draining   bool
	silence    silence           // CLIENT REPLY
	last       *commands.Command // that was read

	own       tracking.Connections
	tracking  tracking.Tracker
	large     largeCommands // connections for some of its commands
	router    router
	tx        transaction.Client
	executing *execution // takes the answers to commands that the proxy runs for EXEC

	tasks    tasks
	blocking blocking.Waiter

	writes     client.Writes
	deliveries deliveries
	monitor    monitor
	pause      paused

	subscriber pubsub.Subscriber
	late       collected // messages that came inside an answer
}

// Reasons for which the context of a task ends.
var (
	errClientGone = errors.New("proxy: the client has closed its connection")
)

// Read implements loop.Handler.
func (s *session) Read(buf []byte) int {
	s.active = s.w.loop.Now()
	s.deliveries.prove()
	s.reading = true
	s.w.input = len(buf)
	used := s.readCommands(buf)
	s.reading = false
	s.own.Turn()
	if s.tx.IsOpen() || len(s.answers.buf) > firstAnswers {
		s.CountMemory()
	}
	s.w.bytesIn.Add(uint64(used))
	s.EndIfDone()
	return used
}

// readCommands sends the whole commands at the front of buf on their way, and returns
// how many bytes they are.
func (s *session) readCommands(buf []byte) (used int) {
	for ran := 0; used < len(buf) && s.hold == 0 && !s.gone && s.inOrder(); {
		n, err := s.nextCommand(buf[used:])
		if err != nil {
			s.refuseBytes(err)
			return len(buf)
		}
		if n == 0 {
			s.conn.Need(s.guard.Missing(), s.guard.Likely(buf[used:]))
			break
		}
		if n > client.LongFrom && s.long == nil {
			s.takeApart(buf[used : used+n])
			break // it comes again
		}
		if large := n > cluster.MaxShared; (large || s.large.on) && !s.large.turn(s, large) {
			break
		}
		args, raw, err := s.argsOf(buf[used : used+n])
		if err != nil {
			s.refuseBytes(err)
			return len(buf)
		}
		if len(args) > 0 {
			s.w.args = args
			taken := s.router.dispatch(args, raw)
			if len(raw) > maxScratch {
				s.w.args = nil // or they would keep the command in memory
			}
			if !taken {
				break // it comes again
			}
		}
		s.long = nil
		used += n
		if ran++; ran%roundCommands == 0 && time.Since(s.w.loop.Now()) > roundTime {
			s.SetHold(client.HoldRound)
			s.w.loop.Post(func() { s.ClearHold(client.HoldRound) })
		}
	}
	return used
}

// Mode is that of the upstream connections which carry what this client sends.
func (s *session) Mode() cluster.Mode {
	own := s.own.Set()
	if own == nil {
		own = s.large.own()
	}
	return cluster.Mode{Proto: s.Proto, DB: s.DB, Second: s.stuckEpoch != 0 && own == nil, Own: own}
}

// inOrder makes sure that no command overtakes earlier ones that went by an
// older topology, or over connections of another mode, or round a script.
func (s *session) inOrder() bool {
	v, epoch := s.w.pipes.Version(), s.w.pipes.StuckEpoch()
	if v != s.version || epoch != s.stuckEpoch || s.Mode() != s.routed {
		if s.answers.len() > 0 {
			if v == s.version && s.stuckEpoch == 0 && s.Mode() == s.routed {
				return true // behind the script, if that is where its commands are
			}
			s.SetHold(client.HoldOrder)
			return false
		}
		s.version, s.stuckEpoch = v, epoch
		s.routed = s.Mode()
		s.own.Turn()
	}
	return true
}

// send sends req to the master of slot. What any node may get goes to one and the same, so that the
// commands of a client, PUBLISH say, stay in order.
func (s *session) send(slot int, req []byte, resend bool) {
	if slot == commands.AnySlot {
		slot = s.w.pipes.SomeSlot(s.ID)
	}
	s.sendTo(cluster.ToSlot(slot), req, resend)
}

// sendTo sends req, the current command or what is asked for it.
func (s *session) sendTo(to cluster.Target, req []byte, resend bool) {
	p := s.w.pipes.Send(cluster.Request{
		Target: to, Mode: s.Mode(), Bytes: req, To: s, Tag: s.current, Resend: resend,
	})
	if !resend {
		s.writes.Add(p)
	}
	s.Feed(p)
}

func (s *session) limits() *resp.Limits {
	l := s.w.server.limits.Load()
	if s.Authenticated {
		return &l.open
	}
	return &l.closed
}

// refuseBytes answers framing that Redis refuses, and closes, as Redis does.
func (s *session) refuseBytes(err error) {
	s.begin(nil)
	s.Reply(commands.ErrorReply(err))
	s.close()
}

// begin numbers a command. c counts it, if not nil.
func (s *session) begin(c *counter) {
	s.current = s.answers.push(s.w, answer{counter: c, start: s.w.loop.Now(), silent: s.silence != 0})
	s.silence &= silentAlways
	s.acted = false
	if s.answers.len() >= s.window.size {
		s.SetHold(client.HoldPipeline)
	}
}

// Receive implements cluster.Receiver for requests that are forwarded as they
// stand, and for those of Send.
func (s *session) Receive(tag uint32, chunk []byte, last bool) {
	a := s.answers.at(tag)
	if a.then == nil && tag == s.answers.head && !s.gone {
		s.begun(a, chunk)
		if !a.silent {
			s.write(chunk)
		}
		if last {
			s.advance()
		}
		return
	}
	if a.then != nil || !s.gone && !a.silent {
		s.begun(a, chunk)
		a.keep(s.w.loop, chunk)
		s.held += len(chunk)
		s.checkOutput()
	}
	if !last {
		return
	}
	switch {
	case a.then == nil:
		s.settle(tag)
	case len(a.front) > 0:
		s.applyApart(tag, a.collected)
	default:
		s.apply(tag, a)
	}
}

// begun notes the first bytes of an answer.
func (s *session) begun(a *answer, chunk []byte) {
	if !a.started && len(chunk) > 0 {
		a.started = true
		a.failed = chunk[0] == '-' || chunk[0] == '!'
	}
}

// apply has the command make its answer of the node's reply, or go on.
func (s *session) apply(tag uint32, a *answer) {
	then, reply := a.then, a.buf
	s.held -= len(reply)
	if !s.gone {
		s.held -= a.lent
	}
	a.lent = 0
	a.then, a.collected, a.started, a.touched = nil, collected{}, false, true
	s.current, s.acted = tag, false
	answer := then(reply)
	if answer != nil {
		s.Answer(tag, answer)
	} else if !s.acted {
		s.Answer(tag, client.NoAnswer)
	}
	s.w.loop.Put(reply)
}

// Fail implements cluster.Receiver.
func (s *session) Fail(tag uint32, err error) {
	a := s.answers.at(tag)
	if a.shown() && tag == s.answers.head && !s.gone {
		// Half a reply is with the client: nothing sound can follow it.
		s.w.server.o.Log.Warn("client closed: its reply was cut off by the node", "client", s.Addr, "err", err)
		s.conn.Close()
	}
	s.held -= a.size()
	a.drop(s.w.loop)
	a.started = false
	if a.then != nil {
		a.buf = append(a.buf, commands.ErrorReply(err)...)
		s.held += len(a.buf)
		s.apply(tag, a)
		return
	}
	s.Answer(tag, commands.ErrorReply(err))
}

// Discard implements cluster.Receiver: what the client has got stays.
func (s *session) Discard(tag uint32) bool {
	a := s.answers.at(tag)
	if a.shown() && tag == s.answers.head && !s.gone {
		return false
	}
	s.held -= a.size()
	a.drop(s.w.loop)
	a.started = false
	return true
}

// Detour implements cluster.Receiver: the commands that follow wait, so that
// none overtakes the one that is sent again.
func (s *session) Detour(uint32) {
	s.SetHold(client.HoldOrder)
	s.writes.AddSomewhere()
}

// Answer gives command tag its whole answer, which is copied, or kept if it is larger than loop.Shared: then
// nobody may write to it any more.
func (s *session) Answer(tag uint32, reply []byte) {
	if s.executing != nil && s.executing.take(tag, reply) {
		return
	}
	a := s.answers.at(tag)
	s.begun(a, reply)
	if s.gone {
		s.settle(tag)
		return
	}
	if a.silent {
		reply = nil
	}
	if tag == s.answers.head {
		s.write(reply)
		s.advance()
		return
	}
	s.held += len(reply)
	a.keep(s.w.loop, reply)
	s.settle(tag)
	s.checkOutput()
}

// settle marks an answer that is whole and waits for its turn.
func (s *session) settle(tag uint32) {
	a := s.answers.at(tag)
	a.done = true
	if s.gone {
		s.count(a)
		if a.lost != nil {
			lost := a.lost
			a.lost = nil
			lost()
		}
		if a.owed {
			a.owed = false
			s.w.server.tasks.Done()
		}
	}
}

// advance ends the oldest answer and writes those that were waiting for it.
func (s *session) advance() {
	for {
		a := s.answers.first()
		s.count(a)
		switch {
		case a.lost == nil:
		case s.gone: // since the answer was begun
			a.lost()
		default:
			s.deliveries.add(s.w.loop.Now(), a.lost)
		}
		if a.kept != 0 {
			s.KeepFor(s.answers.head, -a.kept)
		}
		s.answers.pop(s.w)
		s.window.answered(s.deliveries.appended)
		s.writePushes()
		if s.answers.len() == 0 {
			break
		}
		a = s.answers.first()
		if a.then == nil && len(a.buf) > 0 {
			s.writeAll(&a.collected)
			s.held -= a.size()
			a.drop(s.w.loop)
		}
		if !a.done {
			break
		}
	}
	if s.own.Turning() {
		s.own.Turn()
	}
	if n := s.answers.len(); s.hold&client.HoldPipeline != 0 && (2*n < s.window.size || n == 0) {
		s.window.turn(s.waiting() < crowded, s.w.server.o.MaxPipeline)
		s.ClearHold(client.HoldPipeline)
	}
	if s.answers.len() == 0 {
		s.ClearHold(client.HoldPipeline | client.HoldOrder)
	}
	s.closeIfAnswered()
	s.EndIfDone()
	if s.blocking.Waits() {
		s.blocking.ItsTurn()
	}
}

// write appends to the client's output. b is copied, or kept if it is larger than loop.Shared: then nobody
// may write to it any more.
func (s *session) write(b []byte) {
	room := s.out.Cap()
	if len(b) > loop.Shared {
		s.out.Adopt(s.w.loop, b)
	} else {
		s.out.Append(s.w.loop, b)
	}
	if grown := s.out.Cap() - room; grown != 0 {
		s.addMemory(grown)
	}
	s.deliveries.appended += uint64(len(b))
	s.conn.Flush()
	if n := s.out.Len(); n > s.w.crowded || n > strangerUnread && !s.Authenticated {
		s.checkOutput()
	}
}

// writeAll is write of all that has been collected.
func (s *session) writeAll(c *collected) {
	for _, piece := range c.front {
		s.write(piece)
	}
	s.write(c.buf)
}

// waiting is how many bytes of replies wait for the client, or for their turn.
func (s *session) waiting() int { return s.out.Len() + s.held }

// Output implements loop.Handler.
func (s *session) Output() []byte { return s.out.Bytes() }

// Wrote implements loop.Handler.
func (s *session) Wrote(n int) {
	room := s.out.Cap()
	s.out.Take(s.w.loop, n)
	s.addMemory(s.out.Cap() - room)
	s.deliveries.written += uint64(n)
	s.active = s.w.loop.Now()
	s.w.bytesOut.Add(uint64(n))
	if s.hold&client.HoldOutput != 0 && s.waiting() < outputLow && (s.Authenticated || s.waiting() < strangerUnread/2) {
		s.ClearHold(client.HoldOutput)
	}
	if len(s.w.full) > 0 {
		s.checkOutput()
	}
}

// SetHold stops reading commands.
func (s *session) SetHold(h client.Hold) {
	s.hold |= h
	if !s.gone {
		s.conn.Pause(s.hold&client.HoldWaiting != 0)
	}
}

// ClearHold reads on when no reason is left not to.
func (s *session) ClearHold(h client.Hold) {
	if s.hold&h == 0 {
		return
	}
	s.hold &^= h
	s.own.Turn()
	switch {
	case s.gone:
	case s.hold == 0:
		s.conn.Resume()
		s.EndIfDone()
	default:
		s.conn.Pause(s.hold&client.HoldWaiting != 0)
		s.closeIfAnswered()
	}
}
