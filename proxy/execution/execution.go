// Package execution completes the reply of EXEC when commands were queued that the proxy runs itself, or that
// all masters run. They run now, one after the other, and their replies are put in their places.
//
//	Assemble --> cut into elements --> arrange --> runCommands, some a round --> joinParts --> answer
//
// A goroutine cuts a long reply, and joins a long answer.
package execution

import (
	"math"
	"slices"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
	"lockproxy/proxy/large"
	"lockproxy/proxy/login"
	"lockproxy/proxy/pubsub"
	"lockproxy/proxy/scatter"
	"lockproxy/proxy/transaction"
)

// longLog is how many queued commands a round of the loop deals with at once. Above it a goroutine cuts up
// the reply, as it does a reply of more than client.LongFrom bytes.
const longLog = 1024

// Of is what EXEC has of its client.
type Of struct {
	Host       Host
	Router     Router
	Attempts   *login.Attempts
	Subscriber *pubsub.Subscriber
}

// Assemble is transaction.Proxy.Assemble for that client. It returns the answer to EXEC, or nil if that comes
// later. It runs on the loop of the client.
func (of Of) Assemble(t transaction.Executed) []byte {
	a := &execution{Of: of, tag: t.Tag, done: t.Node, slot: t.Slot}
	reply := client.Lasting(t.Reply) // otherwise it is soon overwritten
	if len(reply) <= client.LongFrom && len(t.Log) <= longLog {
		elems, ok := elementsOf(reply)
		return a.arrange(t, reply, elems, ok, pubsub.PublishSteps)
	}
	var elems [][]byte
	var ok bool
	a.Host.KeepFor(a.tag, len(reply))
	a.runApart(func() { elems, ok = elementsOf(reply) }, func() []byte {
		a.joinApart = true
		return a.arrange(t, reply, elems, ok, -1)
	})
	return nil
}

// runApart runs task on a goroutine, after which EXEC goes on with then. Resume makes EXEC the current
// command again, which is the one that waits.
func (a *execution) runApart(task func(), then func() []byte) {
	a.Host.Resume(a.tag, func() []byte {
		client.Apart(a.Host, task, then)
		return nil
	})
}

// elementsOf returns the elements of reply, which alias it; false: it is no array. It runs on any goroutine.
func elementsOf(reply []byte) (elems [][]byte, ok bool) {
	elems, ok = resp.Elements(reply)
	return elems, ok && reply[0] == '*' && !resp.IsNull(reply)
}

// arrange puts the elements of reply into the places of their commands, and starts the commands that are left
// to run. Receivers of published messages are counted now if that takes at most so many steps; negative:
// later. ok: reply is an array. If it is none, it is an error of the node, or Null for a watched key that has
// changed, and becomes the answer as it is.
func (a *execution) arrange(t transaction.Executed, reply []byte, elems [][]byte, ok bool, steps int) []byte {
	if !ok {
		return reply
	}
	counted, left := false, steps
	var uncounted []*transaction.QueuedCommand // because there were too many to count
	// nil when none are left: the node has answered fewer commands than it was sent.
	next := func() (elem []byte) {
		if len(elems) > 0 {
			elem, elems = elems[0], elems[1:]
		}
		return elem
	}
	if t.Guarded && len(next()) == 0 { // the first element is no command of the client's
		return badExec
	}
	for i := range t.Log {
		e := &t.Log[i]
		switch {
		case e.Rejected: // it is a probe, or there was no array
		case e.Here != nil:
			a.todo = append(a.todo, e)
			a.parts = append(a.parts, nil)
		default:
			part := next()
			if len(part) == 0 {
				return badExec
			}
			// Only now the client's database is another one; until here SELECT was only queued.
			if e.DB >= 0 && part[0] == '+' {
				a.Host.About().DB = e.DB
			}
			if e.Publishes {
				if left >= 0 {
					part, left = a.Subscriber.Recount(e.Raw, part, a.done, left)
				}
				if left < 0 {
					e.At, uncounted = len(a.parts), append(uncounted, e)
				}
				counted = true
			}
			// A command that failed at this node is not sent to the others: its error is the answer.
			if e.Everywhere != nil && part[0] != '-' {
				e.Reply = part
				a.todo, part = append(a.todo, e), nil
			}
			a.parts = append(a.parts, part)
		}
	}
	switch {
	// Nothing can be assigned to its command any more. What has run at the node has run.
	case len(elems) > 0:
		return badExec
	case len(a.todo) == 0 && !t.Guarded && !counted:
		return reply
	case len(uncounted) > 0:
		a.countReceivers(uncounted)
	default:
		a.runCommands()
	}
	return nil
}

