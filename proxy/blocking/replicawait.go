package blocking

import (
	"bytes"
	"strconv"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
	"lockproxy/proxy/client"
)

// replicaWait is WAIT or WAITAOF: how many replicas have what this client has written? Its writes went over
// shared connections. So each master that it wrote to is asked over a connection of its own, after that has
// caught up with the master:
//
//	INFO server --> before 7.2 that is enough --------> WAIT
//	           \--> since then only a write is: EVAL --/
//
// The answer is the lowest number of any master. Nothing is asked twice: a master that fails may take the
// writes with it.
type replicaWait struct {
	blockedCall
	cmd     *commands.Command
	req     []byte
	timeout commands.Timeout
	start   time.Time
	wrote   bool // the client has written
	// One for each master that was written to, in the order of replies; missing is how many of these have not
	// come.
	parts   []*waitPart
	replies [][]byte
	missing int
	overdue bool
}

// waitPart is the request to one master. own is nil as soon as nothing more is expected of the master. It
// also is when the whole has been stopped.
type waitPart struct {
	client.Passive
	w     *replicaWait
	i     int
	own   *ownedConn // nil: it was given back
	reply []byte
	tries int // keys tried so far
	sent  bool
}

// The requests to one master, in this order.
const (
	versionTag = iota
	markTag
	waitTag
)

// mark is a write that changes nothing. Only a command that the server propagates moves the point up to which
// WAIT counts for this connection. SET and DEL of a key that nobody uses leave nothing behind. allow-oom lets
// it run at a master that is full.
const mark = `#!lua flags=allow-oom
redis.call('SET', KEYS[1], '')
return redis.call('DEL', KEYS[1])`

// maxMarks is how many keys are tried, since their slots may just be moving to another master.
const maxMarks = 5

var askVersion = resp.AppendCommandStrings(nil, "INFO", "server")

// WaitForReplicas makes the client wait in WAIT or WAITAOF.
func (k *Waiter) WaitForReplicas(cmd *commands.Command, raw []byte, timeout commands.Timeout) {
	w := &replicaWait{cmd: cmd, req: bytes.Clone(raw), timeout: timeout}
	k.startWait(&w.blockedCall, w)
}

// beginWait implements blockingCommand. All connections are made before the first request goes: a request
// that fails at once stops all parts.
func (w *replicaWait) beginWait() {
	pool := w.h.Pool()
	nodes, wrote, err := w.of.writes.Nodes(pool.Topology().Masters)
	if err != nil {
		w.answerCall(commands.ErrorReply(err))
		return
	}
	w.start, w.wrote = w.h.Loop().Now(), wrote
	if w.h.HalfClosed() {
		w.hurryEnd()
	}
	w.missing, w.replies = len(nodes), make([][]byte, len(nodes))
	mode := w.h.Mode()
	if w.of.own.User() != nil { // its user may have the right to WAIT but not to what precedes it
		mode = w.of.own.Home()
	}
	for i, node := range nodes {
		p := &waitPart{w: w, i: i}
		p.own = &ownedConn{Pipe: pool.Own(node, mode, p)}
		w.parts = append(w.parts, p)
	}
	for _, p := range w.parts {
		if p.own != nil {
			p.own.Request(askVersion, p, versionTag)
		}
	}
}

// Receive implements pipe.Receiver.
func (p *waitPart) Receive(tag uint32, chunk []byte, last bool) {
	if p.w.over || p.own == nil {
		return
	}
	p.reply = append(p.reply, chunk...)
	if !last {
		return
	}
	reply := p.reply
	p.reply = nil
	switch failed := reply[0] == '-' || reply[0] == '!'; {
	case tag == markTag && failed && p.marksElsewhere(reply):
	case tag == versionTag && failed:
		p.beginPart(p.w.h.Pool().Topology().Server) // INFO is forbidden, or this is no Redis
	case tag == versionTag:
		v, _, _ := resp.Parse(reply)
		p.beginPart(cluster.ServerOf(v))
	case failed:
		p.letGo()
		p.w.stopParts()
		p.w.answerCall(reply)
	case tag == waitTag:
		p.letGo()
		p.w.addReply(p.i, reply)
	default:
		p.sendWait()
	}
}

// beginPart writes before it waits if the server counts only from the last write of the connection itself on.
// Redis does so since 7.2.
func (p *waitPart) beginPart(server cluster.Server) {
	if p.w.wrote && server.AtLeast(7, 2) {
		p.sendMark()
		return
	}
	p.sendWait()
}

// sendMark writes over the connection. EVAL makes it one request, in which nobody else sees the key.
func (p *waitPart) sendMark() {
	p.own.Request(resp.AppendCommandStrings(nil, "EVAL", mark, "1", p.markKey()), p, markTag)
}

// markKey returns a key in a slot of the master, another one with each try. The names are tried one after the
// other: their slots are as good as random, so one of the master is soon found, unless hardly any slot is
// left to it: that is what bounds the search.
func (p *waitPart) markKey() (key string) {
	pool := p.w.h.Pool()
	for i, tries := 0, p.tries; i < 8*slot.Count; i++ {
		key = "lockproxy:wait:{" + strconv.Itoa(i) + "}"
		if pool.MasterOf(slot.Of([]byte(key))) == p.own.Addr() {
			if tries--; tries < 0 {
				break
			}
		}
	}
	return key
}

