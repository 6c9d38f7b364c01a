package pipe

import (
	"fmt"
	"strconv"

	"lockproxy/internal/resp"
)

// privatePipe is one connection of a Private. It is used until it is lost.
type privatePipe struct {
	of       *Private
	pipe     *Pipe
	tracking *trackingConn
	owner    Owner // uses the pipe as one from Pool.Own, too; or nil
	pending  int   // replies to its setup that are to come, and ids of tracking connections
	asked    bool  // the setup was sent
	served   bool  // it was in its state once
	used     bool  // something was answered since pushes may have been missed
	fading   bool  // it closes when all is answered
	heard    pushText
}

// begin connects the pipe and sets it up.
func (pp *privatePipe) begin() {
	if pp.of.setup.Redirect {
		pp.pending++
		pp.tracking = newTrackingConn(pp, func() {
			pp.pending--
			pp.pipe.front(pp.requests())
			pp.of.pool.own.admit(pp.pipe)
		})
		return
	}
	pp.send(pp.requests())
	pp.of.pool.own.admit(pp.pipe)
}

// send sends the requests of the setup.
func (pp *privatePipe) send(reqs [][]byte) {
	for _, req := range reqs {
		pp.pipe.ask(req, pp.setUp)
	}
}

// requests are the requests of the Setup, which are about to be sent.
func (pp *privatePipe) requests() [][]byte {
	var id int64
	if pp.of.setup.Redirect {
		id = pp.tracking.pipe.ClientID()
	}
	fresh := !pp.asked
	pp.asked = true
	if pp.of.setup.Requests == nil {
		return nil
	}
	reqs := pp.of.setup.Requests(fresh, id)
	pp.pending += len(reqs)
	return reqs
}

// configure takes over a new Setup.
func (pp *privatePipe) configure() {
	switch {
	case pp.tracking != nil && !pp.tracking.ready: // its requests are still to be made
	case pp.of.setup.Redirect && pp.tracking == nil:
		pp.pending++
		pp.tracking = newTrackingConn(pp, func() {
			pp.pending--
			pp.configure()
		})
	default:
		pp.send(pp.requests())
	}
}

// turn changes the mode of the connection.
func (pp *privatePipe) turn(m Mode) {
	if pp.pipe.mode.DB != m.DB && m.special() { // its user may not be allowed SELECT
		pp.fade()
		return
	}
	var reqs [][]byte
	if pp.pipe.mode.Proto != m.Proto {
		reqs = append(reqs, resp.AppendCommandStrings(nil, "HELLO", strconv.Itoa(m.Proto)))
	}
	if pp.pipe.mode.DB != m.DB {
		reqs = append(reqs, resp.AppendCommandStrings(nil, "SELECT", strconv.Itoa(m.DB)))
	}
	pp.pipe.mode = m
	pp.pending += len(reqs)
	pp.send(reqs)
}

// setUp takes a reply to the setup.
func (pp *privatePipe) setUp(reply []byte, err error) {
	if err != nil {
		return
	}
	pp.pending--
	if isErrorReply(reply) {
		pp.of.refused = reply
		pp.pipe.hangUp(fmt.Errorf("%w: %s", ErrRefused, trimLine(reply[1:])))
		return
	}
	if pp.pending > 0 {
		return
	}
	if pp.tracking != nil && !pp.of.setup.Redirect {
		pp.tracking.retire()
		pp.tracking = nil
	}
	if !pp.served && pp.of.everywhere && !pp.of.ended {
		pp.of.owner.Stale() // nobody listened since the last connection was lost
	}
	pp.served, pp.of.pause = true, 0
	pp.of.settle()
}

// Push implements Owner.
func (pp *privatePipe) Push(chunk []byte, last bool) { pp.of.push(&pp.heard, chunk, last) }

// leave takes the connection out of the set. Requests from now on, perhaps sent by an owner who hears that
// it was lost, take a new one.
func (pp *privatePipe) leave() { delete(pp.of.byAddr, pp.pipe.addr) }

// Lost implements Owner.
func (pp *privatePipe) Lost(err error) {
	o := pp.of
	if pp.tracking != nil {
		pp.tracking.end()
	}
	if b := pp.owner; b != nil {
		pp.owner = nil
		b.Lost(err)
	}
	if o.ended {
		o.forget()
		return
	}
	pp.stale()
	o.settle()
	o.reachSoon()
}

// answered is called behind each reply.
func (pp *privatePipe) answered(c call) {
	pp.used = pp.used || c.to != nil
	if c.astray && !pp.of.everywhere {
		pp.stale()
	}
	if pp.fading {
		pp.fade()
	}
}

// fade closes the connection as soon as everything is answered. From now on, what was read over it may
// change without a message.
func (pp *privatePipe) fade() {
	if !pp.fading && pp.pipe.calls.len() > 0 {
		pp.stale()
	}
	pp.fading = true
	if pp.pipe.calls.len() > 0 && !pp.idle() || pp.owner != nil {
		return
	}
	pp.pipe.close(errReleased)
}

// stale says that pushes may have been missed, unless there was nothing that they could be about.
func (pp *privatePipe) stale() {
	if !pp.of.ended && pp.served && (pp.used || pp.of.everywhere) {
		pp.used = false
		pp.of.owner.Stale()
	}
}

// idle says that only the setup waits for the connection to be made.
func (pp *privatePipe) idle() bool {
	setup := 1 + pp.pending // and CLIENT ID
	if pp.tracking != nil && !pp.tracking.ready {
		setup--
	}
	return pp.pipe.conn == nil && pp.pipe.calls.len() <= setup
}

// giveBack ends the use by the owner. If replies are still to come, the next owner would get them, so the
// pipe is closed then.
func (pp *privatePipe) giveBack() {
	calls := &pp.pipe.calls
	for i := range calls.len() {
		if c := calls.at(i); c.raw && !c.ours {
			pp.pipe.End()
			return
		}
	}
	pp.owner = nil
	pp.pipe.SetPatient(false)
	if pp.fading {
		pp.fade()
	}
}

// pushText collects a push message.
type pushText struct {
	text []byte
	long bool // longer than is kept
}

// push passes on a push message once it is whole. Of one that is too long, only the fact that it came is
// passed on.
func (o *Private) push(t *pushText, chunk []byte, last bool) {
	if o.ended {
		return
	}
	switch {
	case last && t.text == nil && !t.long:
		o.owner.Push(chunk)
		return
	case t.long:
	case len(t.text)+len(chunk) > o.pool.o.QueueLimit:
		t.text, t.long = nil, true
	default:
		t.text = append(t.text, chunk...)
	}
	if !last {
		return
	}
	text, long := t.text, t.long
	*t = pushText{}
	if long {
		o.owner.Stale()
		return
	}
	o.owner.Push(text)
}
