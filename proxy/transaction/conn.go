package transaction

import (
	"lockproxy/cluster/pipe"
	"lockproxy/cluster/retry"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
	"lockproxy/proxy/tracking"
)

// conn is the connection of its own that carries a transaction, until it is lost or turns out to lead to the
// wrong node. It implements pipe.Owner, and pipe.Receiver: what is queued has its place in the log as
// tag.
type conn struct {
	t       *transaction
	pipe    *pipe.Pipe
	version uint64    // of the topology that it was chosen by
	mode    pipe.Mode // of the connection when it was made
	now     pipe.Mode // since
	asking  bool      // the node only imports the slot

	multi   multiState
	sent    int  // of the log
	stepped bool // the step was sent
	partly  bool // part of EXEC's reply has come
	scripts scriptState
	over    bool // the transaction is over, or goes on over another connection
	leaving bool // over, and to be given back when DISCARD is answered
	unheard bool // nobody may tell the client of changes of what EXEC reads
}

type multiState uint8

const (
	multiUnsent multiState = iota
	multiSent
	multiOpen // what follows is queued, and not run at once
)

// Tags of requests that are not in the log.
const (
	tagStep    = ^uint32(0) - iota // the step
	tagMulti                       // MULTI
	tagMode                        // ASKING, HELLO, SELECT, EXISTS
	tagLeave                       // DISCARD when the connection is left
	tagCaching                     // CLIENT CACHING
)

// open begins a connection to the node at addr, or to the master of the slot.
func (t *transaction) open(addr string, asking bool) {
	h, pool := t.h, t.h.Pool()
	t.limit()
	if addr == "" {
		addr = t.master()
	}
	if addr == "" {
		t.again(pipe.Redirection{}, retry.Unserved, nil)
		return
	}
	l := &conn{t: t, version: pool.Version(), mode: h.Mode(), now: h.Mode(), asking: asking}
	t.conn = l
	l.pipe = pool.Own(addr, l.mode, l)
	l.pump()
}

var notQueued = []byte("-ERR the upstream answered MULTI in a form that lockproxy does not expect\r\n")

// master is the address of the node that the transaction belongs to, "" if there is none now.
func (t *transaction) master() string {
	slot := t.slot
	if slot == commands.AnySlot {
		slot = t.h.Pool().SomeSlot(t.h.About().ID)
	}
	return t.h.Pool().MasterOf(slot)
}

// stale says that the node may not be the master of the slot any more. It is not asked for
// what went by a redirect, before the topology shows that.
func (l *conn) stale() bool {
	return !l.asking && l.version != l.t.h.Pool().Version() && l.pipe.Addr() != l.t.master()
}

// pump sends what the node may have now.
func (l *conn) pump() {
	t := l.t
	if t.multi && (len(t.log) > 0 || t.step.kind == execStep) && !l.begin() {
		return
	}
	for l.sent < len(t.log) && !l.over {
		e, tag := &t.log[l.sent], uint32(l.sent)
		if l.sent++; e.Here == nil && !e.Rejected {
			l.pipe.Request(e.Raw, l, tag)
		}
	}
	if !l.over && t.step.kind != noStep && !l.stepped && l.ready() {
		l.stepped = true
		switch {
		case t.step.kind != discardStep && t.step.kind != abortStep, l.multi != multiUnsent:
			l.enter()
			l.pipe.Request(t.step.raw, l, tagStep)
		default: // no more than WATCH was sent
			l.pipe.Request(unwatchCommand, l, tagStep)
		}
	}
	if !l.over {
		t.h.Feed(l.pipe)
	}
}

// ready says that the step may be sent. EXEC may not if the node is no longer the right
// one, or may lack scripts.
func (l *conn) ready() bool {
	if l.t.step.kind != execStep {
		return true
	}
	if l.stale() {
		l.t.trouble(l, pipe.Redirection{}, nil, errMoves)
		return false
	}
	return l.haveScripts()
}

// begin sends MULTI, and reports whether commands may follow. If MULTI failed they would run at once, so
// they wait for its answer, unless it has succeeded on that connection before.
func (l *conn) begin() bool {
	if l.multi == multiUnsent {
		l.enter()
		l.cache()
		if l.multi = multiSent; l.pipe.Proven() {
			l.multi = multiOpen
		}
		l.pipe.Request(multiCommand, l, tagMulti)
		if guard := l.t.guard; len(guard) > 0 && !l.over { // which does no harm if MULTI has failed
			l.pipe.Request(
				resp.AppendCommand(nil, append([][]byte{[]byte("EXISTS")}, guard...)...),
				l,
				tagMode,
			)
		}
	}
	return l.multi == multiOpen && !l.over
}

// enter puts the connection into the mode that the client is in, for it may have changed
// since WATCH. MULTI or WATCH follows, to which ASKING belongs.
func (l *conn) enter() {
	if l.multi != multiUnsent {
		return
	}
	want := l.t.h.Mode()
	if l.now.Proto != want.Proto {
		l.pipe.Request(resp.AppendCommandStrings(nil, "HELLO", itoa(want.Proto)), l, tagMode)
	}
	if l.now.DB != want.DB {
		l.pipe.Request(resp.AppendCommandStrings(nil, "SELECT", itoa(want.DB)), l, tagMode)
	}
	if l.now = want; l.asking {
		l.pipe.Request(askingCommand, l, tagMode)
	}
}

// cache sends CLIENT CACHING in front of MULTI, where the client has said it: it holds for the whole
// transaction. It cannot stand beside ASKING, for each ends the other; and what was read where ASK said is
// not looked after if the slot stays where it was.
func (l *conn) cache() {
	t, h := l.t, l.t.h
	switch {
	case l.asking:
		l.unheard = t.of.own.Set() != nil && !h.About().Tracking.BCast
	case !t.caching:
	case h.About().Tracking.OptIn:
		l.pipe.Request(tracking.CachingYes, l, tagCaching)
	default:
		l.pipe.Request(tracking.CachingNo, l, tagCaching)
	}
}

// close ends the connection. l may be nil, as in release.
func (l *conn) close() {
	if l != nil {
		l.over, l.leaving = true, false
		l.pipe.End()
	}
}

// release gives the connection back, if it is as it was in the beginning.
func (l *conn) release() {
	switch {
	case l == nil || l.over:
	case l.now != l.mode || l.t.selects:
		l.close()
	default:
		l.over = true
		l.pipe.Release()
	}
}

// leave gives the connection back while MULTI is open there.
func (l *conn) leave() {
	if l.multi == multiUnsent {
		l.release()
		return
	}
	l.over, l.leaving = true, true
	l.pipe.Request(discardCommand, l, tagLeave)
}

// left takes what comes when the connection is over.
func (l *conn) left(tag uint32, reply []byte) {
	if !l.leaving || tag != tagLeave {
		return
	}
	if l.leaving = false; reply[0] == '-' || l.now != l.mode {
		l.pipe.End()
		return
	}
	l.pipe.Release()
}

// Party implements pipe.Counted.
func (l *conn) Party() pipe.Party { return client.PartyOf(l.t.h.About()) }
