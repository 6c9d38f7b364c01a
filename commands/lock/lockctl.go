package lock

import (
	"context"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/who"
)

// lockctlVerb is LOCKCTL, for people who look after locks:
//
//	LOCKCTL INFO key | CHECK key token | LIST [MATCH glob] [COUNT n] [SCAN] | WATCH [MATCH glob] |
//	        BREAK key | STATS [ALL] | HELP
func lockctlVerb(l *Lockers, b *Busiest) *commands.Command {
	key := commands.Argument{Name: "key", Type: "key"}
	reads := []commands.KeySpec{{Begin: 2, Flags: []string{"RO", "access"}}}
	reading := func(args [][]byte) []commands.Right { return readRights(l.key(args[2])) }
	breaking := func(args [][]byte) []commands.Right {
		key := l.key(args[2])
		return append(breakRights(key), writeRight(key))
	}
	helping := commands.FixedRights(commands.NewRight("COMMAND"))
	const perLock = "O(N), N being holders and waiters"
	list := &commands.Command{
		Name: "lockctl|list", Arity: -2, Flags: commands.ReadOnly, Needs: allLocksRights(l),
		Globs: commands.GlobsBehind("MATCH", 2),
		Docs: &commands.Docs{
			Summary:    "Lists the locks that are held.",
			Complexity: "O(N), N being the locks that are held; with SCAN the keys of all nodes",
			Arguments: []commands.Argument{
				{Name: "pattern", Type: "pattern", Token: "MATCH", Optional: true},
				{Name: "count", Type: "integer", Token: "COUNT", Optional: true},
				{Name: "scan", Type: "pure-token", Token: "SCAN", Optional: true},
			},
		},
	}
	list.Run = func(c *commands.Call) { lockctlList(c, l, list) }
	verb := &commands.Command{
		Name: "lockctl", Arity: -2, Flags: commands.LockVerb, Route: commands.Local,
		Run: commands.NoSubcommand, Needs: helping,
		Docs: &commands.Docs{Summary: "Looks after locks.", Since: "0.1.0", Group: "lock",
			Complexity: "Depends on the subcommand."},
	}
	for _, sub := range []*commands.Command{
		{
			Name: "lockctl|info", Arity: 3, Flags: commands.ReadOnly, Keys: reads, Needs: reading,
			Check: shortName(2),
			Run:   func(c *commands.Call) { lockctlInfo(c, l) },
			Docs: &commands.Docs{Summary: "Says who holds a lock and how many wait.", Complexity: perLock,
				Arguments: []commands.Argument{key}},
		},
		{
			Name: "lockctl|check", Arity: 4, Flags: commands.ReadOnly, Keys: reads, Needs: reading,
			Check:  shortName(2),
			Secret: commands.SecretsFrom(3),
			Run:    func(c *commands.Call) { lockctlCheck(c, l) },
			Docs: &commands.Docs{
				Summary: "Says what a token holds.", Complexity: perLock,
				Arguments: []commands.Argument{key, {Name: "token", Type: "string"}},
			},
		},
		list,
		watchVerb(l),
		{
			Name: "lockctl|break", Arity: 3, Flags: commands.Write | commands.Admin,
			Keys:  []commands.KeySpec{{Begin: 2, Flags: []string{"RW", "delete"}}},
			Needs: breaking, Check: shortName(2),
			Run: func(c *commands.Call) { lockctlBreak(c, l) },
			Docs: &commands.Docs{Summary: "Takes a lock away from whoever holds it.", Complexity: perLock,
				Arguments: []commands.Argument{key}},
		},
		statsVerb(l, b),
		{
			Name: "lockctl|help", Arity: 2, Flags: commands.ReadOnly, Needs: helping, Run: lockctlHelp,
			Docs: &commands.Docs{Summary: "Lists the subcommands.", Complexity: "O(1)"},
		},
	} {
		sub.Flags |= commands.LockVerb
		sub.Route = commands.Local
		sub.Docs.Since, sub.Docs.Group = verb.Docs.Since, verb.Docs.Group
		verb.AddSub(sub)
	}
	return verb
}

func lockctlHelp(c *commands.Call) {
	c.Reply(commands.HelpReply("LOCKCTL",
		"INFO <key>",
		"    Say who holds a lock, with which fence and for how long, for how long it rests, how many wait, "+
			"and who the first are.",
		"CHECK <key> <token>",
		"    Say what the token holds: ttl in ms, fence, count. Null: nothing.",
		"LIST [MATCH <glob>] [COUNT <n>] [SCAN]",
		"    List the locks that are held, as INFO shows them, sorted by name; 100 unless COUNT says more. "+
			"SCAN looks through all keys.",
		"BREAK <key>",
		"    Take a lock away from its holders, who are told. 1: done. 0: nobody held it.",
		"WATCH [MATCH <glob>]",
		"    Show what happens to locks from now on, at all proxies. RESET ends it.",
		"STATS [ALL]",
		"    Say what this proxy has done with locks, and which of them were the busiest. "+
			"ALL: what all proxies have done, added up."))
}

// lockctlInfo replies a map: state, fence, holders (maps), waiters, of a semaphore in use also used and of,
// key, waiting (maps); and rest, if there is one.
func lockctlInfo(c *commands.Call, l *Lockers) {
	o, name, sees := c.Actions, string(c.Args[2]), l.sees(c)
	inspect(c, l, "", func(s redlock.State, proto int) []byte {
		show := func(known who.Known) []byte {
			return appendState(resp.AppendMap(nil, proto, statePairs(&s)), proto, s, known)
		}
		if len(s.Holders) == 0 && s.Waiters == 0 || l.Who == nil {
			return show(who.Known{})
		}
		o.Task(commands.Returning(func(ctx context.Context) []byte {
			return show(l.known(ctx, sees, map[string]redlock.State{name: s})[name])
		}), nil)
		return nil
	})
}