// countReceivers goes on with runCommands after a goroutine has recounted the receivers of what was
// published.
func (a *execution) countReceivers(published []*transaction.QueuedCommand) {
	a.runApart(func() {
		for _, e := range published {
			a.parts[e.At], _ = a.Subscriber.Recount(e.Raw, a.parts[e.At], a.done, math.MaxInt)
		}
	}, func() []byte {
		a.runCommands()
		return nil
	})
}

// badExec is for a reply that does not fit what was queued: part of it in the wrong place would be worse than
// none.
var badExec = []byte("-ERR the upstream answered EXEC in a form that lockproxy does not expect\r\n")

// execution runs commands for EXEC, and takes their answers in place of the client. While it runs, the
// answers to its commands are diverted to it (Host.Divert), and the client gets one answer, to EXEC. It
// belongs to the loop; a goroutine has parts only while EXEC waits for it.
type execution struct {
	Of
	tag  uint32 // of EXEC
	todo []*transaction.QueuedCommand
	// One for each command that has not been rejected, in their order.
	parts [][]byte // parts of EXEC's answer; an empty one is that of a command in todo
	at    int      // in parts
	done  string   // the node that has run the other commands
	slot  int      // slot of their keys, or AnySlot

	// running and answered tell takeAnswer whether runCommands is on the stack, and goes on by itself, or has
	// to be called again.
	running   bool // a command is running
	answered  bool // it has answered
	held      int  // bytes of answers that are counted for the client
	joinApart bool // the node's part of the answer is long
}

// Host is the session of the client.
type Host interface {
	scatter.Host
	// Divert has take called with the answers to commands, in place of the client; nil ends that. take
	// reports false for an answer that is not for it.
	Divert(take func(tag uint32, reply []byte) bool)
}

// Router runs the commands of the client.
type Router interface {
	Server() commands.Server
	Table() *commands.Table
	// Judge has goOn run the current command if the client's user may, at once if it is no user of the
	// upstream.
	Judge(cmd *commands.Command, args [][]byte, raw []byte, goOn client.GoOn)
	// BySlot says that the slot of a command matters.
	BySlot() bool
}

// FollowUpTime is how long the commands behind EXEC run in one round of the loop. The next ones run in a
// later round: a queue may have thousands.
const FollowUpTime = time.Millisecond

// runCommands runs the commands that are left, until one answers later, or until others have waited long
// enough. It is called again by takeAnswer when a command answers later. Each command has its answer before
// the next one begins, as in a transaction of Redis, but others may run in between.
func (a *execution) runCommands() {
	h := a.Host
	for began := time.Now(); len(a.todo) > 0; {
		// The next empty part is that of the first command left.
		for len(a.parts[a.at]) > 0 {
			a.at++
		}
		h.Divert(a.takeAnswer)
		a.running, a.answered = true, false
		h.Resume(a.tag, func() []byte { return a.callQueued(a.todo[0]) })
		if a.running = false; !a.answered {
			return
		}
		if a.todo = a.todo[1:]; len(a.todo) > 0 && time.Since(began) > FollowUpTime {
			// Background, and not a plain Post: a drain waits for it.
			h.Background(func() {}, a.runCommands)
			return
		}
	}
	h.Divert(nil)
	h.Collect(a.tag, -a.held)
	if !a.joinApart && a.held <= client.LongFrom {
		h.Resume(a.tag, a.joinParts)
		return
	}
	var out []byte
	h.KeepFor(a.tag, a.held)
	a.runApart(func() { out = a.joinParts() }, func() []byte { return out })
}

// joinParts makes EXEC's answer. It only reads parts, so a goroutine may do it while EXEC waits for that.
func (a *execution) joinParts() []byte {
	head := redcon.AppendArray(nil, len(a.parts))
	return slices.Concat(append([][]byte{head}, a.parts...)...)
}

// callQueued runs a command and returns its answer, or nil if that comes later. A goroutine first takes apart
// a long one. Its bytes are those of the log, which nobody writes to.
func (a *execution) callQueued(e *transaction.QueuedCommand) []byte {
	long := &large.LongCommand{Size: len(e.Raw)}
	table, scripts := a.Router.Table(), a.Router.Server().Scripts()
	bySlot := len(e.Raw) > client.LongFrom && a.Router.BySlot()
	return client.ApartIfLong(a.Host, len(e.Raw), func() { long.Read(table, scripts, e.Raw, bySlot) },
		func() []byte { return a.actOn(e, long) })
}

