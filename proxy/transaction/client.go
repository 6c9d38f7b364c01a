package transaction

import (
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
	"lockproxy/proxy/tracking"
)

// Client is one client's MULTI, WATCH and their like. It implements commands.Transactions. It belongs to the
// loop of the client.
type Client struct {
	h       Host
	proxy   Proxy
	own     *tracking.Connections
	tracker *tracking.Tracker
	writes  *client.Writes
	open    *transaction // between WATCH or MULTI and EXEC
}

// NewClient returns the Client of a client without a transaction.
func NewClient(h Host, proxy Proxy, own *tracking.Connections, tracker *tracking.Tracker,
	writes *client.Writes) Client {
	return Client{h: h, proxy: proxy, own: own, tracker: tracker, writes: writes}
}

// IsOpen says that the client has said WATCH or MULTI, and not yet EXEC.
func (c *Client) IsOpen() bool { return c.open != nil }

// Fails says that EXEC will run nothing, as far as is known. It is false while there is no transaction.
func (c *Client) Fails() bool { return c.open != nil && (c.open.refused || c.open.rejected) }

// Spoil makes EXEC run nothing, if commands are queued. The proxy has refused a command of it in another
// place.
func (c *Client) Spoil() {
	if c.InMulti() {
		c.open.spoilExec()
	}
}

// Lose continues the transaction over another connection, if that is possible. With WATCH in force it is not:
// then EXEC will answer Null.
func (c *Client) Lose(why error) {
	if c.open != nil && c.open.conn != nil {
		c.open.dropConn(c.open.conn, pipe.Redirection{}, nil, why)
	}
}

// InMulti says that commands are queued.
func (c *Client) InMulti() bool { return c.open != nil && c.open.multi }

// beginTransaction returns the transaction, a new one if there is none.
func (c *Client) beginTransaction() *transaction {
	if c.open == nil {
		c.open = &transaction{of: c, h: c.h, slot: commands.AnySlot}
	}
	return c.open
}

// Memory is how many bytes are queued. They count against the client's limit of input (Proxy.CommandLimit),
// and against the memory of all.
func (c *Client) Memory() int {
	if c.open == nil {
		return 0
	}
	return c.open.bytes + len(c.open.step.raw)
}

// Multi implements commands.Transactions. The node gets MULTI with the first command that is queued. A MULTI
// inside MULTI is sent too, so that the error is the node's.
func (c *Client) Multi() {
	if c.InMulti() {
		c.open.queueProbe(commands.AnySlot, nestedMulti)
		return
	}
	t := c.beginTransaction()
	t.multi, t.caching, t.db = true, c.own.Precedes(), c.h.About().DB
	c.h.About().Transaction.Open = true
	c.h.AnswerLater(client.ByNode)
	c.h.Answer(c.h.CurrentTag(), resp.OK) // not as an error of the proxy, since the node counts it too
}

// Watch implements commands.Transactions. All earlier commands are answered, so that what they write does not
// count as a change. All keys of a transaction must be of one slot, those of WATCH included.
func (c *Client) Watch() {
	slot, err := commands.AnySlot, error(nil)
	if client.Masters(c.h) > 1 {
		slot, err = c.proxy.SlotOf(c.h.Call().Command, c.h.Call().Args)
	}
	switch t := c.open; {
	case c.InMulti() && (err != nil || slot != commands.AnySlot && slot != t.slot):
		c.h.Reply(watchInMulti)
	case c.InMulti():
		t.queueProbe(slot, watchInMulti)
	case err != nil:
		c.h.Reply(commands.ErrorReply(err))
	case t != nil && t.slot != commands.AnySlot && slot != commands.AnySlot && slot != t.slot:
		c.h.Reply(crossSlot)
	default:
		t = c.beginTransaction()
		// AnySlot is below all slots.
		t.slot = max(t.slot, slot)
		t.watching = len(c.h.Call().Args) - 1
		t.takeStep(watchStep, c.h.Call().Raw)
	}
}

// Unwatch implements commands.Transactions. It ends the transaction: outside MULTI there is nothing else to
// it.
func (c *Client) Unwatch() {
	if c.open == nil {
		c.h.Reply(resp.OK)
		return
	}
	c.open.takeStep(unwatchStep, unwatchCommand)
}