// statePairs is how many pairs appendState appends.
func statePairs(s *redlock.State) int {
	pairs := 6
	if s.Used() > 0 {
		pairs += 2
	}
	if s.Rest > 0 {
		pairs++
	}
	return pairs
}

// appendState appends the state of a lock as pairs of a map, with the clients that are known to hold it and
// to wait for it.
func appendState(b []byte, proto int, s redlock.State, known who.Known) []byte {
	b = appendPair(b, "state", s.Name())
	b = appendCount(b, "fence", s.Fence)
	b = redcon.AppendArray(redcon.AppendBulkString(b, "holders"), len(s.Holders))
	now := time.Now()
	for _, h := range s.Holders {
		b = resp.AppendMap(b, proto, 14)
		b = appendPair(b, "token", h.Digest())
		b = appendPair(b, "mode", modeNames[h.Mode])
		b = appendCount(b, "ttl", h.TTL.Milliseconds())
		b = appendCount(b, "count", h.Count)
		b = appendCount(b, "fence", h.Fence)
		b = appendCount(b, "age", h.Age.Milliseconds())
		b = appendPair(b, "meta", h.Meta)
		b = appendCount(b, "kept", oneIf(h.Kept))
		holder, ok := known.Holders[h.Digest()]
		waited := int64(-1)
		if ok {
			waited = holder.Waited
		}
		b = appendClient(b, holder.Client, holder.Proxy)
		b = appendCount(b, "since", now.Add(-h.Age).UnixMilli())
		b = appendCount(b, "waited", waited)
	}
	b = appendCount(b, "waiters", int64(s.Waiters))
	if used := s.Used(); used > 0 {
		b = appendCount(b, "used", int64(used))
		b = appendCount(b, "of", int64(s.Permits))
	}
	b = appendPair(b, "key", s.Key)
	b = redcon.AppendArray(redcon.AppendBulkString(b, "waiting"), len(known.Waiters))
	for _, w := range known.Waiters {
		b = resp.AppendMap(b, proto, 6)
		b = appendPair(b, "mode", modeNames[w.Mode])
		b = appendClient(b, w.Client, w.Proxy)
		b = appendCount(b, "waited", w.Waited)
	}
	if s.Rest > 0 {
		b = appendCount(b, "rest", s.Rest.Milliseconds())
	}
	return b
}

var modeNames = map[redlock.Mode]string{
	redlock.Write: "write", redlock.Read: "read", redlock.Permit: "permit",
}

func appendPair(b []byte, name, value string) []byte {
	return redcon.AppendBulkString(redcon.AppendBulkString(b, name), value)
}

func appendCount(b []byte, name string, n int64) []byte {
	return redcon.AppendInt(redcon.AppendBulkString(b, name), n)
}

// lockctlCheck replies an array of ttl in ms, fence and count, or Null.
func lockctlCheck(c *commands.Call, l *Lockers) {
	if len(c.Args[3]) > maxToken { // no token is that long
		c.Reply(resp.AppendNull(nil, c.Client.Proto))
		return
	}
	token := string(c.Args[3])
	name, of := string(c.Args[2]), l.of(c.Args[2])
	inspect(c, l, token, func(s redlock.State, proto int) []byte {
		h := s.Held(token)
		if h == nil {
			if err := whyNothing(of, name, token, 0); err != nil {
				return commands.ErrorReply(err)
			}
			return resp.AppendNull(nil, proto)
		}
		if lost, ok := of.Untold(name, token, h.Fence); ok { // it is about to be freed
			return commands.ErrorReply(errLost(name, lost, thenLock))
		}
		b := redcon.AppendArray(nil, 3)
		b = redcon.AppendInt(b, h.TTL.Milliseconds())
		b = redcon.AppendInt(b, h.Fence)
		return redcon.AppendInt(b, h.Count)
	})
}

// inspect reads the lock that Args[2] names and answers with what show makes of it. Any token that is not ""
// limits it to the hold of that token.
func inspect(c *commands.Call, all *Lockers, token string, show func(s redlock.State, proto int) []byte) {
	name, proto := string(c.Args[2]), c.Client.Proto
	all.of(c.Args[2]).Inspect(c.Actions, name, token, func(s redlock.State, err error) []byte {
		if err != nil {
			return commands.ErrorReply(err)
		}
		return show(s, proto)
	})
}

// lockctlBreak replies 1 if the lock was held and is no more, 0 if it was free.
func lockctlBreak(c *commands.Call, all *Lockers) {
	all.Break(c.Actions, string(c.Args[2]), c.Client.Holder(), func(broken bool, err error) []byte {
		switch {
		case err != nil:
			return commands.ErrorReply(err)
		case broken:
			return resp.One
		}
		return resp.Zero
	})
}

// Break takes a lock away from its holders, for a client, and tells of it. It does not block.
func (l *Lockers) Break(
	by redlock.Caller, name string, who *redlock.Client, then func(broken bool, err error) []byte,
) {
	of, asked := l.of([]byte(name)), time.Now()
	of.Break(by, name, func(broken bool, err error) []byte {
		if err == nil && broken {
			of.TellBroken(name, who.Addr, who.User)
			l.Ledger.broken(name, "", who, asked)
		}
		return then(broken, err)
	})
}
