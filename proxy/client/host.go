// Package client is a client's connection as the features of the proxy see it, and the little that they
// share.
//
// What a connection can do besides sending commands and getting replies (MULTI, SUBSCRIBE, BLPOP, CLIENT
// TRACKING, MONITOR ...) stands in a package each beside this one. None of them knows the session, which
// package proxy keeps: it is given a Host.
//
//	proxy: session -----------------------+
//	   |        |                         | is a
//	   |   transaction, blocking ...  --> client.Host
//	   |        |
//	   +--------+--> commands, cluster
//
// A command that a feature takes goes this way:
//
//	tag := h.CurrentTag()            the number of the command, whose reply comes later
//	h.AnswerLater(client.ByNode)     nobody need wonder that it has none yet
//	h.SetHold(client.HoldOrder)      if no later command of the client may overtake it
//	h.Pool().Send(...)              what a node is asked; the reply comes to the feature
//	h.Answer(tag, reply)             on the loop, now or later: replies leave in the order of the commands
//	h.ClearHold(client.HoldOrder)
//
// All of it runs on the loop of the client, so nothing is locked, and nothing may block.
package client

import (
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/loop"
)

// Host is a session as its features see it: MONITOR, CLIENT PAUSE, tracking and the like, which keep their
// state themselves. All of it belongs to the loop of the client.
type Host interface {
	// About is what commands know of the client.
	About() *commands.Client
	// Loop is that of the client, Pool its connections to the upstream.
	Loop() *loop.Loop
	Pool() *pipe.Pool
	// Call is the current command, as long as it runs or is being dispatched.
	Call() *commands.Call
	// Mode is that of the connections which carry what the client sends.
	Mode() pipe.Mode
	// Actions are those of the current command.
	Actions() commands.Actions
	// CurrentTag is the number of the command that is being run.
	CurrentTag() uint32
	// Answer gives a command its whole answer, which is copied, or kept if it is large.
	Answer(tag uint32, reply []byte)
	// AnswerLater says that the current command is answered, with Answer, some time later, and by whom.
	AnswerLater(by By)
	// SetHold has no further command read, ClearHold ends that.
	SetHold(h Hold)
	ClearHold(h Hold)
	// Push has message make a push, which is written behind the answer of command tag.
	Push(tag uint32, message func(proto int) []byte)
	// Answers are those to its commands.
	Answers() Answers
	// TakesPushes says that the connection is there, will stay, and wants to be told anything.
	TakesPushes() bool
	// Gone says that the connection is closed.
	Gone() bool
}

// By is who answered a command.
type By uint8

const (
	ByNode   By = iota
	ByRefuse    // the proxy, which did not run it
	ByProxy
)

// Answers are those that the commands of a client have, or are going to have, by their numbers.
type Answers interface {
	// Answered is the last command that is answered.
	Answered() uint32
	// Oldest is the oldest command that is not answered, if any is.
	Oldest() (tag uint32, any bool)
	// Touched is the latest command of whose answer anything has come, and whether it is the latest of all.
	Touched() (tag uint32, latest bool)
	// Speak has the client get the answer to command tag whatever CLIENT REPLY says: the confirmation of a
	// subscription is a push, in RESP2 too.
	Speak(tag uint32)
	// Expect has then make the answer to command tag of its node's reply; nil: the reply is the answer.
	Expect(tag uint32, then func(reply []byte) []byte)
}

// Masters is how many masters the upstream of the client has now.
func Masters(h Host) int { return len(h.Pool().Topology().Masters) }

// Apart has a goroutine run task for the current command of h, which then answers or has go on. Later
// commands of the client wait for it.
func Apart(h Host, task func(), then func() []byte) {
	h.Actions().Await(func(done func([]byte)) {
		go func() { // ends by itself
			task()
			done(nil)
		}()
	}, func([]byte) []byte { return then() }, nil)
}
