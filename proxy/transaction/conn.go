package transaction

import (
	"cmp"
	"strconv"

	"lockproxy/cluster/pipe"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/cluster/retry"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
	"lockproxy/proxy/tracking"
)

// txConn is the connection that carries a transaction, until it is lost or turns out to lead to the wrong
// node. It implements owned.Owner and pipe.Receiver; the tag of a queued command is its place in the log. A
// transaction that goes elsewhere gets a new one; replies that still come over the old one find over set.
type txConn struct {
	client.Passive
	t       *transaction
	pipe    *pipe.Pipe
	version uint64    // of the topology by which it was chosen
	mode    pipe.Mode // of the connection when it was opened
	now     pipe.Mode // of the connection now
	asking  bool      // the node is only importing the slot

	multi multiState
	// The next one to be sent is log[sent]. Those that the proxy runs itself are passed over.
	sent    int  // commands of the log that were sent
	stepped bool // the step has been sent
	partly  bool // part of EXEC's reply has arrived
	scripts scriptState
	over    bool // the transaction is over, or goes on over another connection
	leaving bool // over; to be given back when DISCARD is answered
	unheard bool // nobody can tell the client of changes to what EXEC reads
}

// multiState is how far MULTI has come. Nothing is sent behind it before it is multiOpen.
type multiState uint8

const (
	multiUnsent multiState = iota
	multiSent
	multiOpen // commands are now queued, not run at once
)

// The tags of requests that are not in the log.
const (
	tagStep    = ^uint32(0) - iota // the step
	tagMulti                       // MULTI
	tagMode                        // ASKING, HELLO, SELECT, EXISTS
	tagLeave                       // DISCARD, when the connection is left
	tagCaching                     // CLIENT CACHING
)

// openConn opens a connection to the node at addr, or to the master of the slot. asking: addr is where an ASK
// leads. If there is no node now, or it is silent, it is tried again later.
func (t *transaction) openConn(addr string, asking bool) {
	h, pool := t.h, t.h.Pool()
	t.trying.began = cmp.Or(t.trying.began, h.Loop().Now())
	if addr == "" {
		addr = t.masterAddr()
	}
	if addr == "" {
		t.tryAgain(pipe.Redirection{}, retry.Unserved, nil)
		return
	}
	if why := pool.Silent(addr); why != nil {
		t.tryAgain(pipe.Redirection{}, nil, why)
		return
	}
	l := &txConn{t: t, version: pool.Version(), mode: h.Mode(), now: h.Mode(), asking: asking}
	t.conn = l
	l.pipe = pool.Own(addr, l.mode, l)
	l.pumpRequests()
}

var notQueued = []byte("-ERR the upstream answered MULTI in a form that lockproxy does not expect\r\n")

// masterAddr is the address of the node that the transaction belongs to, "" if there is none now.
func (t *transaction) masterAddr() string { return t.h.Pool().MasterOf(t.homeSlot()) }

// homeSlot is the slot of the transaction, or one that stands for it if it has none. The one that stands for
// it is the same each time as long as the topology stays.
func (t *transaction) homeSlot() int {
	if t.slot == commands.AnySlot {
		return t.h.Pool().SomeSlot(t.h.About().ID)
	}
	return t.slot
}

// isStale says that the node may no longer be the master of the slot. After a redirect it is trusted until
// the topology has caught up. Whether the topology has changed costs a comparison; the master is looked up
// only then.
func (l *txConn) isStale() bool {
	return !l.asking && l.version != l.t.h.Pool().Version() && l.pipe.Addr() != l.t.masterAddr()
}

// pumpRequests sends what the node may get now. It is called whenever there is more to send, or a reply
// allows more, and sends as far as it may: MULTI, then the log in order, then the step. A request may fail at
// once and end the connection, so over is looked at each time.
func (l *txConn) pumpRequests() {
	t := l.t
	if t.multi && (len(t.log) > 0 || t.step.kind == execStep) && !l.beginMulti() {
		return
	}
	for l.sent < len(t.log) && !l.over {
		e, tag := &t.log[l.sent], uint32(l.sent)
		if l.sent++; e.Here == nil && !e.Rejected {
			l.pipe.Request(e.Raw, l, tag)
		}
	}
	if !l.over && t.step.kind != noStep && !l.stepped && l.readyForStep() {
		l.stepped = true
		switch {
		case t.step.kind != discardStep && t.step.kind != abortStep, l.multi != multiUnsent:
			l.enterMode()
			l.pipe.Request(t.step.raw, l, tagStep)
		default: // no more than WATCH was sent
			l.pipe.Request(unwatchCommand, l, tagStep)
		}
	}
	if !l.over {
		// The client is not read while the pipe has too much to write.
		t.h.Feed(l.pipe)
	}
}

