// Package transaction is MULTI, EXEC, DISCARD, WATCH and UNWATCH. A transaction has a connection to one node
// that nobody else uses. It logs what is queued there, so that the same can be queued at another node:
//
//	MULTI             nothing is sent: the first key decides the node
//	SET, GET ...  --> Dispatch --> log --> conn: MULTI, SET, GET ... --> QUEUED
//	EXEC          --> takeStep --> EXEC --> the reply, as it comes
//	                      \
//	                       +--> MOVED, a lost connection: another conn is sent the log again
//
// As much as possible is left to the node, so that what it refuses is refused in its own words. Commands that
// the proxy must run itself (QueuedCommand.Here), or that every master must run (QueuedCommand.Everywhere),
// are logged too; Proxy.Assemble runs them after EXEC.
//
// Before EXEC is written nothing has run, so everything may be sent again, unless WATCH is in force: that
// ends with the connection. Then EXEC answers Null, as if a watched key had changed, which may be the case.
// An EXEC that may have run is never sent again: the client is told that the outcome is unknown.
//
// Begin with client.go (what commands call), queue.go (what happens to a queued command) and conn.go;
// replay.go replaces a connection that is of no use.
package transaction

import (
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
)

// transaction is what a client has from WATCH or MULTI to EXEC: a connection to the node of its keys, and the
// log of the commands queued there. It belongs to the loop of its client. See the package comment. It ends
// with the answer to EXEC or DISCARD, with UNWATCH, with a WATCH that failed, and with its client.
type transaction struct {
	of *Client
	h  Host
	// With one master all slots are its own, so the keys say nothing.
	slot  int  // of its keys; AnySlot before the first key, and always with one master
	multi bool // between MULTI and EXEC
	// nil before anything is sent, while it rests, and once the outcome is decided.
	conn *txConn
	step txStep // the command that later ones wait for

	queued

	// An error in the queue spoils the whole, as at Redis. The node of conn knows of rejected, and not of
	// refused.
	refused  bool // the proxy has refused a command: EXEC runs nothing
	rejected bool // a node has refused a command: EXEC runs nothing
	// A connection with WATCH cannot be replaced: another node, or another connection, does not know whether
	// a key has changed since.
	watched  bool        // WATCH is in force on conn
	watching int         // keys of the WATCH on its way, or of the last one
	caching  bool        // CLIENT CACHING came before MULTI
	guard    [][]byte    // the keys of WATCH, if conn leads to a node that imports their slot
	outcome  execOutcome // of EXEC, if it is known beforehand
	unsure   []byte      // what EXEC answers instead of EXECABORT, because something may have run
	over     bool

	trying  trying
	resting bool // it pauses until the next attempt
}

// queued is what was queued. It is kept until EXEC has run, since all of it may have to be queued anew.
type queued struct {
	log        []QueuedCommand // commands since MULTI
	bytes      int             // of log
	unanswered int             // in log
	db         int             // the database behind what is queued
	shas       [][]byte        // of the scripts that the queued commands need
	unread     bool            // EXEC's reply is collected and taken apart: see assemble
	writes     bool            // a queued command may write
	selects    bool            // a queued command leaves the connection in another mode
	logsIn     bool            // AUTH is queued: no node runs what comes behind it
}

// Host is a session as its transactions see it, beside what all features see.
type Host interface {
	client.Host
	pipe.Receiver // takes the node's reply as the answer, as it arrives
	// Reply answers the current command with a reply that the proxy made.
	Reply(reply []byte)
	// Feed stops reading the client if the pipe that took its request is full.
	Feed(p *pipe.Pipe)
	CountMemory()
}

// Proxy is what transactions need of the proxy. All of it runs on the loop of the client.
type Proxy interface {
	Server() commands.Server
	Table() *commands.Table
	// CommandLimit is how many bytes a transaction may take.
	CommandLimit() int
	// ScriptLoaded counts a script that a node had lost.
	ScriptLoaded()
	// SlotOf is the slot of a command's keys. commands.ErrAskKeys: only a node can tell.
	SlotOf(cmd *commands.Command, args [][]byte) (int, error)
	// FindSlot asks a node for it. ask sends it a request and passes the reply to then.
	FindSlot(args [][]byte, raw []byte, ask func(req []byte, then func([]byte) []byte),
		found func(slot int, err error) []byte)
	// Run runs the current command at the proxy if its user may; Act does so without asking.
	Run(cmd *commands.Command, args [][]byte, raw []byte)
	Act(cmd *commands.Command, args [][]byte, raw []byte)
	// Judge calls goOn if the client's user may run the command, at once if it is no user of the upstream.
	Judge(cmd *commands.Command, args [][]byte, raw []byte, goOn client.GoOn)
	// Assemble makes the answer to EXEC when more belongs to it than the node's reply.
	Assemble(e Executed) []byte
}

