package proxy

import (
	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	"lockproxy/cluster/retry"
	"lockproxy/commands"
	"lockproxy/proxy/client"
	"lockproxy/proxy/clients"
	"lockproxy/proxy/execution"
	"lockproxy/proxy/lockorder"
	"lockproxy/proxy/login"
	"lockproxy/proxy/scatter"
	"lockproxy/proxy/transaction"
	"lockproxy/proxy/watch"
)

// router decides where the current command of a client goes, and sends it there. It belongs to the loop of
// its client.
type router struct {
	s     *session
	locks lockorder.Order // the order of its lock verbs for RedLock

	// The next three are those of all requests under way: inOrder lets none go by others.
	version    uint64    // of the topology by which the requests under way were routed
	routed     pipe.Mode // mode of the connections that they went over
	stuckEpoch uint64    // pipe.Pool.StuckEpoch when they were sent
}

// dispatchCommand starts one command. args and raw alias the read buffer. false: the command must wait. Then
// nothing was done, and it will be dispatched again: when earlier commands are answered, or when
// client.HoldPause, HoldLogin or HoldTable ends. What may make it wait is looked at before it is numbered, so
// that nothing has to be undone.
func (r *router) dispatchCommand(args [][]byte, raw []byte) bool {
	s := r.s
	w := s.w
	cmd, refusal := w.table.Resolve(args)
	s.last = cmd
	s.in.commands++
	if cmd.Flags&(commands.Alone|commands.LockVerb) != 0 && r.comesLater(cmd, args) {
		s.SetHold(client.HoldOrder)
		return false
	}
	if cmd.Flags&commands.NoAuth != 0 && refusal == nil && login.IsAttempt(cmd, args) && !s.draining &&
		s.attempts.MustWait(s, s.w.shared.Login.Addresses) {
		return false
	}
	if refusal != nil && r.awaitsTable(cmd) {
		return false
	}
	if refusal == nil {
		refusal = cmd.Excess(args, len(raw))
	}
	// In RESP2 a message could not be told from an answer.
	if s.subscriber.Listens() && s.Proto == 2 && refusal == nil {
		refusal = cmd.Barred(len(args))
	}
	if w.alert() && refusal == nil {
		if no, wait := r.attendCommand(cmd, args); wait {
			return false
		} else if no != nil {
			s.beginCommand(w.counters.Of(cmd))
			s.tx.Spoil() // as at Redis
			s.Reply(no)
			return true
		}
	}
	s.beginCommand(w.counters.Of(cmd))
	switch {
	case !s.Authenticated && cmd.Flags&commands.NoAuth == 0:
		s.Reply(client.NoAuth)
	case s.tx.InMulti():
		s.tx.Dispatch(cmd, args, raw, refusal)
	case refusal != nil:
		if cmd.Flags&commands.RunsQueue != 0 { // what was watched is not any more
			s.tx.End()
		}
		s.Reply(refusal)
	case s.own.Set() != nil:
		r.routePrivate(cmd, args, raw)
	default:
		r.routeCommand(cmd, args, raw)
	}
	return true
}

// routePrivate is routeCommand for a client with connections of its own. An empty answer precedes HELLO; it
// comes when the connections speak the new protocol. CLIENT CACHING precedes the requests of one command
// only, so it is taken back at once.
func (r *router) routePrivate(cmd *commands.Command, args [][]byte, raw []byte) {
	s := r.s
	caching := s.tracking.Next(cmd)
	if cmd.Flags&commands.SetsProtocol != 0 {
		// Two numbers for one command: the first one is the empty answer, the second one is that of HELLO,
		// behind it.
		tag := s.current
		silent := s.answers.at(tag).silent
		s.beginCommand(nil)
		s.answers.at(s.current).silent = silent
		r.routeCommand(cmd, args, raw)
		s.own.Hello(tag)
		return
	}
	s.own.Set().Preceding(caching, func() { r.routeCommand(cmd, args, raw) })
}

// comesLater says that a command must wait for earlier ones of its client. If it need not, later commands
// wait for it where it is about a lock of RedLock.
func (r *router) comesLater(cmd *commands.Command, args [][]byte) bool {
	s := r.s
	if cmd.Flags&commands.Alone != 0 {
		return s.answers.len() > 0
	}
	var name []byte
	if at := cmd.KeyAt(); at > 0 && at < len(args) {
		name = args[at]
	}
	if r.locks.IsHeld(name, s.answers.unanswered()) {
		return true
	}
	if name != nil && s.w.shared.Independent(name) {
		r.locks.Hold(string(name), s.answers.tail, s.answers.unanswered())
	}
	return false
}

