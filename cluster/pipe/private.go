package pipe

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

// This file is a set of connections that one client has for itself, one to each node, made when
// first needed: for what a node remembers of a connection while it serves any command.
//
//	Pool.Private --> Mode.Own --> Pool.Send: redirects, retries and all, over the set's own pipes
//
// Every place in which a Pool chooses a pipe does so by the Mode of the request, so that a request whose
// Mode names a Private takes the same ways as any other.

// PrivateOwner has a Private. Its methods run on the loop.
type PrivateOwner interface {
	// Push is given a whole push message of a node. It is valid during the call. It stands where it came
	// among the replies of that node.
	Push(message []byte)
	// Stale says that pushes may have been missed, or will not come, for what was asked so far: a connection
	// was lost, or its node has lost slots.
	Stale()
}

// Setup is the state that the connections of a Private are put into, behind whatever was sent before.
type Setup struct {
	// Requests are the commands that do so: for a new connection, or for one that was in the state of the Setup
	// before. redirect is the node's client id of the connection that Redirect asks for, 0 without one. An error
	// in reply to one of them is final.
	Requests func(fresh bool, redirect int64) [][]byte
	// Redirect: each connection has another one beside it, of RESP3, whose pushes are told as its own are, as
	// CLIENT TRACKING REDIRECT wants it.
	Redirect bool
	// Before is the command that stands in front of requests while Private.Precede says so.
	Before []byte
}

// maxReachPause is how long a master that Everywhere wants may be left alone.
const maxReachPause = time.Second

// ErrRefused is why a Private has no connection to a node: the node refused the Setup.
var ErrRefused = errors.New("the node refuses it")

// Private are the connections of one client. All methods run on the loop.
type Private struct {
	pool       *Pool
	mode       Mode           // of all connections; its Own is this
	as         *cluster.Login // how they authenticate; nil: as the proxy does
	owner      PrivateOwner
	setup      Setup
	byAddr     map[string]*privatePipe
	everywhere bool // a connection to each master is kept up
	reaching   bool // soon
	pause      time.Duration
	preceded   bool
	refused    []byte
	ended      bool
	done       func() // of Configure
}

// Private returns a set of connections that is empty so far. Its Mode is m with it in Own.
func (p *Pool) Private(m Mode, owner PrivateOwner) *Private {
	o := &Private{pool: p, mode: m, owner: owner, byAddr: make(map[string]*privatePipe)}
	o.mode.Own = o
	p.privates[o] = struct{}{}
	return o
}

// Mode is that of requests which go over the set.
func (o *Private) Mode() Mode { return o.mode }

// SetMode has all connections speak another protocol, or use another database, and calls done, if not nil,
// once they do. No request may be on its way.
func (o *Private) SetMode(m Mode, done func()) {
	m.Own = o
	o.mode = m
	for _, pp := range o.byAddr {
		pp.turn(m)
	}
	if done != nil {
		o.done = done
		o.settle()
	}
}

// Configure has all connections take over setup, and calls done, if not nil, once those that there are have.
func (o *Private) Configure(setup Setup, done func()) {
	o.setup, o.done, o.refused = setup, done, nil
	for _, pp := range o.byAddr {
		pp.configure()
	}
	o.settle()
}

// settle tells who waits for it that all connections are in their state.
func (o *Private) settle() {
	if o.done == nil {
		return
	}
	for _, pp := range o.byAddr {
		if pp.pending > 0 {
			return
		}
	}
	done := o.done
	o.done = nil
	done()
}

// Refused is the error reply of a node that refused the latest Setup, nil if none did.
func (o *Private) Refused() []byte { return o.refused }

// Precede says whether Setup.Before is to stand in front of the requests that are sent from now on,
// again each time one is sent anew.
func (o *Private) Precede(on bool) { o.preceded = on }

// Before is the command that Precede puts in front of requests.
func (o *Private) Before() []byte { return o.setup.Before }

// Precedes is what Precede said.
func (o *Private) Precedes() bool { return o.preceded }

// Everywhere keeps a connection to each master up from now on, whether or not requests need one.
func (o *Private) Everywhere() {
	o.everywhere = true
	o.reach()
}

// reach makes the connections that Everywhere wants.
func (o *Private) reach() {
	o.reaching = false
	if o.ended || o.pool.closed {
		return
	}
	for _, master := range o.pool.topology.Masters {
		o.at(master.Addr)
	}
}

// reachSoon is reach after a while, which grows until a connection is made.
func (o *Private) reachSoon() {
	if o.everywhere && !o.reaching {
		o.reaching = true
		o.pause = min(max(2*o.pause, redialAfter), maxReachPause)
		o.pool.loop.After(o.pause, o.reach)
	}
}

// End ends the set: each connection is closed as soon as the requests that were sent are answered.
func (o *Private) End() {
	o.ended, o.done = true, nil
	for _, pp := range o.byAddr {
		pp.fade()
	}
	o.forget()
}

// forget lets go of an ended set without connections.
func (o *Private) forget() {
	if o.ended && len(o.byAddr) == 0 {
		delete(o.pool.privates, o)
	}
}

// pipe finds or makes the pipe to addr.
func (o *Private) pipe(addr string) *Pipe { return o.at(addr).pipe }

func (o *Private) at(addr string) *privatePipe {
	pp := o.byAddr[addr]
	if pp == nil {
		pp = &privatePipe{of: o, fading: o.ended}
		pp.pipe = o.pool.newOwn(addr, o.mode, pp)
		pp.pipe.private = pp
		o.byAddr[addr] = pp
		o.pool.privates[o] = struct{}{}
		pp.begin()
	}
	return pp
}

