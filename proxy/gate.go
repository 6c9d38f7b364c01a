package proxy

import (
	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
	"lockproxy/proxy/large"
	"lockproxy/proxy/scatter"
)

// This file is the gate for clients that are users of the upstream. Before the proxy does something that no
// node gets to judge as it stands, the upstream is asked whether the user may. No answer is remembered, so
// new rules apply from the next command on.
//
//	router.Run, transactions, execution --> Judge --> inquiry: ACL DRYRUN as the proxy --> goOn or a refusal

// Judge has goOn run cmd, the current command, if the client's user may. For a client that is no user of the
// upstream it runs at once, with args and raw as they were given. Otherwise the upstream is asked, later
// commands of the client wait meanwhile, and goOn is given args and raw that last. A refusal is answered
// here. In a transaction a refusal makes EXEC fail, as one by a node does.
func (r *router) Judge(cmd *commands.Command, args [][]byte, raw []byte, goOn client.GoOn) {
	s := r.s
	if s.own.User() == nil {
		goOn(cmd, args, raw)
		return
	}
	if lacks := s.w.roster.lacks; lacks != "" {
		r.denyCommand(commands.RightsVerdict{Refusal: commands.Unable(lacks), Lacks: lacks})
		return
	}
	s.SetHold(client.HoldOrder)
	caching := s.own.Precedes()
	q := &inquiry{
		h: s, cmd: cmd, raw: client.Lasting(raw),
		user: commands.NewRightsOf(s.own.User().Name, r.Server(), s.w.table),
	}
	q.judged = func(v commands.RightsVerdict) {
		if v.Refusal != nil {
			r.denyCommand(v)
			return
		}
		s.own.Set().Preceding(caching, func() { goOn(cmd, q.args, q.raw) })
	}
	q.beginInquiry()
}

// inquiry is the question to the upstream about a client's right to its current command. For a long command a
// goroutine makes it and judges the answer. It belongs to the loop, or to the goroutine of Apart while the
// client waits for that.
type inquiry struct {
	h      nodeAsker
	cmd    *commands.Command
	args   [][]byte
	raw    []byte
	user   commands.RightsOf
	judged func(v commands.RightsVerdict) // runs the command, or refuses it

	// One question for each right; the requests are in the same order, and so are the replies.
	rights   []commands.Right
	inner    int // from which on they are about a command that runs in the client's database
	requests [][]byte
	err      error
}

// beginInquiry asks, and later calls judged.
func (q *inquiry) beginInquiry() {
	h := q.h
	h.AnswerLater(client.ByNode)
	h.KeepFor(h.CurrentTag(), 2*len(q.raw)) // the command and the question
	if err := client.ApartIfLong(h, len(q.raw), q.prepareRequests, q.askRights); err != nil {
		h.Reply(err)
	}
}

// prepareRequests makes the requests. It may run on any goroutine.
func (q *inquiry) prepareRequests() {
	// The buffer of the arguments that were read has been reused.
	if q.args, _, q.err = resp.Split(q.raw, nil); q.err != nil {
		return
	}
	q.rights, q.inner = q.cmd.Rights(q.args)
	for _, right := range q.rights {
		q.requests = append(q.requests, q.user.Ask(right))
	}
}

// askRights sends the requests, and continues with conclude when the replies are there; or it returns the
// answer to the command. A large request goes over a connection that ends with it. Rules of Valkey may name
// databases: DRYRUN judges by that in which it is asked. All questions go to one node, for rules are meant to
// be the same everywhere.
func (q *inquiry) askRights() []byte {
	h := q.h
	if h.Gone() || q.err != nil {
		return client.NoAnswer
	}
	slot := h.Pool().SomeSlot(h.About().ID)
	g := scatter.NewGather(h, len(q.requests), q.conclude, false)
	for i, request := range q.requests {
		mode := pipe.Mode{Proto: 2}
		if i >= q.inner {
			mode.DB = h.About().DB
		}
		if len(request) > cluster.MaxShared {
			own := h.Pool().Private(mode, large.ClientOwner{Host: h}, nil)
			mode = pipe.ModeOf(own)
			defer own.End()
		}
		g.Ask(pipe.Request{
			Target: pipe.ToSlot(slot), Mode: mode, Bytes: request, Tag: uint32(i), Resend: true,
		})
	}
	q.requests = nil
	return nil
}

// verdict reads the replies. The first refusal counts.
func (q *inquiry) verdict(replies [][]byte) commands.RightsVerdict {
	for i, reply := range replies {
		if v := q.user.Judge(q.cmd, q.args, q.rights[i], reply); v.Refusal != nil {
			return v
		}
	}
	return commands.RightsVerdict{}
}

// conclude runs the command, or refuses it.
func (q *inquiry) conclude(_ int, replies [][]byte) []byte {
	var v commands.RightsVerdict
	return client.ApartIfLong(q.h, len(q.raw), func() { v = q.verdict(replies) }, func() []byte {
		if q.h.Gone() {
			return client.NoAnswer
		}
		q.h.KeepFor(q.h.CurrentTag(), -2*len(q.raw))
		q.judged(v)
		return nil
	})
}

// denyCommand answers the current command with the upstream's refusal. If there is no such user any more, the
// client becomes nobody.
func (r *router) denyCommand(v commands.RightsVerdict) {
	s := r.s
	if v.Lacks != "" {
		s.w.roster.logLack(v.Lacks)
	}
	if s.taker == nil && !v.Gone {
		s.tx.Spoil()
	}
	if v.Gone {
		s.w.roster.expelClient(s, 1)
	}
	s.Reply(v.Refusal)
}