// actOn is callQueued for a command that has been read.
func (a *execution) actOn(e *transaction.QueuedCommand, read *large.LongCommand) []byte {
	args, about := read.Args, a.Host.About()
	if read.Err != nil || a.Host.Gone() && e.Everywhere == nil { // it would set up what nobody ends
		return client.NoAnswer
	}
	if !about.Authenticated { // its user no longer exists
		return client.NoAuth
	}
	cmd, may := e.Here, commands.Actions(executionActions{a.Host.Actions(), e})
	if e.Everywhere != nil {
		cmd, may = e.Everywhere, &otherMasters{executionActions{a.Host.Actions(), e}, a}
	}
	if cmd.Route == commands.AllNodes {
		may.AskAll(e.Raw, commands.Asking{Resend: cmd.Flags&commands.ReadOnly != 0}, cmd.Merge)
		return nil
	}
	if login.IsAttempt(cmd, args) && a.Attempts.TooSoon() { // EXEC cannot wait between two of them
		return login.ErrTooSoon
	}
	run := func(cmd *commands.Command, args [][]byte, raw []byte) {
		call := &commands.Call{
			Command: cmd, Args: args, Raw: raw,
			Client: about, Table: a.Router.Table(), Server: a.Router.Server(), Actions: may,
		}
		call.Place = read.PlaceOf(cmd)
		cmd.Run(call)
	}
	// The rules may have changed since it was queued, so the upstream is asked once more.
	if e.Here != nil && !cmd.Free() {
		a.Router.Judge(cmd, args, e.Raw, run)
		return nil
	}
	run(cmd, args, e.Raw)
	return nil
}

// takeAnswer takes the answer to command tag, if that is EXEC. It is what Host.Divert calls, on the loop.
func (a *execution) takeAnswer(tag uint32, reply []byte) bool {
	if tag != a.tag || a.answered {
		return false
	}
	if len(reply) == 0 {
		reply = client.NoAnswer
	}
	a.parts[a.at] = client.Lasting(reply)
	if a.answered = true; !a.Host.Gone() {
		a.held += len(reply)
		a.Host.Collect(a.tag, len(reply))
	}
	if !a.running {
		a.todo = a.todo[1:]
		a.runCommands()
	}
	return true
}

// executionActions is the Actions of such a command. The reply to what it forwards comes back to take, too.
// What it does not change goes to the session as for any command.
type executionActions struct {
	commands.Actions
	e *transaction.QueuedCommand
}

// Forward implements commands.Actions. The session's own Forward would send the bytes of EXEC.
func (a executionActions) Forward(slot int) {
	o := commands.Asking{Resend: a.e.Here.Flags&commands.ReadOnly != 0}
	a.Ask(pipe.ToSlot(slot), a.e.Raw, o, func(reply []byte) []byte { return reply })
}

// otherMasters is the Actions of a command that one node has run in a transaction, and that the other masters
// are to run now.
type otherMasters struct {
	executionActions
	a *execution
}

// AskAll implements commands.Actions: it asks all masters but the one that has answered.
func (e *otherMasters) AskAll(req []byte, o commands.Asking, merge commands.Merge) {
	h, own, skip := e.a.Host, e.e.Reply, e.a.shard()
	masters := client.Masters(h)
	others := masters
	if skip >= 0 {
		others--
	}
	if others == 0 {
		h.AnswerLater(client.ByNode)
		h.Answer(e.a.tag, own)
		return
	}
	g := scatter.NewGather(h, others, func(proto int, replies [][]byte) []byte {
		return merge(proto, append([][]byte{own}, replies...))
	}, true) // otherwise what follows it would be left out
	g.Begun()
	n := uint32(0)
	for i := range masters {
		if i != skip {
			g.Ask(pipe.Request{Target: pipe.ToShard(i), Mode: h.Mode(), Bytes: req, Tag: n, Resend: o.Resend})
			n++
		}
	}
}

// shard is the number of the master that ran the transaction, or of the one that has taken over its slot
// since; -1: there is none. Masters may have changed places since EXEC ran.
func (a *execution) shard() int {
	for i, n := range a.Host.Pool().Topology().Masters {
		if n.Addr == a.done {
			return i
		}
	}
	if a.slot == commands.AnySlot {
		return -1
	}
	return a.Host.Pool().Owner(a.slot)
}
