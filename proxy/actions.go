package proxy

import (
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/commands/cut"
	"lockproxy/proxy/client"
	"lockproxy/proxy/clients"
	"lockproxy/proxy/scatter"
	"lockproxy/redlock"
)

// actions is what a command may ask of its session; it implements commands.Actions for the command s.current.
// It holds the session itself: as an interface it would be allocated for each command. It is valid while the
// command is the current one: Run, or what goes on with it (Resume).
type actions struct{ s *session }

// Reply implements commands.Actions.
func (a actions) Reply(reply []byte) { a.s.Reply(reply) }

// Reply answers the current command with a reply that the proxy made. Outside Run it is a refusal. It counts
// for INFO as one of the proxy's own.
func (s *session) Reply(reply []byte) {
	s.acted = true
	by := client.ByRefuse
	if s.running {
		by = client.ByProxy
	}
	s.answers.at(s.current).by = by
	s.w.shared.Own.Note(reply)
	s.Answer(s.current, reply)
}

// Forward implements commands.Actions.
func (a actions) Forward(slot int) {
	a.s.router.forwardCommand(slot, a.s.w.call.Command, a.s.w.call.Raw)
}

// Ask implements commands.Actions.
func (a actions) Ask(to pipe.Target, req []byte, o commands.Asking, then func([]byte) []byte) {
	a.askNode(to, req, o, redlock.ExchangeFunc(then), nil)
}

// The reply comes to Receive with the number of the command, and from there to then.
func (a actions) askNode(
	to pipe.Target, req []byte, o commands.Asking, then redlock.Exchange, lost redlock.Delivery,
) {
	s := a.s
	a.expectReply(then, lost)
	// The request itself only reads, but the command may write by what follows it, over other connections.
	if o.Resend && s.answers.at(s.current).counter.Writes {
		s.writes.AddSomewhere()
	}
	s.router.sendTo(to, req, o.Resend, false)
}

// Buffer implements redlock.Caller. The request that is made in it must be sent before the next one is made:
// a pipe copies what is short.
func (a actions) Buffer() []byte { return a.s.w.buffer[:0] }

// SendHome implements redlock.Caller. A client with another database or user has connections of its own. The
// order among them and the lock requests is kept: neither may overtake the other.
func (a actions) SendHome(slot int, req []byte, resend bool, then redlock.Exchange, lost redlock.Delivery) {
	s := a.s
	if s.DB == 0 && s.own.User() == nil {
		a.sendHome(slot, req, resend, then, lost)
		return
	}
	a.inOrder(slot, req, lost, func(req []byte) { a.sendHome(slot, req, resend, then, lost) })
}

// SendWhole implements redlock.Caller. The order is that of SendHome.
func (a actions) SendWhole(slot int, req []byte, resend bool, then redlock.Exchange) {
	s := a.s
	send := func(req []byte) {
		a.expectReply(then, nil)
		s.Sent(s.w.pool.Send(&pipe.Request{
			Target: pipe.ToSlot(slot), Mode: s.own.Home(), Bytes: req, To: s, Tag: s.current, Resend: resend,
			Script: true,
		}), resend)
	}
	if s.DB == 0 && s.own.User() == nil {
		send(req)
		return
	}
	a.inOrder(slot, req, nil, send)
}

// inOrder sends a request about a lock of slot behind the client's earlier commands, and lets later ones
// wait. If there are such, a PING goes first, over the client's own connection to the master of slot: with
// its reply those that went there have run. There is no order between nodes, as for any other client.
func (a actions) inOrder(slot int, req []byte, lost redlock.Delivery, send func(req []byte)) {
	s := a.s
	s.SetHold(client.HoldOrder)
	if s.answers.len() == 1 {
		send(req)
		return
	}
	req = client.Lasting(req)
	a.askNode(pipe.ToSlot(slot), client.Ping, commands.Reread, redlock.ExchangeFunc(func([]byte) []byte {
		send(req)
		return nil
	}), lost)
}

func (a actions) sendHome(slot int, req []byte, resend bool, then redlock.Exchange, lost redlock.Delivery) {
	s := a.s
	a.expectReply(then, lost)
	_, splits := then.(redlock.Splitter)
	s.Feed(s.w.pool.Send(&pipe.Request{
		Target: pipe.ToSlot(slot), Mode: s.own.Home(), Bytes: req, To: locking{receiving{s}}, Tag: s.current,
		Resend: resend, Splits: splits, Script: true,
	}))
}

// locking is a session as the pipe.Receiver of a request about a lock. It tells whom it is for if the request
// may run twice.
type locking struct{ receiving }

// Repeated implements pipe.Repeater.
func (l locking) Repeated(tag uint32) {
	if r, ok := l.s.answers.at(tag).then.(redlock.Repeater); ok {
		r.Repeated()
	}
}

