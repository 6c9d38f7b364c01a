package proxy

import (
	"strings"

	"lockproxy/cluster/pipe"
	"lockproxy/cluster/pubsub"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy/tracking"
)

// roster looks after the clients of one loop that are users of the upstream. Once a second all masters are
// asked for the rules of all users. If a user was deleted, switched off or given another password, its
// clients become nobody. Clients that listen to what new rules forbid are closed, as Redis closes them. It
// belongs to the loop.
type roster struct {
	w     *worker
	asked bool   // the masters were asked and have not all answered
	lacks string // the right that the proxy's own user lacks to ask; "": none
}

// askRules asks the masters, if any client is a user. Each master has its own users, which may differ: a user
// whom one of them does not let in is no user any more.
func (r *roster) askRules() {
	n := len(r.w.pool.Topology().Masters)
	if r.asked || n == 0 || !r.needed() {
		return
	}
	r.asked = true
	replies, missing, failed := make([][]byte, n), n, false
	for i := range n {
		pipe.Ask(r.w.pool, pipe.ToMaster(i), pipe.Mode{Proto: 2}, commands.AskUsers,
			func(reply []byte, err error) {
				replies[i], failed = reply, failed || err != nil
				if missing--; missing == 0 {
					r.hearRules(replies, failed)
				}
			})
	}
}

func (r *roster) needed() bool {
	for s := range r.w.sessions {
		if s.own.User() != nil {
			return true
		}
	}
	return false
}

// compareRules compares each client with what each master says about the users. masters: for each of them the
// rules by the name of the user.
func (r *roster) compareRules(masters []map[string]string) {
	for s := range r.w.sessions {
		if s.own.User() == nil || s.gone {
			continue
		}
		rules := rulesOf(s.own.User().Name, masters)
		switch {
		// Nothing has changed since its client was last checked. No rules: it is not to be found, or must be
		// checked.
		case rules == s.own.User().Rules && rules != "":
		case !letsIn(s.own.User(), masters):
			r.expelClient(s, 0)
		default:
			s.own.User().Rules = rules
			r.rejudgeClient(s)
		}
	}
}

// rulesOf returns the rules of a user at all masters. They serve to be compared only.
func rulesOf(name string, masters []map[string]string) string {
	var all []string
	for _, users := range masters {
		all = append(all, users[name])
	}
	return strings.Join(all, "\n")
}

// letsIn says that every master would let u in.
func letsIn(u *tracking.User, masters []map[string]string) bool {
	for _, users := range masters {
		if !commands.LetsIn(users[u.Name], u.Password) {
			return false
		}
	}
	return true
}

// hearRules takes the answers of all masters. If one has failed nothing is concluded from the others: whoever
// is not listed there may just not be known. Then the next second asks again.
func (r *roster) hearRules(replies [][]byte, failed bool) {
	r.asked = false
	if failed {
		return
	}
	masters := make([]map[string]string, len(replies))
	for i, reply := range replies {
		rules, lacks, ok := commands.Users(reply)
		if lacks != "" {
			r.logLack(lacks)
		}
		if r.lacks = lacks; !ok {
			return
		}
		masters[i] = rules
	}
	r.compareRules(masters)
}

// rejudgeClient closes a client that listens to what its user must not hear any more.
func (r *roster) rejudgeClient(s *session) {
	for kind := range pubsub.Shard + 1 {
		right := commands.Right{[]byte(pubsub.Words[kind].Subscribe)}
		for _, name := range s.subscriber.Names(kind) {
			right = append(right, []byte(name))
		}
		if len(right) == 1 {
			continue
		}
		user := commands.NewRightsOf(s.own.User().Name, s.w.shared.Server, s.w.table)
		slot, as := s.w.pool.SomeSlot(s.ID), s.own.User()
		pipe.Ask(s.w.pool, pipe.ToSlot(slot), pipe.Mode{Proto: 2}, user.Ask(right),
			func(reply []byte, err error) { r.hearVerdict(s, as, reply, err) })
	}
}

// hearVerdict takes the answer to whether s, who was that user, may go on listening. as is compared by
// identity: a client that has logged in again, even as the same user, is another case.
func (r *roster) hearVerdict(s *session, as *tracking.User, reply []byte, err error) {
	if err != nil {
		as.Rules = "" // ask again
		return
	}
	if s.gone || s.own.User() != as {
		return
	}
	switch v, _, err := resp.Parse(reply); {
	case err != nil || v.Err() != "":
		as.Rules = ""
	case v.Text() != "OK":
		s.w.shared.Log.Info("client closed: its user may not listen to its channels any more",
			"client", s.Addr, "user", as.Name)
		s.conn.Close()
	}
}

// logLack logs, once, that the proxy's own user cannot ask what other users may do.
func (r *roster) logLack(right string) {
	if r.w.shared.Login.Unable.CompareAndSwap(false, true) {
		r.w.shared.Log.Error(
			"the proxy's user at the upstream lacks a right that it needs to serve other users",
			"right",
			"+"+right,
		)
	}
}

// expelClient makes a client whose user no longer exists nobody. A client with more than so many commands
// under way, or that listens to something, is closed, as Redis closes all connections of a deleted user. Any
// other begins anew as after RESET, and may authenticate again. But its protocol and database stay: it would
// not notice.
func (r *roster) expelClient(s *session, commandsOnTheirWay int) {
	switch {
	case s.own.User() == nil || s.gone:
		return
	case s.answers.len() > commandsOnTheirWay || s.Subscribed() || s.Monitoring || s.Watching:
		s.Keepalives.Close() // otherwise they would linger
		s.conn.CloseAfterWrite()
		return
	}
	s.resetState()
	s.Waits.Close(commands.ErrEnded)
	s.Keepalives.Close()
	proto, db := s.Proto, s.DB
	s.Client.Reset(s.w.shared.Server, false)
	s.Proto, s.DB = proto, db
}
