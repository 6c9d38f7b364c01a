// Package transaction is MULTI, EXEC, DISCARD, WATCH and UNWATCH. A transaction has a connection to one node
// that nobody else uses, and notes what is queued there, so that it can be queued at another:
//
//	MULTI             nothing is sent: the first key decides the node
//	SET, GET ...  --> dispatch --> log --> conn: MULTI, SET, GET ... --> QUEUED
//	EXEC          --> take (a step) --> EXEC --> the reply, as it comes
//	                      \
//	                       +--> MOVED, a lost connection: another conn is sent the log again
//
// So much as possible is left to the node: what it does not queue is refused in its own words. What the proxy
// must do itself (Queued.Here), or every master (Queued.Everywhere), is noted too, and Proxy.Assemble does it
// behind EXEC.
//
// Before EXEC is written nothing has run, so all of it may be sent again, unless WATCH is in force: that ends
// with the connection. Then EXEC says Null, as if a watched key had changed, which may be so. An EXEC that
// may have run is never sent again: its client is told that nobody knows.
//
// Begin reading at client.go (what commands call), queue.go (what happens to a queued command) and conn.go;
// replay.go is what happens when a connection is of no use.
package transaction

import (
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/cluster/retry"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
)

// transaction is what a client has from WATCH or MULTI to EXEC: a connection to the node of its
// keys, and the commands that were queued there, so that they can be queued at another.
//
// It lives on the loop of its client. Before EXEC is written nothing has run, so all of it may
// be sent again, unless WATCH is in force: that ends with the connection it was sent over. Then
// EXEC says Null, as if a watched key had changed, which may be so.
type transaction struct {
	of    *Client
	h     Host
	slot  int  // of its keys; AnySlot until the first one, and always while there is one master
	multi bool // between MULTI and EXEC
	conn  *conn
	step  step // what later commands wait for

	log        []Queued // since MULTI
	bytes      int      // of log
	unanswered int      // in log
	shas       [][]byte // of the scripts that the queued commands need
	unread     bool     // EXEC's reply is taken apart: see assemble
	writes     bool     // a queued command may write
	selects    bool     // a queued command leaves the connection in another mode
	logsIn     bool     // AUTH is queued: no node runs what comes behind it
	slowReset  bool     // SLOWLOG RESET is queued at the node, and concerns the proxy's own log too

	refused  bool     // the proxy has refused a command: EXEC runs nothing
	rejected bool     // a node has
	watched  bool     // WATCH is in force on conn
	caching  bool     // CLIENT CACHING stands before MULTI
	guard    [][]byte // the keys of WATCH, if conn leads to a node that imports their slot
	outcome  outcome  // of EXEC, if it is known before
	unsure   []byte   // what EXEC says instead of EXECABORT, because something may have run
	over     bool

	deadline time.Time // for what the client waits for; zero: it has not met trouble
	try      retry.Tries
	resting  bool // until the next attempt
}

// Host is a session as its transactions see it, beside what all features see.
type Host interface {
	client.Host
	pipe.Receiver // answers a command with the node's reply as it comes
	// Reply answers the current command with what the proxy has made.
	Reply(reply []byte)
	// Expect has then make the answer of the reply to the current command.
	Expect(then func(reply []byte) []byte)
	// Feed stops reading the client when the pipe that took its request is full.
	Feed(p *pipe.Pipe)
	CountMemory()
}

// Proxy is what transactions need of the proxy.
type Proxy interface {
	Server() commands.Server
	Table() *commands.Table
	// CommandLimit is how many bytes a transaction may have.
	CommandLimit() int
	// ScriptLoaded counts a script that a node had lost.
	ScriptLoaded()
	// SlotOf is the slot of the keys of a command. commands.ErrAskKeys: only a node can say it.
	SlotOf(cmd *commands.Command, args [][]byte) (int, error)
	// FindSlot has a node say it. ask sends it a request, and has its reply come to then.
	FindSlot(args [][]byte, raw []byte, ask func(req []byte, then func([]byte) []byte),
		found func(slot int, err error) []byte)
	// Run has the current command act by itself, if its user may; Act asks nobody.
	Run(cmd *commands.Command, args [][]byte, raw []byte)
	Act(cmd *commands.Command, args [][]byte, raw []byte)
	// Judge asks whether the client's user may have the command, and has goOn go on then.
	Judge(cmd *commands.Command, args [][]byte, raw []byte,
		goOn func(cmd *commands.Command, args [][]byte, raw []byte))
	// Assemble makes the answer to EXEC when there is more to it than the node's reply.
	Assemble(e Executed) []byte
}

// Executed is an EXEC that a node has run, of whose reply the answer is to be made.
type Executed struct {
	Tag     uint32 // of EXEC
	Reply   []byte
	Log     []Queued
	Guarded bool   // the first element of the reply is nobody's
	Node    string // address
	Slot    int    // of the keys, or AnySlot
}

// shared is mode over connections that other clients use too: among those of the client's own is the one that
// queues what comes.
func shared(mode pipe.Mode) pipe.Mode {
	mode.Own = nil
	return mode
}

// Queued is one command between MULTI and EXEC.
type Queued struct {
	tag      uint32
	Raw      []byte
	Here     *commands.Command // nil, or the proxy runs it by itself
	DB       int               // of SELECT, or -1
	answered bool              // the client has the reply to it
	Rejected bool              // that was not QUEUED
	probe    bool              // it is never queued, and does no harm: MULTI, WATCH

	Everywhere *commands.Command // nil, or the other masters run it when the node has
	Reply      []byte            // everywhere: of the node
	Publishes  bool              // PUBLISH or SPUBLISH
	At         int               // of its reply in EXEC's, where that is counted later
}

// step is WATCH, UNWATCH, DISCARD or EXEC on its way. While there is one the session reads no
// further command.
type step struct {
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
	abortStep // EXEC of a transaction of which the proxy has refused a part: DISCARD to the node
	execStep
)

// outcome is what EXEC is going to say.
type outcome uint8

const (
	undecided outcome = iota
	aborted           // EXECABORT
	voided            // Null
)

var (
	replyOK      = []byte("+OK\r\n")
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
	askingCommand  = resp.AppendCommandStrings(nil, "ASKING")
)

// end ends the transaction; its connection may be used again if it is as it was.
func (t *transaction) end() {
	t.forget()
	t.conn.release()
}

// forget has the client out of MULTI and WATCH.
func (t *transaction) forget() {
	t.over = true
	t.of.open = nil
	t.h.About().Transaction = commands.Transaction{}
}

var stepNone step

// watch notes that WATCH is in force. A node that imports a slot runs EXEC if it has all of its keys, or if
// there is only one of them, which may be at the other node all the same; so EXEC gets those of
// WATCH too.
func (t *transaction) watch(raw []byte) {
	t.watched = true
	if t.conn.asking {
		if args, _, err := resp.Split(raw, nil); err == nil {
			t.guard = append(t.guard, args[1:]...)
		}
	}
}
