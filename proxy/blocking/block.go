package blocking

import (
	"bytes"
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/cluster/retry"
	"lockproxy/commands"
	"lockproxy/proxy/client"
)

// block is a command that blocks, on its way to the master of its slot or waiting there:
//
//	its turn --> connectNode (or wait for a place) --> sendCommand --> passReply: to the client as it came
//	                 ^                                       |
//	                 +------------ pause <-- redirect, fail-over, no node
//
// A request that had no effect is sent again with what is left of its timeout. A request whose connection was
// lost may have had an effect: the client is told so, unless the command only reads.
type block struct {
	client.Passive
	blockedCall
	req      []byte // as the client sent it
	readOnly bool
	caching  bool // CLIENT CACHING came before it
	slot     int
	timeout  commands.Timeout

	// start does not change with another attempt: the timeout of the client runs from there. asked does.
	start   time.Time // when its turn came
	asked   time.Time // when it was last sent to a node
	trouble time.Time // no node has taken it since then; zero: all is well
	try     retry.Tries
	looked  bool // a node has looked for what the client waits for
	passed  bool // the client has part of the reply

	// It is part of the tags, so a reply to an earlier attempt is known by its tag. It rises when an attempt
	// begins and when one is given up.
	attempt uint32     // number of the attempt, so that nothing of an earlier one is heard
	node    string     // where a redirect leads; "": to the master of the slot
	asking  bool       // that redirect was ASK
	own     *ownedConn // nil: none at present
	drained bool       // the proxy is leaving
	overdue bool       // the timeout is over, and the node has not answered
}

// The requests of one attempt, in the lower bits of their tags.
const (
	// A new connection is asked PING first: before it has answered it has no ClientID, without which CLIENT
	// UNBLOCK cannot reach the command.
	greeting = iota // opening the connection
	aheadTag        // ASKING, or CLIENT CACHING
	commandTag
	tagBits = 2
)

const (
	// atOnce is how long a node may take to answer a command that it does not block.
	atOnce = 100 * time.Millisecond
	// freshFor is how long a command that asks only for what comes after it may be on its way to a node. Up
	// to that its client cannot tell it from a slow network; after that the client would miss something.
	freshFor = 2 * time.Second
	// settled is how long a command must have been with a node for its next trouble to count as new.
	settled = time.Second
	// unblockTries is how often a node is told to unblock the command, with unblockPause in between.
	unblockTries = 3
	unblockPause = 10 * time.Millisecond
	// endWithin is how long a node may take to end a command whose client, or whose proxy, leaves.
	endWithin = time.Second
)

// Block makes the client wait in a command that blocks on the master of slot. It does not block the loop. The
// answer comes when the node has one, and until then the client reads no further command.
func (k *Waiter) Block(cmd *commands.Command, slot int, raw []byte, timeout commands.Timeout) {
	b := &block{
		req:      client.Lasting(raw),
		readOnly: cmd.Flags&commands.ReadOnly != 0,
		slot:     slot,
		timeout:  timeout,
	}
	b.bytes = len(raw)
	b.caching = k.own.Precedes()
	k.startWait(&b.blockedCall, b)
}

func (b *block) now() time.Time { return b.h.Loop().Now() }

// beginWait implements blockingCommand.
func (b *block) beginWait() {
	b.start = b.now()
	if b.h.HalfClosed() {
		b.halfClosed()
	}
	b.connectNode()
}

// connectNode gets a connection to the node that is to be asked. If there is no node, or it is silent, the
// attempt ends here and retryLater decides what becomes of the command.
func (b *block) connectNode() {
	pool := b.h.Pool()
	node := b.node
	if node == "" {
		node = pool.MasterOf(b.slot)
	}
	if node == "" {
		pool.Refresh()
		b.noteTrouble()
		b.retryLater(retry.Unserved, nil)
		return
	}
	if why := pool.Silent(node); why != nil { // what it takes from a list may be lost
		b.noteTrouble()
		b.retryLater(nil, why)
		return
	}
	b.attempt++
	b.own = &ownedConn{Pipe: pool.Own(node, b.h.Mode(), b)}
	if b.own.ClientID() != 0 {
		b.sendCommand()
		return
	}
	b.own.Request(client.Ping, b, b.tagOf(greeting))
}

func (b *block) tagOf(request uint32) uint32 { return b.attempt<<tagBits | request }