// awaitsTable says that cmd is unknown and must wait: it is dispatched again once the upstream has been asked
// for its commands (package table). It is not asked for a client that has not logged in: anybody could have
// the upstream asked all the time.
func (r *router) awaitsTable(cmd *commands.Command) bool {
	s := r.s
	if cmd != s.w.table.Unknown() || !s.Authenticated || s.draining {
		return false
	}
	shared, l := s.w.shared, s.w.loop
	waits := shared.Table.Again(shared.Context, shared.Tasks.Go,
		func() { l.Post(func() { s.ClearHold(client.HoldTable) }) })
	if waits {
		s.SetHold(client.HoldTable)
	}
	return waits
}

// attendCommand is called for commands while clients are paused or monitored, or watch locks. It says how the
// command is refused, if it is, and whether it must wait. It comes before the command is numbered, since it
// may have to wait.
func (r *router) attendCommand(cmd *commands.Command, args [][]byte) (refusal []byte, wait bool) {
	s := r.s
	switch {
	case !r.runsCommand(cmd, len(args)):
		return nil, false
	case s.Monitoring: // which is never paused
		if cmd.MeetsData() {
			return clients.MonitorOnly, false
		}
	case s.Watching && cmd.MeetsData():
		return watch.Only, false
	case s.pause.Must(cmd, args):
		switch { // nobody waits while the proxy drains, nor does a client that sends no more
		case s.draining:
			return refusedByDrain, false
		case s.eof:
			s.endSession()
		default:
			s.pause.Begin()
		}
		return nil, true
	}
	s.monitor.Observe(cmd, args, s.tx.Fails())
	return nil, false
}

// runsCommand says that a command of n arguments will run, as far as can be told without the node. Others see
// a command in MONITOR, or are held by a pause, only if there is something to run: an error comes at once.
func (r *router) runsCommand(cmd *commands.Command, n int) bool {
	s := r.s
	switch {
	case !s.Authenticated && cmd.Flags&commands.NoAuth == 0,
		cmd == s.w.table.Unknown(), cmd.Route == commands.Refused:
		return false
	case cmd.Subs != nil && n > 1: // none of them was meant
		return false
	}
	return cmd.Fits(n)
}

// routeCommand sends a command the way that its rule says.
func (r *router) routeCommand(cmd *commands.Command, args [][]byte, raw []byte) {
	s := r.s
	switch cmd.Route {
	case commands.ByKeys, commands.Split:
		r.routeByKeys(cmd, args, raw)
	case commands.AnyNode:
		r.forwardCommand(commands.AnySlot, cmd, raw)
	case commands.AllNodes:
		scatter.NewPureGather(s, s.w.masters(), cmd).Send(raw, cmd.Flags&commands.ReadOnly != 0)
	case commands.Blocks:
		r.routeBlocking(cmd, args, raw)
	case commands.Refused:
		r.refuseCommand(cmd, args, raw, cmd.Refusal())
	default:
		r.Run(cmd, args, raw)
	}
}

// forwardCommand is the path of most commands: the bytes as they are, to the node's pipe. raw aliases the
// read buffer; Pool.Send copies it, or keeps it if it is longer than that may be.
func (r *router) forwardCommand(slot int, cmd *commands.Command, raw []byte) {
	s := r.s
	if r.shedCommand(slot, cmd) {
		return
	}
	s.acted = true
	// Until it is answered a long command is in memory: it may have to be sent again.
	if s.in.long != nil {
		s.KeepFor(s.current, len(raw))
	}
	script := cmd.Flags&commands.Scripted != 0
	// From now on the pool looks at whether scripts hold up the clients of a node.
	if script {
		s.w.pool.WatchScripts()
	}
	if readers := r.readers(cmd); readers != pipe.MasterOnly {
		s.Feed(s.w.pool.Send(&pipe.Request{
			Target: pipe.ToSlot(slot), Mode: s.Mode(), Bytes: raw, To: s, Tag: s.current,
			Readers: readers, Seed: s.ID, Resend: true, Script: script,
		}))
		return
	}
	r.sendTo(pipe.ToSlot(slot), raw, cmd.Flags&commands.ReadOnly != 0, script)
}

// routeByKeys routes a command by the slot of its keys. With one master nobody looks for the slot. But a
// cluster of one refuses keys of several slots, so what can be split is split there, too.
func (r *router) routeByKeys(cmd *commands.Command, args [][]byte, raw []byte) {
	s := r.s
	if s.w.masters() == 1 && (cmd.Route != commands.Split || s.w.pool.Topology().Kind != cluster.Cluster) {
		r.forwardCommand(commands.AnySlot, cmd, raw)
		return
	}
	slot, err := r.SlotOf(cmd, args)
	switch {
	case slot == commands.AnySlot && err == nil:
		r.forwardCommand(r.homeSlot(cmd, args), cmd, raw)
	case err == nil:
		r.forwardCommand(slot, cmd, raw)
	case err == commands.ErrCrossSlot && cmd.Route == commands.Split:
		parts, merge := r.cutBySlot(cmd, args)
		if parts == nil {
			r.refuseCommand(cmd, args, raw, commands.ErrorReply(err))
			return
		}
		// Either all of it is allowed, or nothing is done.
		r.Judge(cmd, args, raw, func(*commands.Command, [][]byte, []byte) {
			r.splitCommand(cmd, parts, merge)
		})
	case err == commands.ErrAskKeys:
		r.askKeys(args, raw, func(slot int, raw []byte) { r.forwardCommand(slot, cmd, raw) })
	default:
		r.refuseCommand(cmd, args, raw, commands.ErrorReply(err))
	}
}