// lend is Pool.Own for a client that has a Private.
func (o *Private) lend(addr string, owner Owner) *Pipe {
	pp := o.at(addr)
	if pp.borrower != nil {
		return o.another(addr, owner)
	}
	pp.borrower = owner
	return pp.pipe
}

// moved has the pipes to nodes that have lost slots closed: what was read over them is not looked after any
// more.
func (o *Private) moved(from map[string]bool) {
	for addr, pp := range o.byAddr {
		if from[addr] {
			pp.fade()
		}
	}
}

// updatePrivates tells the sets that the topology was another one before.
func (p *Pool) updatePrivates(before *cluster.Topology) {
	from := make(map[string]bool)
	for s, node := range before.Slots {
		if now := p.topology.Slots[s]; node != nil && (now == nil || now.Addr != node.Addr) {
			from[node.Addr] = true
		}
	}
	for o := range p.privates {
		o.moved(from)
		if o.everywhere {
			o.reach()
		}
	}
}

// privatePipe is one connection of a Private. It is used until it is lost.
type privatePipe struct {
	of       *Private
	pipe     *Pipe
	tracking *trackingConn
	borrower Owner // has the pipe as by Pool.Own, beside the set; or nil
	pending  int   // replies to what sets it up that are to come, and ids of tracking connections
	asked    bool  // the setup was sent
	served   bool  // it has been in its state
	used     bool  // something was answered since pushes may have been missed
	fading   bool  // it closes when all is answered
	heard    pushText
}

// begin connects, and sets up what is connected.
func (pp *privatePipe) begin() {
	if pp.of.setup.Redirect {
		pp.pending++
		pp.tracking = newTrackingConn(pp, func() {
			pp.pending--
			pp.pipe.front(pp.requests())
			pp.of.pool.admit(pp.pipe)
		})
		return
	}
	pp.send(pp.requests())
	pp.of.pool.admit(pp.pipe)
}

// send sends what sets the connection up.
func (pp *privatePipe) send(reqs [][]byte) {
	for _, req := range reqs {
		pp.pipe.append(call{to: pp, slot: thisNode, raw: true}, req)
	}
}

// requests are those of the Setup, which are going to be sent.
func (pp *privatePipe) requests() [][]byte {
	var id int64
	if pp.of.setup.Redirect {
		id = pp.tracking.pipe.ClientID()
	}
	reqs := pp.of.setup.Requests(!pp.asked, id)
	pp.pending += len(reqs)
	pp.asked = true
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
	if pp.pipe.mode.DB != m.DB && m.special() { // that user may not be allowed SELECT
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

// Receive implements Receiver for the replies to what sets the connection up.
func (pp *privatePipe) Receive(_ uint32, chunk []byte, last bool) {
	if !last {
		return
	}
	pp.pending--
	if isErrorReply(chunk) {
		pp.of.refused = append([]byte(nil), chunk...)
		pp.pipe.hangUp(fmt.Errorf("%w: %s", ErrRefused, trimLine(chunk[1:])))
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
		pp.of.owner.Stale() // from when the connection before was lost until now nobody listened
	}
	pp.served, pp.of.pause = true, 0
	pp.of.settle()
}

func (pp *privatePipe) Fail(uint32, error)  {}
func (pp *privatePipe) Discard(uint32) bool { return true }
func (pp *privatePipe) Detour(uint32)       {}

// Push implements Owner.
func (pp *privatePipe) Push(chunk []byte, last bool) { pp.of.push(&pp.heard, chunk, last) }

// leave takes the connection out of the set: what is sent from now on, perhaps by who hears that it was
// lost, takes a new one.
func (pp *privatePipe) leave() { delete(pp.of.byAddr, pp.pipe.addr) }

// Lost implements Owner.
func (pp *privatePipe) Lost(err error) {
	o := pp.of
	if pp.tracking != nil {
		pp.tracking.end()
	}
	if b := pp.borrower; b != nil {
		pp.borrower = nil
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

// fade closes the connection as soon as all is answered. Until then, and from then on, what was read over it
// may change without a word.
func (pp *privatePipe) fade() {
	if !pp.fading && pp.pipe.calls.len() > 0 {
		pp.stale()
	}
	pp.fading = true
	if pp.pipe.calls.len() > 0 && !pp.idle() || pp.borrower != nil {
		return
	}
	pp.pipe.close(errRetired)
}

// stale says that pushes may have been missed, unless there was nothing that they could be about.
func (pp *privatePipe) stale() {
	if !pp.of.ended && pp.served && (pp.used || pp.of.everywhere) {
		pp.used = false
		pp.of.owner.Stale()
	}
}

// idle says that nothing waits for the connection to be made but what sets it up.
func (pp *privatePipe) idle() bool {
	setup := 1 + pp.pending // and CLIENT ID
	if pp.tracking != nil && !pp.tracking.ready {
		setup--
	}
	return pp.pipe.conn == nil && pp.pipe.calls.len() <= setup
}

// giveBack ends the use by a borrower. Replies that it still waits for would meet the next one.
func (pp *privatePipe) giveBack() {
	calls := &pp.pipe.calls
	for i := range calls.len() {
		if c := calls.at(i); c.raw && c.to != nil && c.to != Receiver(pp) {
			pp.pipe.End()
			return
		}
	}
	pp.borrower = nil
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

// push passes on a push message when it is whole. Of one that is too long is only told that there was one.
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

func isErrorReply(reply []byte) bool { return reply[0] == '-' || reply[0] == '!' }

// trimLine is an error reply without the end of its line.
func trimLine(b []byte) []byte {
	for len(b) > 0 && (b[len(b)-1] == '\n' || b[len(b)-1] == '\r') {
		b = b[:len(b)-1]
	}
	return b
}
