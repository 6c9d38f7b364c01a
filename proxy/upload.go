package proxy

import (
	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
)

// This file is commands of more than cluster.MaxShared bytes that go to their node as they come, so that
// nobody keeps them:
//
//	readCommands --> upload.beginsCommand --> pipe.Stream: question --> node
//	     |                                          |
//	     +--------> upload.readCommand -----------> + --> node
//
// The client is not read while the node takes nothing.
//
// These are writes whose node is known by their first arguments, of clients about which there is nothing
// special. All others are kept whole before they are sent. What is read is gone. So a command that its node
// does not run is not sent again, and half a command is ended by closing its connection.

// upload is the command of a client that goes to its node as it comes. It belongs to the loop. One command at
// most is sent so; nothing else of the client is read until it has come whole.
type upload struct {
	client.Passive // nothing overtakes it: nothing behind it is read
	s              *session
	stream         *pipe.Stream      // or nil
	cmd            *commands.Command // it has not been read to its end; or nil
	tag            uint32
	answered       bool // what is left of it is dropped
}

// beginsCommand says that the incomplete command at the front of buf is one to be sent as it comes, and
// begins with that. It may have to wait for the answers to earlier commands first. false: it is to be read
// whole first. True also says that readCommands must stop.
func (u *upload) beginsCommand(buf []byte) bool {
	s := u.s
	if len(buf)+s.in.guard.Missing() <= cluster.MaxShared || s.eof || s.draining ||
		s.own.Set() != nil || s.tx.IsOpen() || s.w.alert() || s.subscriber.Listens() {
		return false
	}
	cmd, args := u.commandIn(buf)
	if cmd == nil {
		return false
	}
	if s.answers.len() > 0 {
		s.SetHold(client.HoldOrder)
		return true
	}
	if !s.large.turnConnections(s, true) {
		return true
	}
	s.large.expectReads()
	s.last = cmd
	s.in.commands++
	s.beginCommand(s.w.counters.Of(cmd))
	s.ClearHold(client.HoldPipeline) // there is nothing but this command
	s.SetHold(client.HoldUpstream)
	u.cmd, u.tag, u.answered = cmd, s.current, false
	slot := commands.AnySlot
	if s.router.BySlot() {
		slot, _ = cmd.Slot(args)
	}
	if slot == commands.AnySlot {
		slot = s.w.pool.SomeSlot(s.ID)
	}
	// The question goes first and alone: only a node that takes it is sent the rest, which nobody could send
	// again.
	question := resp.AppendCommand(nil, setRange, args[cmd.KeyAt()], zero, nil)
	u.stream = pipe.NewStream(s.w.pool, pipe.ToSlot(slot), s.Mode(), question, u, u.tag)
	return true
}

// SETRANGE key 0 "" changes nothing, and is refused where a write is.
var setRange, zero = []byte("SETRANGE"), []byte("0")

// commandIn is the command at the front of buf and its arguments up to its key; nil if it cannot be sent as
// it comes, or not yet.
func (u *upload) commandIn(buf []byte) (*commands.Command, [][]byte) {
	s := u.s
	args, _ := s.in.guard.Begun(buf, 1)
	if args == nil {
		return nil, nil
	}
	cmd := s.w.table.Lookup(args[0])
	if cmd == nil || !cmd.Streams() {
		return nil, nil
	}
	if args, _ = s.in.guard.Begun(buf, cmd.KeyAt()+1); args == nil {
		return nil, nil
	}
	return cmd, args
}

// readCommand passes on what came of the command, and returns how much that is. It ends where the stream
// takes no more, or the client may not go on.
func (u *upload) readCommand(buf []byte) (used int) {
	s := u.s
	for used < len(buf) && u.cmd != nil && s.hold == 0 && !s.gone {
		guard := s.in.guard
		n, last, err := s.in.guard.Pass(buf[used:], s.w.shared.Limits.Of(s.Authenticated))
		switch {
		case err != nil:
			u.giveUp(commands.ErrorReply(err))
			s.endSession()
			return len(buf)
		case n == 0:
			return used
		case last && !u.answered && s.w.alert() && s.pause.Must(u.cmd, nil):
			s.in.guard = guard // it would run in the pause
			s.pause.Begin()
			return used
		}
		u.passPart(buf[used:used+n], last)
		used += n
	}
	return used
}

// passPart passes on a part of the command. Once the node has answered early, with an error, parts are
// dropped.
func (u *upload) passPart(part []byte, last bool) {
	s := u.s
	if last {
		u.cmd = nil
	}
	if u.answered {
		return
	}
	if last {
		s.answers.at(u.tag).start = s.w.loop.Now() // until now it has waited for its client
		s.SetHold(client.HoldOrder)
	}
	u.stream.Write(part, last)
	if !last && u.stream.Waits() {
		s.SetHold(client.HoldUpstream)
		s.CountMemory()
	}
}

// waitsForClient says that a command has begun whose client owes the rest.
func (u *upload) waitsForClient() bool { return u.cmd != nil && !u.answered && u.s.hold == 0 }

// giveUp ends a command of which a part has come only. What comes of it still is dropped. Its answer is
// reply, and it does not count as one that was run. nil: the client hears nothing, since it has gone or will.
func (u *upload) giveUp(reply []byte) {
	if u.cmd == nil || u.answered {
		return
	}
	u.stream.End()
	u.answered = true
	if s := u.s; !s.gone {
		u.dropRest()
		s.answers.at(u.tag).counter = nil
		s.Answer(u.tag, reply)
	}
}

// dropRest has what is left of the command read and dropped. Otherwise the next command could not be found in
// the input.
func (u *upload) dropRest() {
	u.answered = true
	u.s.ClearHold(client.HoldUpstream)
}

// Ready implements pipe.Streamer. From now on parts are written. It counts as a write of the client's,
// whatever becomes of it.
func (u *upload) Ready(p *pipe.Pipe) {
	u.s.writes.Add(p)
	u.s.ClearHold(client.HoldUpstream)
}

// Receive implements pipe.Receiver.
func (u *upload) Receive(tag uint32, chunk []byte, last bool) {
	u.dropRest()
	u.s.Receive(tag, chunk, last)
}

// Fail implements pipe.Receiver.
func (u *upload) Fail(tag uint32, err error) {
	u.dropRest()
	u.s.Fail(tag, err)
}

// Most implements pipe.Longer.
func (u *upload) Most(tag uint32) int { return u.s.Most(tag) }