// Executed is an EXEC that a node has run, and from whose reply the answer is made. The slices belong to the
// receiver: the transaction is over as soon as it has the reply.
type Executed struct {
	Tag     uint32 // of EXEC
	Reply   []byte
	Log     []QueuedCommand
	Guarded bool   // the first element of the reply is no command of the client's
	Node    string // address
	Slot    int    // of the keys, or AnySlot
}

// sharedMode is mode for connections that other clients use too. The connections of a client's own include
// the one that queues commands.
func sharedMode(mode pipe.Mode) pipe.Mode {
	mode.Own = nil
	return mode
}

// QueuedCommand is one command between MULTI and EXEC. Its Raw is lasting memory: a goroutine may read it.
type QueuedCommand struct {
	tag      uint32
	Raw      []byte
	Here     *commands.Command // run by the proxy itself; or nil
	DB       int               // that SELECT chooses, or -1
	answered bool              // the client has the reply
	Rejected bool              // the reply, if it was not QUEUED
	probe    bool              // never queued and harmless: MULTI, WATCH

	Everywhere *commands.Command // run by the other masters after the node; or nil
	Reply      []byte            // of the node, for Everywhere
	Publishes  bool              // PUBLISH or SPUBLISH
	At         int               // its place in EXEC's reply, if that is corrected later
}

// txStep is WATCH, UNWATCH, DISCARD or EXEC on its way. Meanwhile the session reads no further command. The
// zero value: none.
type txStep struct {
	kind stepKind
	tag  uint32
	raw  []byte
}

type stepKind uint8

const (
	noStep stepKind = iota
	watchStep
	unwatchStep
	discardStep
	abortStep // EXEC of a transaction that the proxy has refused: the node gets DISCARD
	execStep
)

// execOutcome is what EXEC will answer. Once it is not undecided nothing is sent to a node any more; what is
// queued is answered QUEUED.
type execOutcome uint8

const (
	undecided execOutcome = iota
	aborted               // EXECABORT
	voided                // Null
)

var (
	// What the proxy says in place of a node, in the words of Redis (multi.c).
	replyQueued  = []byte("+QUEUED\r\n")
	execAborted  = []byte("-EXECABORT Transaction discarded because of previous errors.\r\n")
	nestedMulti  = []byte("-ERR MULTI calls can not be nested\r\n")
	watchInMulti = []byte("-ERR WATCH inside MULTI is not allowed\r\n")
	noExec       = []byte("-ERR EXEC without MULTI\r\n")
	noDiscard    = []byte("-ERR DISCARD without MULTI\r\n")
	crossSlot    = commands.ErrorReply(commands.ErrCrossSlot)

	multiCommand   = resp.AppendCommandStrings(nil, "MULTI")
	discardCommand = resp.AppendCommandStrings(nil, "DISCARD")
	unwatchCommand = resp.AppendCommandStrings(nil, "UNWATCH")
)

// endTransaction ends the transaction. Its connection may be used again if it is in its original state. It
// comes before the answer is given, with which the client may begin the next one.
func (t *transaction) endTransaction() {
	t.forgetTransaction()
	t.conn.releaseConn()
}

// forgetTransaction takes the client out of MULTI and WATCH. What is still under way finds that it is over.
func (t *transaction) forgetTransaction() {
	t.over = true
	t.of.open = nil
	t.h.About().Transaction = commands.Transaction{}
}

// noteWatch notes that WATCH is in force. A node that imports a slot runs EXEC if it has all keys of EXEC, or
// if EXEC has only one, although the watched keys may still be at the other node. So the keys of WATCH are
// added to EXEC's. raw is the WATCH that the node has just taken.
func (t *transaction) noteWatch(raw []byte) {
	t.watched = true
	t.h.About().Transaction.Watch += t.watching
	if !t.conn.asking {
		return // there may be a million keys, and nobody needs them
	}
	if args, _, err := resp.Split(raw, nil); err == nil {
		t.guard = append(t.guard, args[1:]...)
	}
}
