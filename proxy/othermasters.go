package proxy

import (
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/proxy/client"
	"lockproxy/proxy/scatter"
)

// otherMasters is the Actions of a command that one node has run in a transaction, and that the other masters
// are to run now.
type otherMasters struct {
	executionActions
	a *execution
}

// AskAll implements commands.Actions: it asks all masters but the one that has answered.
func (e *otherMasters) AskAll(req []byte, o commands.Asking, merge commands.Merge) {
	h, own, skip := e.a.h, e.e.Reply, e.a.shard()
	masters := client.Masters(h)
	others := masters
	if skip >= 0 {
		others--
	}
	if others == 0 {
		h.AnswerLater(client.ByNode)
		h.Answer(e.a.tag, own)
		return
	}
	g := scatter.NewGather(h, others, func(proto int, replies [][]byte) []byte {
		return merge(proto, append([][]byte{own}, replies...))
	}, true) // otherwise what follows it would be left out
	g.Begun()
	n := uint32(0)
	for i := range masters {
		if i != skip {
			g.Ask(pipe.Request{Target: pipe.ToShard(i), Mode: h.Mode(), Bytes: req, Tag: n, Resend: o.Resend})
			n++
		}
	}
}

// shard is the number of the master that ran the transaction, or of the one that has taken over its slot
// since; -1: there is none.
func (a *execution) shard() int {
	for i, n := range a.h.Pool().Topology().Masters {
		if n.Addr == a.done {
			return i
		}
	}
	if a.slot == commands.AnySlot {
		return -1
	}
	return a.h.Pool().Owner(a.slot)
}
