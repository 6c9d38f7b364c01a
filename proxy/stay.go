package proxy

import (
	"time"

	"lockproxy/commands"
)

// stay is the time that a session spends in a command that blocks: it reads no further command
// meanwhile. The command itself is a block or a replicaWait, which holds its stay.
type stay struct {
	s     *session
	tag   uint32 // the command
	bytes int    // of it
	what  blocked
	begun bool // all earlier commands are answered
	over  bool // nothing of it is wanted any more
	sent  bool // its request is with a node
}

// blocked is a command that blocks. Its methods run on the loop, and but for begin only
// between begin and the end of the stay.
type blocked interface {
	// begin starts it. All earlier commands of its client are answered.
	begin()
	// unblock ends it as CLIENT UNBLOCK does. ended is told, at once or later, whether it did.
	unblock(withError bool, ended func(bool))
	// halfClosed: the client sends no more, and will be closed once it is answered.
	halfClosed()
	// drain ends it soon, for the proxy shuts down.
	drain()
	// abandon gives up what it has at the upstream: the client has gone.
	abandon()
	// look is called once a second.
	look(now time.Time)
}

// park has the session stay in the command that is the current one.
func (s *session) park(st *stay, what blocked) {
	s.acted = true
	if s.gone {
		s.settle(s.current)
		return
	}
	st.s, st.tag, st.what = s, s.current, what
	s.stay = st
	s.setHold(holdBlock)
	s.itsTurn()
}

// itsTurn begins what the session is parked in as soon as all earlier commands are answered.
func (s *session) itsTurn() {
	st := s.stay
	if st.begun || s.answers.head != st.tag || s.gone {
		return
	}
	st.begun = true
	s.Blocked = true
	s.w.blocked[s.ID] = s
	s.w.server.queued.Add(1)
	if s.draining {
		st.answer(commands.ErrorReply(commands.ErrDraining))
		return
	}
	st.what.begin()
}

// with notes whether the request is with a node.
func (st *stay) with(node bool) {
	if st.sent == node {
		return
	}
	st.sent = node
	n := int64(1)
	if !node {
		n = -1
	}
	st.s.w.server.blocked.Add(n)
	st.s.w.server.queued.Add(-n)
}

// end ends the stay; the answer, and then resume, come after it.
func (st *stay) end() {
	s := st.s
	if st.over {
		return
	}
	st.over = true
	s.stay = nil
	if st.begun {
		st.with(false)
		s.w.server.queued.Add(-1)
		s.Blocked = false
		delete(s.w.blocked, s.ID)
	}
}

// resume reads on behind the answer.
func (st *stay) resume() {
	st.s.clearHold(holdBlock)
	st.s.endIfDone()
}

// answer ends the stay with a whole reply.
func (st *stay) answer(reply []byte) {
	st.end()
	st.s.answer(st.tag, reply)
	st.resume()
}

// fail ends the stay with the error of a request.
func (st *stay) fail(err error) {
	st.end()
	st.s.Fail(st.tag, err)
	st.resume()
}

// abandonStay gives up what the session is parked in, for its client has gone.
func (s *session) abandonStay() {
	st := s.stay
	if st == nil {
		return
	}
	st.end()
	if st.begun {
		st.what.abandon()
	}
	s.settle(st.tag)
}

// hasHalfClosed has what the session is parked in know that its client sends no more. What was
// asked for before is answered.
func (s *session) hasHalfClosed() {
	s.eof = true
	if s.stay.begun {
		s.stay.what.halfClosed()
	}
}

// drainStay ends what the session is parked in.
func (s *session) drainStay() {
	if s.stay != nil && s.stay.begun {
		s.stay.what.drain()
	}
}

// lookAtStays has each command that blocks see to its time-out.
func (w *worker) lookAtStays() {
	for _, s := range w.blocked {
		if s.stay != nil {
			s.stay.what.look(w.loop.Now())
		}
	}
}
