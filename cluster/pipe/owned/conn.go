// Package owned has the connections that one client has to itself, for what those cannot carry that all
// share: transactions, commands that block, tracking, long requests and replies, users of the upstream.
//
//	Places.Lend   a connection for a while, until Release (another owner may have it), or End
//	Places.NewSet a set of them, one a node, each made when first needed (set.go)
//
// A loop has a fixed number of places for them, which clients share (places.go). What goes over a connection,
// and what becomes of that, is a matter of its Link. All of it runs on the loop.
//
// Begin reading at Places.Lend.
package owned

import (
	"bytes"
	"cmp"
	"errors"
	"strconv"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

// Owner is the owner of a connection. Its methods run on the loop.
type Owner interface {
	// Push is given a push message of the node as it came, in one or more
	// chunks; last marks the end of it. chunk is valid during the call.
	Push(chunk []byte, last bool)
	// Lost says that the connection has ended, or could not be made, and why. The requests on their way have
	// failed before. Lost is not called after Release and End.
	Lost(err error)
}

// Whole is an Owner between whose requests nothing may come now, as in MULTI.
type Whole interface{ Whole() bool }

// Link carries the requests of a Conn.
type Link interface {
	// Dial connects in the background. Then Connected is called, or Failed.
	Dial()
	// HangUp ends the connection, if it is there: Failed follows. Otherwise it ends the dial, if one is under
	// way.
	HangUp(why error)
	// Abandon has all requests fail that are on their way.
	Abandon(err error)
	// Up says that the connection is there. Fit, that the next owner may have it: it owes nothing, and its
	// node is where it was.
	Up() bool
	Fit() bool
	// Owed is how many replies are to come. Owes says that one of them is for a client, or for the owner.
	Owed() int
	Owes(owner bool) bool
	// Ask sends a question about the connection, of which its owner does not know; then may be nil. Front
	// sends questions in front of what waits for the connection.
	Ask(req []byte, then func(reply []byte, err error))
	Front(reqs [][]byte, then func(reply []byte, err error))
	// Turn notes that the connection is in another mode from now on.
	Turn(m cluster.Mode)
	// Listen goes on reading, or stops.
	Listen(on bool)
	// SilenceBegins notes that the node is silent since now.
	SilenceBegins()
}

// Errors of connections.
var (
	// ErrReleased is why a connection ends that nobody needs any more.
	ErrReleased = errors.New("not needed any more")
	// ErrRetired is why one ends whose node has left the topology, or lost slots.
	ErrRetired = errors.New("the node has left the topology")
	// ErrNoPlace is why no connection could be had.
	ErrNoPlace = errors.New("all connections that are not shared are in use (upstream-own-connections)")
	// ErrRefused is why a Set has no connection to a node: the node refused the Setup.
	ErrRefused = errors.New("the node refuses it")
)

// Conn is a connection that one client has to itself. It connects once. A nil *Conn is a connection that
// clients share: it is in no set, and never dead.
type Conn struct {
	link   Link
	key    Key
	places *Places
	owner  Owner    // nil: nobody uses it now but the set that it is of, if any
	of     *setConn // of a set, or nil
	set    *Set     // that it is of, or beside; or nil

	party   Party // that it is counted for
	counted bool

	dead     error         // why it is of no use any more; nil: it may be used, connected or not
	ended    bool          // its owner has no more requests
	patient  bool          // see SetPatient
	silence  time.Duration // how long its node may owe a reply; 0: as long as usual
	proven   bool          // see SetProven
	clientID int64
	// BUSY, if it answered CLIENT ID with that: it is asked again when the connection is lent
	unnumbered []byte
	idleSince  time.Time // only while nobody has it
}

// Link is what carries its requests.
func (c *Conn) Link() Link { return c.link }

// Special says that it belongs to another user than the proxy.
func (c *Conn) Special() bool { return c != nil && c.key.Mode.As != nil }

// InSet says that it is of a Set, whose owner gets its pushes.
func (c *Conn) InSet() bool { return c != nil && c.of != nil }

// Set is the set that it is of, or that another connection to the same node is of; or nil.
func (c *Conn) Set() *Set { return c.set }

// ClientID is the node's id of the connection; 0 if it is not known, as before the first reply.
func (c *Conn) ClientID() int64 { return c.clientID }

// SetClientID notes what the node says in another way than CLIENT ID.
func (c *Conn) SetClientID(id int64) { c.clientID = id }

// Dead is why it is of no use any more, or nil.
func (c *Conn) Dead() error {
	if c == nil {
		return nil
	}
	return c.dead
}

// Ended says that EndRequests was called.
func (c *Conn) Ended() bool { return c.ended }

// Proven says that SetProven was called: a property of the connection, on whose meaning its owners agree,
// need not be checked again.
func (c *Conn) Proven() bool { return c.proven }

// SetProven notes that, for this owner and later ones.
func (c *Conn) SetProven() { c.proven = true }

// SetPatient says that the node may take as long as it likes for a reply, because it was sent a command that
// blocks.
func (c *Conn) SetPatient(patient bool) {
	c.patient = patient
	c.link.SilenceBegins()
}

// SetSilence says how long the node may owe a reply.
func (c *Conn) SetSilence(d time.Duration) { c.silence = d }

// Patient is what SetPatient has said: the silence of the node proves nothing, and is not late.
func (c *Conn) Patient() bool { return c != nil && c.patient }

// Patience is how long the node may owe a reply if that is not so; usual if nobody has said anything else.
func (c *Conn) Patience(usual time.Duration) time.Duration { return cmp.Or(c.silence, usual) }

// Paused says that nothing is read from it, because its client takes nothing.
func (c *Conn) Paused() bool { return c.InSet() && c.of.of.paused }

// Whole says that nothing may be sent between the requests of the owner.
func (c *Conn) Whole() bool {
	w, ok := c.owner.(Whole)
	return ok && w.Whole()
}

// Idle says that nobody has it for how long; listens, that its owner waits for pushes.
func (c *Conn) Idle(now time.Time) (idle time.Duration, listens bool) {
	if c.owner == nil && c.of == nil {
		return now.Sub(c.idleSince), false
	}
	_, tracks := c.owner.(*trackingConn)
	return 0, tracks || c.owner == nil
}

// Connected is called when the connection is there.
func (c *Conn) Connected() {
	if c.Paused() {
		c.of.applyPause()
	}
}

// Push is given a push message of the node.
func (c *Conn) Push(chunk []byte, last bool) {
	switch {
	case c.of != nil:
		c.of.of.passPush(&c.of.heard, chunk, last)
	case c.owner != nil:
		c.owner.Push(chunk, last)
	}
}

// Answered is called behind each reply. asked says that somebody waited for it, astray that the request was
// sent where ASK has led.
func (c *Conn) Answered(asked, astray bool) {
	if c.InSet() {
		c.of.noteAnswered(asked, astray)
	}
}

// Fade closes a connection of a set as soon as everything is answered.
func (c *Conn) Fade() {
	if c.InSet() {
		c.of.fade()
	}
}

// Release ends the use of a connection that is in its initial state. If a reply is still to come, or there
// can be no more requests, it is closed.
func (c *Conn) Release() {
	switch {
	case c.ended:
		c.End()
	case c.of != nil:
		c.of.giveBack()
	case c.Special() || !c.link.Fit() || !c.places.keepIdle(c):
		c.End()
	}
}

// End ends the use of the connection and closes it. Requests on their way fail, with ErrUnknownOutcome if
// they were written.
func (c *Conn) End() {
	c.owner = nil
	c.Close(ErrReleased)
}

// SetEnded notes that there will be no more requests.
func (c *Conn) SetEnded() { c.ended = true }

// Close ends the connection, whether or not it is there yet.
func (c *Conn) Close(why error) {
	if c.dead != nil {
		return
	}
	up := c.link.Up()
	c.link.HangUp(why)
	if !up {
		c.places.leaveQueue(c)
		c.Failed(why)
	}
}

// Failed is called when the connection has ended, or could not be made. The order matters: it leaves its set
// and its place first, so that whoever hears of it gets a new one; then its requests fail; then its owner and
// its set are told.
func (c *Conn) Failed(err error) {
	if c.dead != nil {
		return
	}
	c.dead = err
	if c.of != nil {
		c.of.leaveSet()
	}
	c.places.removeConn(c)
	c.link.Abandon(err)
	c.places.countConns()
	owner := c.owner
	if c.of != nil {
		c.owner = nil
		if beside := c.of.tracking; beside != nil {
			beside.conn.End()
		}
	}
	if owner != nil {
		owner.Lost(err)
	}
	if c.of != nil {
		c.of.noteLost()
	}
}

var (
	// askClientID is the first request of a connection, as the proxy's user.
	askClientID = resp.AppendCommandStrings(nil, "CLIENT", "ID")
	askPing     = resp.AppendCommandStrings(nil, "PING")
)

// numbered takes the answer to CLIENT ID. A node that knows no ids, Redis before 5.0, leaves it 0. One that
// runs a script tells it later.
func (c *Conn) numbered(reply []byte, _ error) {
	c.unnumbered = nil
	if bytes.HasPrefix(reply, []byte("-BUSY ")) {
		c.unnumbered = reply
	} else if v, _, err := resp.Parse(reply); err == nil && v.Kind == ':' {
		c.clientID = v.Int
	}
}

// turnMode puts the connection into another mode. then gets the answers, of which there will be so many. What
// is sent from now on is answered in that mode.
func (c *Conn) turnMode(m cluster.Mode, then func([]byte, error)) int {
	var reqs [][]byte
	if c.key.Mode.Proto != m.Proto {
		reqs = append(reqs, resp.AppendCommandStrings(nil, "HELLO", strconv.Itoa(m.Proto)))
	}
	if c.key.Mode.DB != m.DB {
		reqs = append(reqs, resp.AppendCommandStrings(nil, "SELECT", strconv.Itoa(m.DB)))
	}
	c.key.Mode = m
	c.link.Turn(m)
	for _, req := range reqs {
		c.link.Ask(req, then)
	}
	return len(reqs)
}
