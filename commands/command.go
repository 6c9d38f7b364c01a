// Package commands knows what each command means: where it goes, which keys it has, what MULTI, CLIENT PAUSE,
// MONITOR and the rules of users make of it. What single commands do is in packages beside each other, which
// stand on this one:
//
//	              routes        all rules of routing
//	    /    /      |     \     \
//	connection server scan script pubsub clusterview   lock
//	    \    \      |     /     /                      /
//	             commands       Command, Table, Call, Actions
//	              /    \
//	       holds  merge  cut
//
// It stands below proxy, which owns the connections of clients, and above cluster and redlock, which reach
// Redis.
//
// A command is one value, a Command, and nothing about it is known by its name anywhere else. It comes of the
// upstream's reply to COMMAND (describe.go), of a Row that says what is special about it, or it is a verb of
// lockproxy's own (package lock). A Table holds all of them; there is a new one when the upstream has others.
//
// The path of a command:
//
//	args --> Table.Resolve --> *Command --> Route
//	                                         ByKeys    sent to the master of its slot, Command.Slot
//	                                         Split     Command.CutBySlot; the replies: Command.Merge
//	                                         AllNodes  sent to every master; the replies: Command.Merge
//	                                         Local     Command.Run, with a Call
//
// Run is called on the loop of the client and must not block. It answers through the Actions of its Call, at
// once or when a node has answered:
//
//	func clientID(c *commands.Call) { c.Reply(redcon.AppendInt(nil, c.Client.ID)) }
//
//	c.Ask(pipe.ToSlot(slot), request, commands.Asking{}, func(reply []byte) []byte { return reply })
//
// What has to wait is a Task, on a goroutine of its own.
package commands

import "lockproxy/commands/merge"

// Flags are the properties of a command that matter to a proxy, taken from the
// flags in the upstream's COMMAND reply.
type Flags uint32

// The flags.
const (
	ReadOnly      Flags = 1 << iota // may be sent again after a lost reply
	Write                           // changes data
	Blocking                        // may block its connection
	NoAuth                          // allowed before AUTH
	MovableKeys                     // COMMAND GETKEYS must be asked when the key specs are incomplete
	PubSub                          // belongs to subscriptions
	Admin                           // administrative
	LockVerb                        // one of lockproxy's own verbs
	Alone                           // begins when all earlier commands of its client are answered
	NoMulti                         // not allowed between MULTI and EXEC
	SkipMonitor                     // not shown by MONITOR in the usual way
	AtMaster                        // a replica is of no use for it
	Fanned                          // goes to all masters though its Route is Local
	Scripted                        // runs a script or a function, which may take long
	Stepwise                        // asks nodes one after the other: what follows waits until it is answered
	InSubscriber                    // allowed to a client of RESP2 that listens to something
	EndsPause                       // CLIENT PAUSE does not hold it back
	Judged                          // Local, but a node gets it as it stands, and checks its user's rights
	Replicates                      // may reach the replicas though it is no Write
	RunsQueue                       // EXEC: what is queued runs
	EndsMulti                       // EXEC and DISCARD
	LogsIn                          // is an attempt to authenticate, if it has a password
	SetsProtocol                    // HELLO
	Bulky                           // if long, it is worked on beside the loop, so its length is not limited
	BesideCaching                   // CLIENT CACHING in front of it holds for the command behind it
	NoScript                        // no script may run it
	Lists                           // what it gathers from nodes is data, and not a number or a word each
	OfModule                        // a module has it, which may ask for more keys than the arguments name
)

// Route says how a command travels.
type Route uint8

// The routes.
const (
	ByKeys   Route = iota // to the master of its keys' slot; keys of several slots: -CROSSSLOT
	Split                 // as ByKeys, or cut by slot (Command.Split) and put together again
	AnyNode               // to one master, whichever
	AllNodes              // to every master, the replies merged by Command.Merge
	Local                 // Command.Run answers it, on the loop
	Blocks                // as ByKeys, or with a Merge as AllNodes, over connections of the client's own
	Refused               // -ERR with Row.Why
)

// Merge makes one reply of several.
type Merge = merge.Func

// Command is everything lockproxy knows of one command. A Command is immutable
// once it stands in a Table.
type Command struct {
	Row                      // its rule, with what the upstream tells of it
	ID   int                 // dense from 0 within a Table, for statistics
	Keys []KeySpec           // where its keys stand
	Subs map[string]*Command // by lower-case name of the subcommand
	Docs *Docs               // of commands that are lockproxy's own
	// StandIn makes what a node gets in its place between MULTI and EXEC, for a verb; db is the database in
	// which it is queued. nil: the verb is not queued.
	StandIn func(c *Call, db int) (req []byte, err error)
	// InnerAt is where the command begins that args, a verb, run; 0: nowhere. nil: it runs none.
	InnerAt func(args [][]byte) int
	Check   func(args [][]byte) (refusal []byte) // what is wrong besides their number; nil: nothing
	Needs   func(args [][]byte) []Right          // Rights; nil: that to the command itself

	table      *Table            // of a verb, where its inner command is looked up
	categories []string          // "@read", of the ACL
	tips       map[string]string // policies of Redis, by the name of the tip
	FirstKey   int               // Split: the position of the first key; 0 means 1
	tail       int               // Split: arguments behind the last key's, which go to every part
	key        int               // above 0: the position of the one key that decides
	askKeys    bool              // only COMMAND GETKEYS knows the keys
	// container: its subcommands are those in Subs, as the upstream tells, and it has no others.
	container bool
	plain     bool   // Resolve need not look at the arguments
	data      bool   // it reads or writes keys, as the upstream tells
	reads     bool   // of keys, and does nothing else
	inMulti   []byte // the reply where it may not be queued
}

// Call is one command of one client while it runs on the client's loop. It is
// valid until Run returns; Args and Raw alias the read buffer. The Call itself is used again for the next
// command of the loop, so what goes on later keeps c.Actions, c.Client and c.Server, and copies of the rest.
type Call struct {
	Command *Command
	Args    [][]byte // Args[0] is the name as the client wrote it
	Raw     []byte   // the command as RESP
	Client  *Client
	Table   *Table
	Server  Server
	Place   *Place // nil: nobody has worked it out yet
	Actions
}

// AsProxy says that the nodes take the client for the proxy itself, not for a user of its own.
func (c *Call) AsProxy() bool {
	return !c.Server.UsersOnly() && c.Client.UserName() == DefaultUser
}

// Place is where a command belongs.
type Place struct {
	Slot int   // of its keys, and
	Err  error // why there is none, as Command.Slot says
	Home int   // Command.Home, if it has no keys
}

// PlaceOf works out where args, a command, belong. The bytes of all keys are looked at, so for a long command
// it is done on a goroutine. Home is AnySlot if the command has keys.
func (c *Command) PlaceOf(args [][]byte, t *Table, s *Scripts) (p Place) {
	p.Slot, p.Err = c.Slot(args)
	if p.Home = AnySlot; p.Slot == AnySlot {
		p.Home = c.Home(args, t, s)
	}
	return p
}

// Everywhere says that c goes to all masters.
func (c *Command) Everywhere() bool { return c.Route == AllNodes || c.Flags&Fanned != 0 }