// marksElsewhere tries another key if the error means that only this one cannot be written now. It says
// whether it has.
func (p *waitPart) marksElsewhere(reply []byte) bool {
	_, again := p.own.Retryable(reply)
	p.tries++
	if !again || p.tries >= maxMarks {
		return false
	}
	p.sendMark()
	return true
}

// sendWait asks the question itself, with what is left of the timeout. Catching up has taken time of the
// client's, which is taken off.
func (p *waitPart) sendWait() {
	w := p.w
	req, waited := w.req, w.h.Loop().Now().Sub(w.start)
	if w.timeout.Limit > 0 && waited > atOnce {
		req = w.timeout.Rewrite(req, w.timeout.Limit-waited)
	}
	p.sent = true
	w.setSent(true)
	p.own.SetPatient(true)
	p.own.Request(req, p, waitTag)
	if w.h.HalfClosed() {
		pipe.EndRequests(p.own.Pipe)
	}
}

// addReply takes the answer of one master.
func (w *replicaWait) addReply(i int, reply []byte) {
	w.replies[i] = reply
	if w.missing--; w.missing > 0 {
		return
	}
	reply = w.cmd.Merge(w.h.About().Proto, w.replies)
	if w.satisfied(reply) {
		w.of.writes.Synced()
	}
	w.answerCall(reply)
}

// satisfied says that as many replicas as were asked for have the writes, and for WAITAOF as many masters.
// Then the next write of the client begins a new list of masters (client.Writes).
func (w *replicaWait) satisfied(reply []byte) bool {
	args, _, err := resp.Split(w.req, nil)
	v, _, err2 := resp.Parse(reply)
	if err != nil || err2 != nil {
		return false
	}
	got := v.Elems
	if v.Kind == ':' {
		got = []resp.Value{v}
	}
	if len(got) > len(args)-2 { // the last argument is the time-out
		return false
	}
	for i := range got {
		want, err := strconv.ParseInt(string(args[1+i]), 10, 64)
		if err != nil || got[i].Kind != ':' || got[i].Int < want {
			return false
		}
	}
	return len(got) > 0
}

// Fail implements pipe.Receiver.
func (p *waitPart) Fail(_ uint32, err error) {
	if p.w.over || p.own == nil {
		return
	}
	p.own = nil
	p.w.stopParts()
	if p.sent && p.w.h.HalfClosed() { // the master has ended it
		p.w.h.CloseAfterWrite()
		return
	}
	p.w.failCall(err)
}

// letGo ends the use of a connection whose last reply is here.
func (p *waitPart) letGo() {
	p.own.giveBack()
	p.own = nil
}

// stopParts gives up what is still under way. The masters see the connections end. No answer of theirs is
// waited for any more.
func (w *replicaWait) stopParts() {
	for _, p := range w.parts {
		if own := p.own; own != nil {
			p.own = nil
			own.End()
		}
	}
}

// unblockWait implements blockingCommand. Each master that waits is told. One that says yes is enough for a
// yes, and ended is called once, with the last answer.
func (w *replicaWait) unblockWait(withError bool, ended func(bool)) {
	var asked []*ownedConn
	for _, p := range w.parts {
		switch {
		case p.own == nil:
		case !p.sent:
			w.endAtOnce(withError)
			ended(true)
			return
		default:
			asked = append(asked, p.own)
		}
	}
	missing, any := len(asked), false
	if missing == 0 { // it is over already, since its client has half-closed
		ended(false)
	}
	for _, own := range asked {
		own.askUnblock(w.h.Pool(), withError, func(done bool) {
			any = any || done
			if missing--; missing == 0 {
				ended(any)
			}
		})
	}
}

// endAtOnce ends it before all masters have been asked.
func (w *replicaWait) endAtOnce(withError bool) {
	w.stopParts()
	if withError {
		w.answerCall(unblockedReply)
		return
	}
	w.answerCall([]byte(w.cmd.None))
}

// halfClosed implements blockingCommand. The masters treat it as that of a client which has ended its side.
func (w *replicaWait) halfClosed() {
	for _, p := range w.parts {
		if p.own != nil && p.sent {
			pipe.EndRequests(p.own.Pipe)
		}
	}
	w.hurryEnd()
}

// hurryEnd ends it soon, without an answer. The time is for masters that have their answer ready.
func (w *replicaWait) hurryEnd() {
	w.h.Loop().After(endWithin, func() {
		if !w.over {
			w.stopParts()
			w.h.CloseAfterWrite()
		}
	})
}

// drainWait implements blockingCommand.
func (w *replicaWait) drainWait() {
	w.stopParts()
	w.answerCall(commands.ErrorReply(commands.ErrDraining))
}

// abandonWait implements blockingCommand.
func (w *replicaWait) abandonWait() { w.stopParts() }

// checkTimeout implements blockingCommand: a master must answer when the timeout is over.
func (w *replicaWait) checkTimeout(now time.Time) {
	if w.overdue || w.timeout.Limit == 0 || now.Sub(w.start) <= w.timeout.Limit {
		return
	}
	w.overdue = true
	for _, p := range w.parts {
		if p.own != nil {
			p.own.SetPatient(false)
		}
	}
}

// Party implements owned.Counted.
func (p *waitPart) Party() owned.Party { return client.PartyOf(p.w.h.About()) }
