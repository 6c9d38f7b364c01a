// Package client is a client's connection as the features of the proxy see it, and the little that the
// features share.
//
// What a connection can do besides sending commands and getting replies (MULTI, SUBSCRIBE, BLPOP, CLIENT
// TRACKING, MONITOR ...) is a package each beside this one. None of them knows the session, which package
// proxy keeps: each is given a Host.
//
//	proxy: session -----------------------+
//	   |        |                         | is a
//	   |   transaction, blocking ...  --> client.Host
//	   |        |
//	   +--------+--> commands, cluster
//
// A feature handles a command like this:
//
//	tag := h.CurrentTag()            the number of the command, whose answer comes later
//	h.AnswerLater(client.ByNode)     the answer is on its way
//	h.SetHold(client.HoldOrder)      if no later command of the client may overtake it
//	h.Pool().Send(...)               what a node is asked; the reply comes to the feature
//	h.Answer(tag, reply)             on the loop, now or later: answers leave in the order of the commands
//	h.ClearHold(client.HoldOrder)
//
// All of it runs on the loop of the client, so nothing is locked and nothing may block.
package client

import (
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/loop"
)

// Host is a session as its features see it: MONITOR, CLIENT PAUSE, tracking and the like, which keep their
// own state. Everything here runs on the loop of the client.
type Host interface {
	// About is what commands know of the client.
	About() *commands.Client
	// Loop is the client's loop, Pool that loop's connections to the upstream.
	Loop() *loop.Loop
	Pool() *pipe.Pool
	// Call is the current command, while it runs or is being dispatched.
	Call() *commands.Call
	// Mode is the mode of connections that carry what the client sends.
	Mode() pipe.Mode
	// Actions are those of the current command.
	Actions() commands.Actions
	// CurrentTag is the number of the current command.
	CurrentTag() uint32
	// Answer gives a command its whole answer, which is copied, or kept if it is large.
	Answer(tag uint32, reply []byte)
	// AnswerLater says that Answer will answer the current command later, and who makes the answer.
	AnswerLater(by By)
	// SetHold stops the reading of further commands, ClearHold lets it go on.
	SetHold(h HoldReasons)
	ClearHold(h HoldReasons)
	// Push sends a push as soon as possible: behind the answer of command tag, and never inside an answer. It
	// must not be changed any more.
	Push(tag uint32, message []byte)
	// Answers are the answers to its commands.
	Answers() Answers
	// TakesPushes says that the connection is open, will stay so, and has to be told of changes.
	TakesPushes() bool
	// Gone says that the connection is closed.
	Gone() bool
}

// By is who answered a command.
type By uint8

const (
	ByNode   By = iota
	ByRefuse    // the proxy, which refused to run it
	ByProxy
)

// Answers are the answers to a client's commands, those to come included, by their numbers.
type Answers interface {
	// Answered is the last command that has been answered.
	Answered() uint32
	// Oldest is the oldest command without an answer, if there is any.
	Oldest() (tag uint32, any bool)
	// Touched is the latest command of whose answer a part has arrived, and whether it is the latest command
	// of all.
	Touched() (tag uint32, latest bool)
	// Speak makes the client get the answer to command tag whatever CLIENT REPLY says: the confirmation of a
	// subscription is a push, in RESP2 too.
	Speak(tag uint32)
	// Expect makes then turn the node's reply to command tag into its answer; if then is nil, the reply is
	// the answer.
	Expect(tag uint32, then func(reply []byte) []byte)
}

// Masters is how many masters the client's upstream has now.
func Masters(h Host) int { return len(h.Pool().Topology().Masters) }

// Expect makes then turn the reply of a node into the answer to the current command of h.
func Expect(h Host, then func(reply []byte) []byte) {
	h.AnswerLater(ByNode)
	h.Answers().Expect(h.CurrentTag(), then)
}

// Apart runs task on a goroutine for the current command of h. Then the command is answered by what then
// returns. Later commands of the client wait for it.
func Apart(h Host, task func(), then func() []byte) {
	h.Actions().Await(func(done func([]byte)) {
		go func() { // ends by itself
			task()
			done(nil)
		}()
	}, func([]byte) []byte { return then() }, nil)
}

// ApartIfLong is Apart if what task looks at, size bytes, is too long for a loop. Otherwise task runs at
// once, and the result is what then returns: the answer, or nil if that comes later.
func ApartIfLong(h Host, size int, task func(), then func() []byte) []byte {
	if size > LongFrom {
		Apart(h, task, then)
		return nil
	}
	task()
	return then()
}
