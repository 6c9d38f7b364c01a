package proxy

import (
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
)

// elsewhere is what a command may ask of the session that one node has run in a transaction, and that the
// other masters are to run now.
type elsewhere struct {
	executionActions
	a *execution
}

// AskAll implements commands.Actions: to all masters but the one that has answered.
func (e *elsewhere) AskAll(req []byte, o commands.Asking, merge commands.Merge) {
	s, own, skip := e.s, e.e.Reply, e.a.shard()
	others := s.w.masters()
	if skip >= 0 {
		others--
	}
	s.acted = true
	if others == 0 {
		s.Answer(e.a.tag, own)
		return
	}
	g := newGather(s, others, func(proto int, replies [][]byte) []byte {
		return merge(proto, append([][]byte{own}, replies...))
	})
	g.always = true // or what comes behind it would be left out
	n := uint32(0)
	for i := range s.w.masters() {
		if i == skip {
			continue
		}
		p := s.w.pool.Send(pipe.Request{
			Target: pipe.ToShard(i), Mode: s.Mode(), Bytes: req, To: g, Tag: n, Resend: o.Resend,
		})
		if n++; !o.Resend {
			s.writes.Add(p)
		}
		s.Feed(p)
	}
}

// shard is the number of the master that has run the transaction, or of the one that has taken its slot
// over meanwhile; -1 if there is none.
func (a *execution) shard() int {
	for i, n := range a.s.w.pool.Topology().Masters {
		if n.Addr == a.done {
			return i
		}
	}
	if a.slot == commands.AnySlot {
		return -1
	}
	return a.s.w.pool.Owner(a.slot)
}
