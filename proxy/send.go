package proxy

import (
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/proxy/client"
	"lockproxy/proxy/large"
)

// This file keeps the requests of one client in order.

// inOrder makes sure that no command overtakes earlier ones that went by an older topology, over connections
// of another mode, or around a running script. Those may still be on their way. So it reports false, and the
// session waits, until all of them are answered. Then the new way holds for all that follow.
func (r *router) inOrder() bool {
	s := r.s
	v, epoch := s.w.pool.Version(), s.w.pool.StuckEpoch()
	if v != r.version || epoch != r.stuckEpoch || s.Mode() != r.routed {
		if s.answers.len() > 0 {
			if v == r.version && r.stuckEpoch == 0 && s.Mode() == r.routed {
				return true // behind the script, if its earlier commands are there
			}
			s.SetHold(client.HoldOrder)
			return false
		}
		r.version, r.stuckEpoch = v, epoch
		r.routed = s.Mode()
		s.own.Turn()
	}
	return true
}

// Order implements pipe.Ordered. latest: no later command has been read yet, so nothing can be overtaken.
func (s *session) Order(tag uint32) (client int64, n uint32, latest bool) {
	return s.ID, tag, tag+1 == s.answers.tail
}

// sendTo sends req: the current command, or a request on its behalf. script: it may run one by its SHA1. One
// that may be sent again is given a receiver that may choose another connection for it (reader). Requests for
// any node all go to the same one, so that the commands of a client, such as PUBLISH, stay in order.
func (r *router) sendTo(to pipe.Target, req []byte, resend, script bool) {
	s := r.s
	if to.Any() {
		to = pipe.ToSlot(s.w.pool.SomeSlot(s.ID))
	}
	var receiver pipe.Receiver = s
	if resend {
		receiver = reader{receiving{s}}
	}
	p := s.w.pool.Send(&pipe.Request{
		Target: to, Mode: s.Mode(), Bytes: req, To: receiver, Tag: s.current, Resend: resend,
		Script: script,
	})
	s.Sent(p, resend)
}

var overloaded = []byte("-BUSY the node of this key has more to do than it can, so its answers would " +
	"take longer than shed-after, and the command has not run: send it again after a pause, or give the " +
	"upstream more nodes\r\n")

// shedCommand refuses a command whose master is overloaded, and reports whether it has. Locks, transactions,
// commands that block and those that go to several nodes are not refused: they are few, or others wait for
// them.
func (r *router) shedCommand(slot int, cmd *commands.Command) bool {
	s := r.s
	if !s.w.shared.Sheds || r.readers(cmd) != pipe.MasterOnly ||
		!s.w.pool.Overloaded(slot, s.Mode()) {
		return false
	}
	s.Reply(overloaded)
	return true
}

// receiving is a session as a pipe.Receiver, for those that tell the pipe more of a request.
type receiving struct{ s *session }

func (r receiving) Receive(tag uint32, chunk []byte, last bool) { r.s.Receive(tag, chunk, last) }
func (r receiving) Fail(tag uint32, err error)                  { r.s.Fail(tag, err) }
func (r receiving) Discard(tag uint32) bool                     { return r.s.Discard(tag) }
func (r receiving) Detour(tag uint32)                           { r.s.Detour(tag) }
func (r receiving) Order(tag uint32) (int64, uint32, bool)      { return r.s.Order(tag) }

// reader is a session as the pipe.Chooser of what it reads. It is asked, when the size of a reply is known,
// whether the request should rather be sent again over a connection of the client's own.
type reader struct{ receiving }

// Most implements pipe.Longer.
func (r reader) Most(tag uint32) int { return r.s.Most(tag) }

// Apart implements pipe.Chooser. Later commands that were sent already would overtake the request. It also
// declines where the client already has such connections, or a place for another one is not to be had.
func (r reader) Apart(tag uint32, size int) (pipe.Mode, bool) {
	s := r.s
	if size <= large.WindowBytes || s.gone || s.answers.at(tag).then != nil || tag+1 != s.answers.tail ||
		s.own.Set() != nil || s.tx.IsOpen() || s.taker != nil ||
		!s.w.pool.HasRoom(large.ClientOwner{Host: s}) {
		return pipe.Mode{}, false
	}
	s.large.expectReads()
	s.large.on = true
	s.large.openConnections(s)
	return s.Mode(), true
}

// readers says which nodes may answer a command that reads keys. The reply of a replica may be older than
// what the client wrote; replies still come in the order of the commands. Only what reads keys goes to
// replicas, and only if the settings want it, for those that have said READONLY or for all but those that
// have said READWRITE.
func (r *router) readers(cmd *commands.Command) pipe.Readers {
	switch which := r.s.w.shared.ReplicaReads; {
	case !cmd.ReadsKeys() || !which.Wanted(r.s.ReadOnly):
		return pipe.MasterOnly
	case which == commands.ReadsAnywhere:
		return pipe.AllReaders
	}
	return pipe.ReplicasFirst
}