// sendCommand sends the command. From here on the command may have an effect, unless the reply says that it
// had none.
func (b *block) sendCommand() {
	now := b.now()
	if b.timeout.Fresh && now.Sub(b.start) > freshFor {
		b.letGo(true)
		b.answerCall(missedReply)
		return
	}
	b.asked, b.overdue = now, false
	own := b.own
	// The node may be silent on this connection for as long as the timeout: that is no sign that it is lost.
	own.SetPatient(true)
	if !b.readOnly {
		b.of.writes.Add(own.Pipe)
	}
	b.setSent(true)
	switch {
	case b.asking:
		own.Request(client.Asking, b, b.tagOf(aheadTag))
	case b.caching && b.of.own.Set() != nil:
		own.Request(b.of.own.Set().Before(), b, b.tagOf(aheadTag))
	}
	own.Request(b.rewrittenRequest(now), b, b.tagOf(commandTag))
	if b.h.HalfClosed() {
		pipe.EndRequests(own.Pipe)
	}
}

// rewrittenRequest is the command with what is left of its timeout. The first attempt is sent as the client
// wrote it, unless it took long to get a connection: most are, and are not written anew.
func (b *block) rewrittenRequest(now time.Time) []byte {
	waited := now.Sub(b.start)
	if b.timeout.Limit == 0 || b.attempt == 1 && waited < atOnce {
		return b.req
	}
	return b.timeout.Rewrite(b.req, b.timeout.Limit-waited)
}

// Receive implements pipe.Receiver.
func (b *block) Receive(tag uint32, chunk []byte, last bool) {
	switch {
	case b.over || tag>>tagBits != b.attempt || b.own == nil:
	case tag == b.tagOf(greeting) && last:
		b.sendCommand()
	case tag == b.tagOf(commandTag):
		b.passReply(chunk, last)
	}
}

// Most implements pipe.Longer.
func (b *block) Most(uint32) int { return pipe.AnyLength }

// passReply passes on what the node says, or makes another attempt. A reply is passed on piece by piece. Once
// the client has a piece there is no other attempt.
func (b *block) passReply(chunk []byte, last bool) {
	if !b.passed && chunk[0] == '-' && b.repeatCommand(chunk) {
		return
	}
	b.passed = true
	if !last {
		b.h.Receive(b.tag, chunk, false)
		return
	}
	unheard := b.asking || !b.own.InSet() // the node need not keep the slot, or its pushes go nowhere
	b.letGo(true)
	if b.drained && bytes.HasPrefix(chunk, []byte("-UNBLOCKED ")) {
		chunk = commands.ErrorReply(commands.ErrDraining)
	}
	b.endWait()
	b.h.Receive(b.tag, chunk, true)
	if unheard && b.readOnly && !b.h.About().Tracking.BCast {
		b.of.tracker.Unheard()
	}
	b.resumeReading()
}

// repeatCommand sends the command again after an error which means that it had no effect. It says whether it
// will be sent again, or was answered here; if not, the error is the client's. For a command that asks only
// for what comes after it, another node or a later time would mean a gap: it is told so instead.
func (b *block) repeatCommand(reply []byte) bool {
	to, again := b.own.Retryable(reply)
	interrupted := pipe.Interrupted(reply)
	if !again && !interrupted {
		return false
	}
	if interrupted {
		b.h.Pool().Refresh()
	}
	b.looked = b.looked || interrupted || b.now().Sub(b.asked) > atOnce
	b.letGo(!interrupted)
	if b.looked && b.timeout.Fresh {
		b.answerCall(missedReply)
		return true
	}
	b.noteTrouble()
	b.setSent(false)
	if to.Addr == "" || b.drained || !b.try.Hop() {
		b.retryLater(reply, nil)
		return true
	}
	b.node, b.asking = to.Addr, to.Asking
	b.connectNode()
	return true
}

// letGo ends the use of the connection. sound says that it can be used again. A connection that is not sound
// ends, and with it what the node may still do for the command.
func (b *block) letGo(sound bool) {
	own := b.own
	b.own = nil
	switch {
	case own == nil:
	case sound:
		own.giveBack()
	default:
		own.End()
	}
}

// Party implements owned.Counted.
func (b *block) Party() owned.Party { return client.PartyOf(b.h.About()) }
