package commands

import (
	"context"
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/commands/cut"
	"lockproxy/redlock"
)

// Task is work on a goroutine. Before it ends it calls answer, from any goroutine: end makes the client's
// answer, on the loop. If answer is called again, that is too late: no other end is called. ctx ends when the
// client goes or the proxy drains; its cause says why, and a task then ends soon.
type Task func(ctx context.Context, answer func(end func() []byte))

// Returning is the Task that answers with what f returns.
func Returning(f func(ctx context.Context) []byte) Task {
	return func(ctx context.Context, answer func(end func() []byte)) {
		reply := f(ctx)
		answer(func() []byte { return reply })
	}
}

// Beside has task make the answer of the current command, on a goroutine that ends with it. It is for work
// that would hold up the other clients of the loop. task must not use the Call, which is over by then;
// arguments of long commands it may read, since nobody writes to their memory any more.
func Beside(by redlock.Caller, task func() []byte) {
	by.Await(func(done func([]byte)) {
		go func() { done(task()) }() // ends by itself
	}, func(reply []byte) []byte { return reply }, nil)
}

// Answering makes a Row.Run of a function that returns the answer. nil: it answers by Actions, now or later.
func Answering(run func(c *Call) []byte) func(c *Call) {
	return func(c *Call) {
		if answer := run(c); answer != nil {
			c.Reply(answer)
		}
	}
}

// maxBrief is how many bytes of an argument the loop looks at itself. More would hold up its other clients.
const maxBrief = 256 << 10

// ReplyAbout answers with what answer makes of arg, each byte of which it looks at: beside the loop if arg is
// long.
func (c *Call) ReplyAbout(arg []byte, answer func() []byte) {
	if len(arg) > maxBrief {
		Beside(c, answer)
		return
	}
	c.Reply(answer())
}

// LockWaiter is a redlock.Delivery of a task that waits for locks during a part of its time only. The task of
// any other command that blocks does nothing but wait.
type LockWaiter interface {
	redlock.Delivery
	// Waited is for how long the task waited. It is asked once, when the task has answered.
	Waited() time.Duration
}

// Actions is what a command may ask of the session that runs it. All of it runs on the client's loop and none
// of it blocks. Run answers by calling exactly one of the methods from Reply to Await, once, or one method of
// a capability that says so; answers reach the client in the order of its commands, whenever they come.
//
// The function then, and a Merge, make the answer of what they are given, which is valid until they return.
// They may go on instead of answering: they call one of those methods again (not Reply) and return nil.
type Actions interface {
	// Reply answers the client with one whole reply, which is copied. nil: with
	// nothing at all, before Close.
	Reply(reply []byte)
	// Forward sends the command as it stands to the master of slot (AnySlot:
	// any); the node's reply goes to the client untouched.
	Forward(slot int)
	// Ask sends req, one whole command, which is copied. then is given the whole reply, also when the client
	// has gone meanwhile.
	Ask(to pipe.Target, req []byte, o Asking, then func(reply []byte) []byte)
	// FindKeys asks a node for the keys of args, a command (COMMAND GETKEYS). Later commands of the client
	// wait. No keys: it has none, or makes no sense.
	FindKeys(args [][]byte, then func(keys [][]byte) []byte)
	// AskAll sends req to every master at once. merge runs when all have answered.
	AskAll(req []byte, o Asking, merge Merge)
	// AskParts sends each part to the master of its slot.
	AskParts(parts []cut.Part, o Asking, merge Merge)
	// AskInTurn sends all of reqs, which only read, in that order to the node at addr and to no other, master
	// or not. then is given their replies in that order.
	AskInTurn(addr string, reqs [][]byte, then Merge)
	// Task parks the session (none of its later commands is read on) and runs task on a goroutine of its own.
	// ctx ends when the client goes away or the proxy drains. task must not touch Call or Client. lost may be
	// nil.
	Task(task Task, lost redlock.Delivery)
	// Caller has SendHome, which sends a request to database 0, where all locks are, as the proxy's own
	// user. And it has Await: later commands of the client wait for what Await has begun; if the command is
	// a lock verb, only those wait that name the same lock.
	redlock.Caller

	// Pusher returns a function by which the client is told something beside its answers, at the earliest
	// behind the answer of this command. push may be called from any goroutine and at any later time, also
	// when the client has gone. While the client is there, message runs on the loop; it is given the
	// protocol that the client then speaks, and returns a whole RESP3 push, or nil for nothing.
	Pusher() (push func(message func(proto int) []byte))
	// Gone says that the client's connection is closed.
	Gone() bool
	// Close closes the connection once the answers so far are written.
	Close()
	Capabilities
}

// Capabilities are what a command may ask for beside answers. They are valid as long as Actions is.
type Capabilities interface {
	Nodes() Nodes
	Clients() Clients
	Connection() Connection
	Transactions() Transactions
	Subscriptions() Subscriptions
	Tracker() Tracker
}

// AnySlot stands for "whichever node" where a slot is asked for.
const AnySlot = -1

// Asking says how something is asked. The zero value is for what changes something: it is sent once.
type Asking struct {
	// Resend says that the request may be sent again when its reply was lost.
	Resend bool
	// Always has a Merge run also when the client has gone meanwhile.
	Always bool
	// Own sends the request of AskAll over connections that nobody else uses meanwhile, to database 0, so
	// that nothing on the shared connections delays it.
	Own bool
}

// Reread is for a request that may be sent again.
var Reread = Asking{Resend: true}