// expectReply notes what to do with the reply to the current command. It replaces what was expected before: a
// command asks one thing at a time.
func (a actions) expectReply(then redlock.Exchange, lost redlock.Delivery) {
	a.s.acted = true
	answer := a.s.answers.at(a.s.current)
	answer.then, answer.lost = then, lost
}

// Feed stops reading this client if the pipe that took its request is full. nil: the request waits for a
// node, in a queue that bounds itself.
func (s *session) Feed(p *pipe.Pipe) {
	if p != nil && p.Full() && s.hold&client.HoldUpstream == 0 {
		s.SetHold(client.HoldUpstream)
		p.WhenReady(func() { s.ClearHold(client.HoldUpstream) })
	}
}

// Sent implements scatter.Host. A request that may be sent again changes nothing, so WAIT does not care for
// it.
func (s *session) Sent(p *pipe.Pipe, resend bool) {
	if !resend {
		s.writes.Add(p)
	}
	s.Feed(p)
}

// AskAll implements commands.Actions.
func (a actions) AskAll(req []byte, o commands.Asking, merge commands.Merge) {
	s := a.s
	g := scatter.NewGather(s, s.w.masters(), merge, o.Always)
	switch {
	case !o.Own:
		g.Send(req, o.Resend)
	case s.own.User() != nil:
		g.SendOwn(req, s.Mode())
	default:
		g.SendOwn(req, pipe.Mode{Proto: s.Proto})
	}
}

// AskParts implements commands.Actions.
func (a actions) AskParts(parts []cut.Part, o commands.Asking, merge commands.Merge) {
	for i := range parts {
		parts[i].Place = i
	}
	scatter.Send(a.s, scatter.Made(parts), scatter.How{Resend: o.Resend}, merge)
}

// AskInTurn implements commands.Actions.
func (a actions) AskInTurn(addr string, reqs [][]byte, then commands.Merge) {
	s := a.s
	g := scatter.NewGather(s, len(reqs), then, false)
	for i, req := range reqs {
		g.Ask(pipe.Request{
			Target: pipe.ToNode(addr), Mode: s.Mode(), Bytes: req, Tag: uint32(i), Resend: true,
		})
	}
}

// Hold implements redlock.Caller.
func (a actions) Hold(name string) {
	a.s.router.locks.Hold(name, a.s.current, a.s.answers.unanswered())
}

// Await implements redlock.Caller. done may come from any goroutine. It may even come before start has
// returned, but what it brings runs in a later round.
func (a actions) Await(start func(done func([]byte)), then func([]byte) []byte, lost redlock.Delivery) {
	s := a.s
	a.expectReply(redlock.ExchangeFunc(then), lost)
	// The verbs of locks are kept in order by lock alone (lockorder).
	if !s.running || s.w.call.Command.Flags&commands.LockVerb == 0 {
		s.SetHold(client.HoldOrder)
	}
	tag := s.current
	s.w.shared.Tasks.Add(1)
	start(func(reply []byte) {
		s.w.loop.Post(func() {
			s.Receive(tag, reply, true)
			s.router.locks.Tidy(s.answers.unanswered())
		})
		s.w.shared.Tasks.Done() // the loop stays open until then
	})
}

// Task implements commands.Actions.
func (a actions) Task(task commands.Task, lost redlock.Delivery) {
	a.s.tasks.startTask(task, a.s.w.loop.Post, lost)
}

// Pusher implements commands.Actions. The number of the command is remembered, not the command: the push goes
// behind its answer, or out at once if that has left.
func (a actions) Pusher() func(message func(proto int) []byte) {
	s, tag := a.s, a.s.current
	return func(message func(proto int) []byte) {
		s.w.loop.Post(func() {
			if !s.gone {
				s.Push(tag, message(s.Proto))
			}
		})
	}
}

// Gone implements commands.Actions.
func (a actions) Gone() bool { return a.s.gone }

// Close implements commands.Actions: earlier commands are answered first.
func (a actions) Close() { a.s.endSession() }

// Nodes implements commands.Actions.
func (a actions) Nodes() commands.Nodes { return a.s.w.nodes }

// Clients implements commands.Actions.
func (a actions) Clients() commands.Clients {
	self := func() *commands.Peer { return selfOf(a.s) }
	return clients.Commands{Host: a.s, On: a.s.w.clients, Describe: self}
}

// Connection implements commands.Actions. It is made anew for each command that wants it, which is rare.
func (a actions) Connection() commands.Connection {
	s := a.s
	return &connection{
		h: s, own: &s.own, tracking: &s.tracking, tx: &s.tx, monitor: &s.monitor, watcher: &s.watcher,
		silence: &s.silence,
	}
}

// Transactions implements commands.Actions.
func (a actions) Transactions() commands.Transactions { return &a.s.tx }

// Subscriptions implements commands.Actions.
func (a actions) Subscriptions() commands.Subscriptions { return &a.s.subscriber }

// Tracker implements commands.Actions.
func (a actions) Tracker() commands.Tracker { return &a.s.tracking }