// Discard implements commands.Transactions.
func (c *Client) Discard() {
	if !c.InMulti() {
		c.h.Reply(noDiscard)
		return
	}
	c.open.takeStep(discardStep, discardCommand)
}

// Exec implements commands.Transactions. After a refusal by the proxy the node gets DISCARD, since it knows
// nothing of the refusal and would run the rest.
func (c *Client) Exec() {
	switch {
	case !c.InMulti():
		c.h.Reply(noExec)
	case c.open.refused:
		c.open.takeStep(abortStep, discardCommand)
	default:
		c.open.takeStep(execStep, c.h.Call().Raw)
	}
}

// End ends MULTI and WATCH as a closed connection does. An EXEC that is under way goes on, since commands for
// the other masters may follow it.
func (c *Client) End() {
	if t := c.open; t != nil {
		t.forgetTransaction()
		if !t.execPending() {
			t.conn.closeConn()
		}
	}
}

// takeStep starts the current command, a step. Later commands wait until it is answered. raw is what the node
// gets, if it gets anything.
func (t *transaction) takeStep(kind stepKind, raw []byte) {
	h := t.h
	h.AnswerLater(client.ByNode)
	t.step = txStep{kind, h.CurrentTag(), client.Lasting(raw)}
	if kind == execStep && (t.unread || len(t.guard) > 0) {
		h.Answers().Expect(h.CurrentTag(), t.assemble)
	}
	h.SetHold(client.HoldOrder) // ends when all is answered
	switch {
	// The node has nothing of it, or its answer does not matter any more.
	case t.outcome != undecided, t.conn == nil && !t.resting && !t.needsNode():
		t.concludeStep()
	default:
		t.proceedAtNode()
	}
}

// needsNode says that the proxy alone cannot answer the step. EXEC of an empty queue is not answered by it
// either: as much as possible is left to the node.
func (t *transaction) needsNode() bool {
	return t.step.kind == watchStep || t.step.kind == execStep || t.unanswered > 0
}

// proceedAtNode sends what is new to the node. While it rests nothing is sent: the next attempt sends all.
func (t *transaction) proceedAtNode() {
	switch {
	case t.conn != nil:
		t.conn.pumpRequests()
	case !t.resting:
		t.openConn("", false)
	}
}

// answerQueued gives the client the reply to a queued command. Further commands may be read before it
// returns. So e must not be used behind it: the log may have grown into other memory.
func (t *transaction) answerQueued(e *QueuedCommand, reply []byte) {
	e.answered = true
	t.unanswered--
	t.h.Answer(e.tag, reply)
}

// concludeStep answers the step without a node: nothing has run. It does nothing while there is no step: then
// the outcome waits for EXEC.
func (t *transaction) concludeStep() {
	h, step := t.h, t.step
	reply := resp.OK
	switch {
	case step.kind == noStep:
		return
	case step.kind == watchStep: // no point in watching more
		t.step = txStep{}
		h.Answer(step.tag, reply)
		return
	case step.kind == abortStep, step.kind == execStep && (t.refused || t.outcome == aborted):
		if reply = execAborted; t.unsure != nil {
			reply = t.unsure
		}
	case step.kind == execStep:
		reply = resp.AppendNullArray(nil, h.About().Proto)
	}
	t.finishStep(step.tag, reply)
}

// finishStep ends the transaction with the answer to its step. What Expect had set for EXEC is taken back,
// for reply is the answer already.
func (t *transaction) finishStep(tag uint32, reply []byte) {
	t.step = txStep{}
	t.endTransaction()
	t.h.Answers().Expect(tag, nil)
	t.h.Answer(tag, reply)
}

// execPending says that EXEC was sent and that work may remain after it, whether or not the client is still
// there. Its connection must stay then.
func (t *transaction) execPending() bool {
	return t.unread && t.conn != nil && t.conn.stepped && t.step.kind == execStep
}

// assemble makes EXEC's answer of the node's reply, which has one element for each command that the node got.
// It runs when the whole reply is there, and returns nil if commands are to run first.
func (t *transaction) assemble(reply []byte) []byte {
	return t.of.proxy.Assemble(Executed{
		Tag: t.step.tag, Reply: reply, Log: t.log, Guarded: len(t.guard) > 0,
		Node: t.conn.pipe.Addr(), Slot: t.slot,
	})
}
