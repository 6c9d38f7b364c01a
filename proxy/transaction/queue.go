package transaction

import (
	"bytes"
	"errors"
	"strconv"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
)

// This file handles commands between MULTI and EXEC. As much as possible is left to the node, so that what it
// refuses is refused in its own words.

// queueCost is the memory of a queued command besides its bytes.
const queueCost = 128

var errLongTransaction = errors.New("the transaction is longer than client-query-buffer-limit")

// Dispatch takes the current command of a client, which must be InMulti. refusal is the proxy's objection to
// it, or nil. raw may alias the read buffer: what is kept of it is copied. The order of the cases matters:
// the first that fits answers the command, or has it queued.
func (c *Client) Dispatch(cmd *commands.Command, args [][]byte, raw, refusal []byte) {
	t, h := c.open, c.h
	t.of.tracker.Asked()
	h.AnswerLater(client.ByNode)
	switch {
	case cmd == t.of.proxy.Table().Unknown():
		t.refuseCommand(refusal)
	case cmd.Flags&commands.NoMulti != 0 && refusal != nil:
		t.refuseCommand(refusal)
	case cmd.Queue == commands.QueueNever:
		t.refuseCommand(cmd.QueueRefusal())
	case refusal != nil && (cmd.TooLong(len(args)) || cmd.Excess(args, len(raw)) != nil):
		t.refuseCommand(refusal)
	case refusal != nil && cmd.Flags&commands.RunsQueue != 0:
		t.takeStep(execStep, raw) // the node ends the transaction
	case refusal != nil,
		cmd.Queue == commands.QueueHere && cmd.Subs != nil && len(args) > 1: // no such subcommand
		t.queueCommand(QueuedCommand{Raw: raw, DB: -1}, commands.AnySlot)
	case cmd.Queue == commands.QueueNot && cmd.Flags&commands.RunsQueue != 0: // which the node judges
		t.of.proxy.Act(cmd, args, raw)
	case cmd.Queue == commands.QueueNot:
		t.of.proxy.Run(cmd, args, raw)
	case cmd.Queue == commands.QueueHere, cmd.Queue == commands.QueueSpread && client.Masters(h) > 1:
		if t.of.own.User() != nil && !cmd.Free() {
			t.of.proxy.Judge(cmd, args, raw, t.queueAllowed)
			return
		}
		t.queueHere(cmd, args, raw)
	case cmd.Queue == commands.QueueEverywhere && client.Masters(h) > 1:
		t.queueEverywhere(cmd, args, raw)
	case cmd.Queue == commands.QueueAlone && client.Masters(h) > 1:
		t.refuseCommand(cmd.QueueRefusal())
	case cmd.StandIn != nil:
		t.standIn(cmd, args, raw)
	default:
		t.queueByKeys(cmd, args, raw)
	}
}

// standIn queues what stands for a verb at the node. A node knows that command, whose keys decide which node
// it is.
func (t *transaction) standIn(cmd *commands.Command, args [][]byte, raw []byte) {
	table := t.of.proxy.Table()
	req, err := cmd.StandIn(&commands.Call{
		Command: cmd, Args: args, Raw: raw, Client: t.h.About(), Table: table, Server: t.of.proxy.Server(),
	}, t.db)
	if err != nil {
		t.refuseCommand(commands.ErrorReply(err))
		return
	}
	words, _, _ := resp.Split(req, nil) // the proxy has made it, so it is one
	t.queueByKeys(table.Lookup(words[0]), words, req)
}

// queueByKeys queues a command at the node of its keys.
func (t *transaction) queueByKeys(cmd *commands.Command, args [][]byte, raw []byte) {
	slot, err := commands.AnySlot, error(nil)
	if client.Masters(t.h) > 1 {
		slot, err = t.of.proxy.SlotOf(cmd, args)
	}
	switch {
	case err == nil:
		t.queueCommand(t.entry(cmd, args, raw), slot)
	case err == commands.ErrAskKeys:
		t.askKeys(t.entry(cmd, args, raw), args)
	default:
		t.refuseCommand(commands.ErrorReply(err))
	}
}

// entry makes an entry of the log from the current command. It also notes what of it concerns the transaction
// as a whole: scripts, the database, whether it writes.
func (t *transaction) entry(cmd *commands.Command, args [][]byte, raw []byte) QueuedCommand {
	e := QueuedCommand{Raw: raw, DB: -1}
	t.writes = t.writes || cmd.Flags&commands.ReadOnly == 0
	scripts := t.of.proxy.Server().Scripts()
	// For FCALL nobody asks whether it does.
	if writes, _ := cmd.MayWrite(args, commands.Transaction{}, scripts); writes {
		t.h.About().Transaction.Writes = true
	}
	q := cmd.Queued(args)
	if q.Source != nil && t.of.own.User() == nil { // a user of the upstream may have no right to load it
		scripts.Add(q.Source)
	}
	if q.SHA != nil {
		t.shas = append(t.shas, bytes.ToLower(q.SHA))
	}
	if e.DB = q.DB; q.DB >= 0 {
		t.db = q.DB
		t.selects = t.selects || q.DB != t.h.About().DB
	}
	e.Publishes = q.Publishes
	t.unread = t.unread || q.Publishes || q.DB >= 0
	return e
}

// queueProbe queues MULTI or WATCH, which the node answers with an error. If no node is to be asked, instead
// is that error. It does not make EXEC fail, as at Redis.
func (t *transaction) queueProbe(slot int, instead []byte) {
	h := t.h
	if t.outcome != undecided {
		h.Reply(instead)
		return
	}
	h.AnswerLater(client.ByNode)
	t.queueCommand(QueuedCommand{Raw: h.Call().Raw, DB: -1, probe: true}, slot)
}