// readyForStep says that the step may be sent. EXEC must wait if the node is no longer the right one, or may
// lack scripts. It reports false if the step was put off, or the connection given up; both go on by
// themselves.
func (l *txConn) readyForStep() bool {
	if l.t.step.kind != execStep {
		return true
	}
	if l.isStale() {
		l.t.dropConn(l, pipe.Redirection{}, nil, errMoves)
		return false
	}
	return l.haveScripts()
}

// beginMulti sends MULTI, and reports whether commands may follow. If MULTI failed they would run at once, so
// they wait for its answer, unless it succeeded on that connection before. A server whose MULTI is renamed or
// forbidden would have refused it there.
func (l *txConn) beginMulti() bool {
	if l.multi == multiUnsent {
		l.enterMode()
		l.sendCaching()
		if l.multi = multiSent; l.pipe.Proven() {
			l.multi = multiOpen
		}
		l.pipe.Request(multiCommand, l, tagMulti)
		if guard := l.t.guard; len(guard) > 0 && !l.over { // harmless if MULTI has failed
			l.pipe.Request(
				resp.AppendCommand(nil, append([][]byte{[]byte("EXISTS")}, guard...)...),
				l,
				tagMode,
			)
		}
	}
	return l.multi == multiOpen && !l.over
}

// enterMode puts the connection into the mode of the client, which may have changed since WATCH. ASKING
// belongs to the MULTI or WATCH that follows. It costs nothing where nothing has changed. Errors are taken by
// Receive, as tagMode.
func (l *txConn) enterMode() {
	if l.multi != multiUnsent {
		return
	}
	want := l.t.h.Mode()
	if l.now.Proto != want.Proto {
		l.pipe.Request(resp.AppendCommandStrings(nil, "HELLO", strconv.Itoa(want.Proto)), l, tagMode)
	}
	if l.now.DB != want.DB {
		l.pipe.Request(resp.AppendCommandStrings(nil, "SELECT", strconv.Itoa(want.DB)), l, tagMode)
	}
	if l.now = want; l.asking {
		l.pipe.Request(client.Asking, l, tagMode)
	}
}

// sendCaching sends CLIENT CACHING before MULTI if the client has said it: it applies to the whole
// transaction. It cannot be combined with ASKING, since each ends the other; and nobody tells of changes to
// what was read at the target of an ASK if the slot stays where it was, or over a connection from a WATCH
// that came before CLIENT TRACKING.
func (l *txConn) sendCaching() {
	t, h := l.t, l.t.h
	switch {
	case l.asking, l.mode.Own != t.of.own.Set():
		l.unheard = t.of.own.Set() != nil && !h.About().Tracking.BCast
	case !t.caching:
	case h.About().Tracking.OptIn:
		l.pipe.Request(tracking.CachingYes, l, tagCaching)
	default:
		l.pipe.Request(tracking.CachingNo, l, tagCaching)
	}
}

// closeConn ends the connection. l may be nil, as in releaseConn. The node drops what is queued, and what is
// watched.
func (l *txConn) closeConn() {
	if l != nil {
		l.over, l.leaving = true, false
		l.pipe.End()
	}
}

// releaseConn gives the connection back if it is in its original state. Another client may have it next. So
// it ends instead if its mode has changed, or a SELECT was queued.
func (l *txConn) releaseConn() {
	switch {
	case l == nil || l.over:
	case l.now != l.mode || l.t.selects:
		l.closeConn()
	default:
		l.over = true
		l.pipe.Release()
	}
}

// leaveMulti gives the connection back while MULTI is open there. Until DISCARD is answered it is nobody's.
func (l *txConn) leaveMulti() {
	if l.multi == multiUnsent {
		l.releaseConn()
		return
	}
	l.over, l.leaving = true, true
	l.pipe.Request(discardCommand, l, tagLeave)
}

// takeLate handles replies that come after the connection is over. All but the answer to DISCARD is dropped.
func (l *txConn) takeLate(tag uint32, reply []byte) {
	if !l.leaving || tag != tagLeave {
		return
	}
	if l.leaving = false; reply[0] == '-' || l.now != l.mode {
		l.pipe.End()
		return
	}
	l.pipe.Release()
}

// Whole implements owned.Whole.
func (l *txConn) Whole() bool { return l.multi != multiUnsent }

// Party implements owned.Counted.
func (l *txConn) Party() owned.Party { return client.PartyOf(l.t.h.About()) }
