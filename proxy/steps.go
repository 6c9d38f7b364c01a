package proxy

import (
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
	"lockproxy/proxy/tracking"
)

// transactions is MULTI, WATCH and their like of one client: it implements commands.Transactions.
type transactions struct {
	s        *session // for what runs behind EXEC
	router   *router
	own      *tracking.Connections
	tracking *tracking.Tracker
	writes   *client.Writes
	open     *transaction // between WATCH or MULTI and EXEC
}

// inMulti says that commands are queued.
func (c *transactions) inMulti() bool { return c.open != nil && c.open.multi }

// fails says that EXEC will run nothing, as far as is known yet.
func (t *transaction) fails() bool { return t != nil && (t.refused || t.rejected) }

// begin is the transaction, which is begun if there is none.
func (c *transactions) begin() *transaction {
	if c.open == nil {
		c.open = &transaction{of: c, h: c.s, slot: commands.AnySlot}
	}
	return c.open
}

// memory is how many bytes are queued.
func (c *transactions) memory() int {
	if c.open == nil {
		return 0
	}
	return c.open.bytes + len(c.open.step.raw)
}

// Multi implements commands.Transactions. The node gets MULTI with the first command that is queued.
func (c *transactions) Multi() {
	s := c.s
	if c.inMulti() {
		c.open.probe(commands.AnySlot, nestedMulti)
		return
	}
	t := c.begin()
	t.multi, t.caching = true, s.own.Precedes()
	s.Transaction.Open = true
	s.acted = true
	s.Answer(s.current, replyOK) // not as the proxy's own, for the node counts it too
}

// Watch implements commands.Transactions. All earlier commands are answered, so that what they
// write does not count as a change.
func (c *transactions) Watch() {
	s := c.s
	s.acted = true
	slot, err := commands.AnySlot, error(nil)
	if s.w.masters() > 1 {
		slot, err = s.router.slotOf(s.w.call.Command, s.w.call.Args)
	}
	switch t := c.open; {
	case c.inMulti() && (err != nil || slot != commands.AnySlot && slot != t.slot):
		s.Reply(watchInMulti)
	case c.inMulti():
		t.probe(slot, watchInMulti)
	case err != nil:
		s.Reply(commands.ErrorReply(err))
	case t != nil && t.slot != commands.AnySlot && slot != commands.AnySlot && slot != t.slot:
		s.Reply(crossSlot)
	default:
		t = c.begin()
		t.slot = max(t.slot, slot)
		t.take(watchStep, s.w.call.Raw)
	}
}

// Unwatch implements commands.Transactions.
func (c *transactions) Unwatch() {
	s := c.s
	if c.open == nil {
		s.Reply(replyOK)
		return
	}
	c.open.take(unwatchStep, unwatchCommand)
}

// Discard implements commands.Transactions.
func (c *transactions) Discard() {
	s := c.s
	if !c.inMulti() {
		s.Reply(noDiscard)
		return
	}
	c.open.take(discardStep, discardCommand)
}

// Exec implements commands.Transactions.
func (c *transactions) Exec() {
	s := c.s
	switch {
	case !c.inMulti():
		s.Reply(noExec)
	case c.open.refused:
		c.open.take(abortStep, discardCommand)
	default:
		c.open.take(execStep, s.w.call.Raw)
	}
}

// end ends MULTI and WATCH as a closed connection does.
func (c *transactions) end() {
	if t := c.open; t != nil {
		t.forget()
		if !t.goesOn() {
			t.conn.close()
		}
	}
}

// take has the current command, a step, go its way. Later ones wait until it is answered.
func (t *transaction) take(kind stepKind, raw []byte) {
	h := t.h
	h.AnswerLater(client.ByNode)
	t.step = step{kind, h.CurrentTag(), client.Lasting(raw)}
	if kind == execStep && (t.unread || len(t.guard) > 0) {
		h.ExpectAt(h.CurrentTag(), t.assemble)
	}
	h.SetHold(client.HoldOrder) // which ends when all is answered
	switch {
	case t.outcome != undecided, t.conn == nil && !t.resting && !t.needsNode():
		t.conclude()
	default:
		t.proceed()
	}
}

// needsNode says that the step is not for the proxy alone to answer.
func (t *transaction) needsNode() bool {
	return t.step.kind == watchStep || t.step.kind == execStep || t.unanswered > 0
}

// proceed has what is new sent to the node.
func (t *transaction) proceed() {
	switch {
	case t.conn != nil:
		t.conn.pump()
	case !t.resting:
		t.open("", false)
	}
}

// answer gives the client the reply to a command that was queued. Further commands may be
// read before it returns.
func (t *transaction) answer(e *queued, reply []byte) {
	e.answered = true
	t.unanswered--
	t.h.Answer(e.tag, reply)
}

// conclude answers the step without a node: nothing has run.
func (t *transaction) conclude() {
	h, step := t.h, t.step
	reply := replyOK
	switch {
	case step.kind == noStep:
		return
	case step.kind == watchStep: // no point in watching more
		t.step = stepNone
		h.Answer(step.tag, reply)
		return
	case step.kind == abortStep, step.kind == execStep && (t.refused || t.outcome == aborted):
		if reply = execAborted; t.unsure != nil {
			reply = t.unsure
		}
	case step.kind == execStep:
		reply = resp.AppendNullArray(nil, h.About().Proto)
	}
	t.finish(step.tag, reply)
}

// finish ends the transaction with the answer to its step.
func (t *transaction) finish(tag uint32, reply []byte) {
	t.step = stepNone
	t.end()
	t.h.ExpectAt(tag, nil)
	t.h.Answer(tag, reply)
}