// queueHere queues a command that the proxy runs itself after EXEC has succeeded. The proxy itself says
// QUEUED, and no node hears of it before EXEC.
func (t *transaction) queueHere(cmd *commands.Command, args [][]byte, raw []byte) {
	switch q := cmd.Queued(args); {
	case q.Proto == strconv.Itoa(5-t.h.About().Proto): // of 2 and 3 the other
		t.refuseCommand(otherProtocol)
		return
	case q.Source != nil && t.of.own.User() == nil:
		t.of.proxy.Server().Scripts().Add(q.Source) // an EVALSHA may follow
	}
	t.writes, t.unread = true, true
	t.logsIn = t.logsIn || commands.Authenticates(cmd, args, t.of.proxy.Server())
	t.queueCommand(QueuedCommand{Raw: raw, DB: -1, Here: cmd}, commands.AnySlot)
}

// queueAllowed is queueHere once the upstream has said that the user may run the command.
func (t *transaction) queueAllowed(cmd *commands.Command, args [][]byte, raw []byte) {
	if t.over { // something else ended it meanwhile
		t.h.Reply(replyQueued)
		return
	}
	t.h.AnswerLater(client.ByNode)
	t.queueHere(cmd, args, raw)
}

// queueEverywhere queues a command for all masters. At the node of the transaction it runs in its place among
// the others, none of which is about keys of another master. The other masters get it after EXEC (package
// execution).
func (t *transaction) queueEverywhere(cmd *commands.Command, args [][]byte, raw []byte) {
	e := t.entry(cmd, args, raw)
	e.Everywhere, t.unread = cmd, true
	t.queueCommand(e, commands.AnySlot)
}

// otherProtocol is for a HELLO that would change the protocol in the middle of EXEC.
var otherProtocol = []byte(
	"-ERR HELLO with another protocol is not available through lockproxy inside a transaction: " +
		"send it before MULTI\r\n",
)

// behindLogin is the reason: the node runs all commands as the user who began the transaction.
var behindLogin = []byte(
	"-ERR a command behind AUTH is not available through lockproxy inside a transaction: " +
		"send AUTH before MULTI\r\n",
)

// queueCommand appends e, the current command. slot is the slot of its keys, if the node depends on it. For
// what the proxy runs itself it answers QUEUED at once; otherwise the node answers.
func (t *transaction) queueCommand(e QueuedCommand, slot int) {
	h := t.h
	e.tag = h.CurrentTag()
	size := len(e.Raw) + queueCost
	switch {
	case t.outcome != undecided:
		h.Answer(e.tag, replyQueued)
		return
	case t.logsIn && e.Here == nil && !e.probe:
		t.refuseCommand(behindLogin)
		return
	case slot != commands.AnySlot && t.slot != commands.AnySlot && slot != t.slot:
		t.refuseCommand(crossSlot)
		return
	case t.bytes+size > t.of.proxy.CommandLimit():
		t.refuseCommand(commands.ErrorReply(errLongTransaction))
		return
	}
	if slot != commands.AnySlot && !t.pinSlot(slot) {
		h.Answer(e.tag, replyQueued)
		return
	}
	e.Raw = client.Lasting(e.Raw)
	t.bytes += size
	h.About().Transaction.Bytes = t.bytes
	h.CountMemory()
	// From here on the bytes are the transaction's, and may be sent more than once.
	t.log = append(t.log, e)
	t.unanswered++
	if e.Here != nil {
		h.About().Transaction.Queued++
		t.answerQueued(&t.log[len(t.log)-1], replyQueued)
		return
	}
	t.proceedAtNode()
}

// pinSlot notes the slot of the first key. Earlier commands went to any node. It reports false if one of them
// was a WATCH, from when there was only one master: then it is too late. With one master it is never called:
// all keys are there.
func (t *transaction) pinSlot(slot int) bool {
	if t.slot == slot {
		return true
	}
	t.slot = slot
	l := t.conn
	switch {
	case l == nil || l.pipe.Addr() == t.masterAddr():
	case t.watched:
		t.dropConn(l, pipe.Redirection{}, nil, errMoves)
		return false
	default:
		t.refused = t.refused || t.rejected // the new node knows nothing of it
		l.leaveMulti()
		t.conn = nil
	}
	return true
}

// refuseCommand answers the current command with an error. EXEC will then run nothing. So it is at Redis: an
// error in the queue spoils the whole.
func (t *transaction) refuseCommand(reply []byte) {
	t.spoilExec()
	t.h.Answer(t.h.CurrentTag(), reply)
}

// spoilExec makes EXEC run nothing.
func (t *transaction) spoilExec() { t.refused, t.h.About().Transaction.Dirty = true, true }

// askKeys queues a command whose keys a node must be asked for. The question goes over a shared connection,
// and later commands wait for its answer.
func (t *transaction) askKeys(e QueuedCommand, args [][]byte) {
	h, pool := t.h, t.h.Pool()
	e.Raw = client.Lasting(e.Raw)
	t.of.proxy.FindSlot(args, e.Raw, func(req []byte, then func([]byte) []byte) {
		client.Expect(h, then)
		h.Feed(pool.Send(&pipe.Request{
			Target: pipe.ToSlot(pool.SomeSlot(h.About().ID)), Mode: sharedMode(h.Mode()), Bytes: req,
			To: h, Tag: h.CurrentTag(), Resend: true,
		}))
	}, func(slot int, err error) []byte {
		switch {
		case t.over: // the client has gone
			return replyQueued
		case err != nil:
			t.spoilExec()
			return commands.ErrorReply(err)
		}
		h.AnswerLater(client.ByNode)
		t.queueCommand(e, slot)
		return nil
	})
}
