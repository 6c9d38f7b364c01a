package proxy

import (
	"lockproxy/cluster"
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// This file is the gate for commands of clients that are users of the upstream: what no node gets as it stands, the
// upstream is asked about before the proxy does it. Nothing is remembered, so new rules hold from the next command on.
//
//	session.run, transaction.dispatch, aside.call --> judge --> ACL DRYRUN, as the proxy ... --> goOn, or a refusal

// act does a command.
type act func(cmd *commands.Command, args [][]byte, raw []byte)

// judge asks whether the client's user may run cmd, the current command, and has goOn run it then. Later commands of
// the client wait meanwhile.
func (s *session) judge(cmd *commands.Command, args [][]byte, raw []byte, goOn act) {
	if lacks := s.w.roster.lacks; lacks != "" {
		s.denied(commands.Verdict{Refusal: commands.Unable(lacks), Lacks: lacks})
		return
	}
	s.acted = true
	s.setHold(holdOrder)
	raw = lasting(raw)
	args, _, err := resp.Split(raw, nil) // the rights are judged when others have used the buffer of these
	if err != nil {
		s.Reply(noAnswer)
		return
	}
	caching := s.own != nil && s.own.Precedes()
	rights, user := cmd.Rights(args), commands.NewRightsOf(s.as.name, s.w.server, s.w.table)
	slot := s.w.pipes.SomeSlot(s.ID)
	g := newGather(s, len(rights), func(_ int, replies [][]byte) []byte {
		for i, reply := range replies {
			if v := user.Judge(cmd, args, rights[i], reply); v.Refusal != nil {
				s.denied(v)
				return nil
			}
		}
		if caching && s.own != nil {
			s.own.Precede(true)
			defer s.own.Precede(false)
		}
		goOn(cmd, args, raw)
		return nil
	})
	for i, right := range rights {
		s.feed(s.w.pipes.Send(slot, cluster.Mode{Proto: 2}, user.Ask(right), g, uint32(i), true))
	}
}

// expel makes a client nobody, whose user is none any more. One that has more than so many commands on their way, or
// listens to something, is closed, as Redis closes all connections of a user that is deleted.
func (s *session) expel(commandsOnTheirWay int) {
	switch {
	case s.as == nil || s.gone:
		return
	case s.answers.len() > commandsOnTheirWay || s.Subscribed() || s.Monitoring:
		s.conn.CloseAfterWrite()
		return
	}
	s.ResetState()
	s.Kept.Close(false)
	s.Grants, s.Kept = commands.Grants{}, commands.Kept{}
	s.User, s.Authenticated = "", false
}

// denied answers the current command with what the upstream said.
func (s *session) denied(v commands.Verdict) {
	if v.Lacks != "" {
		s.w.server.logLack(v.Lacks)
	}
	if t := s.tx; t != nil && t.multi && s.aside == nil && !v.Gone {
		t.spoil()
	}
	if v.Gone {
		s.expel(1)
	}
	s.Reply(v.Refusal)
}

// logLack logs, once, that the proxy's own user cannot ask what other users may do.
func (s *Server) logLack(right string) {
	if s.unable.CompareAndSwap(false, true) {
		s.o.Log.Error("the proxy's user at the upstream lacks a right that it needs to serve other users", "right", "+"+right)
	}
}