// refuseCommand answers no to the current command. What a user of the upstream may not comes first, as at
// Redis. A user who may not run it at all hears that, and nothing of what the proxy lacks.
func (r *router) refuseCommand(cmd *commands.Command, args [][]byte, raw, no []byte) {
	r.Judge(cmd, args, raw, func(*commands.Command, [][]byte, []byte) { r.s.Reply(no) })
}

// routeBlocking handles a command with the route Blocks. Without what makes it block it is a command like any
// other.
func (r *router) routeBlocking(cmd *commands.Command, args [][]byte, raw []byte) {
	s := r.s
	timeout, blocks := cmd.Blocks(args)
	if !blocks {
		r.routeByKeys(cmd, args, raw)
		return
	}
	if cmd.Merge != nil {
		r.Judge(cmd, args, raw, func(cmd *commands.Command, _ [][]byte, raw []byte) {
			s.blocking.WaitForReplicas(cmd, raw, timeout)
		})
		return
	}
	slot, err := commands.AnySlot, error(nil)
	if s.w.masters() != 1 {
		slot, err = r.SlotOf(cmd, args)
	}
	switch {
	case err == nil:
		s.blocking.Block(cmd, slot, raw, timeout)
	case err == commands.ErrAskKeys:
		r.askKeys(args, raw, func(slot int, raw []byte) { s.blocking.Block(cmd, slot, raw, timeout) })
	default:
		r.refuseCommand(cmd, args, raw, commands.ErrorReply(err))
	}
}

// homeSlot is the slot to whose master a command without keys goes. AnySlot: it does not matter, or nobody
// serves that slot now.
func (r *router) homeSlot(cmd *commands.Command, args [][]byte) int {
	s := r.s
	var slot int
	if p := r.placeOf(cmd); p != nil {
		slot = p.Home
	} else {
		slot = cmd.Home(args, s.w.table, s.w.shared.Scripts)
	}
	if slot != commands.AnySlot && s.w.pool.Owner(slot) < 0 {
		return commands.AnySlot
	}
	return slot
}

// Run runs the command at the proxy. For a user of the upstream it asks first: no node sees the command, so
// no node can refuse it.
func (r *router) Run(cmd *commands.Command, args [][]byte, raw []byte) {
	s := r.s
	if s.own.User() != nil && !cmd.Free() {
		r.Judge(cmd, args, raw, r.Act)
		return
	}
	r.Act(cmd, args, raw)
}

// Act runs the command at the proxy, without asking for the client's right to it. The Call is scratch memory
// of the loop: it is valid until the command has run, and no longer.
func (r *router) Act(cmd *commands.Command, args [][]byte, raw []byte) {
	s := r.s
	if cmd.Flags&commands.Stepwise != 0 {
		s.SetHold(client.HoldOrder)
	}
	call := &s.w.call
	*call = commands.Call{
		Command: cmd, Args: args, Raw: raw,
		Client: &s.Client, Table: s.w.table, Server: s.w.shared.Server, Place: r.placeOf(cmd),
		Actions: actions{s},
	}
	s.running = true
	cmd.Run(call)
	s.running = false
	*call = commands.Call{} // otherwise it would keep a large command in memory
}

// Assemble implements transaction.Proxy.
func (r *router) Assemble(t transaction.Executed) []byte {
	s := r.s
	of := execution.Of{Host: s, Router: r, Attempts: &s.attempts, Subscriber: &s.subscriber}
	return of.Assemble(t)
}

// Server implements transaction.Proxy.
func (r *router) Server() commands.Server { return r.s.w.shared.Server }

// Table implements transaction.Proxy.
func (r *router) Table() *commands.Table { return r.s.w.table }

// CommandLimit implements transaction.Proxy.
func (r *router) CommandLimit() int { return r.s.w.shared.Limits.Of(true).Command }

// ScriptLoaded implements transaction.Proxy.
func (r *router) ScriptLoaded() { r.s.w.shared.Pipes.Redirects[retry.NoScript].Add(1) }

// BySlot says that the slot of a command matters. It does where there are several masters, and in a cluster
// of one, which refuses keys of several slots.
func (r *router) BySlot() bool {
	s := r.s
	return s.w.masters() > 1 || s.w.pool.Topology().Kind == cluster.Cluster
}
