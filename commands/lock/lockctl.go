package lock

import (
	"context"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/who"
)

// lockctlVerb is LOCKCTL, for people who look after locks:
//
//	LOCKCTL INFO key | CHECK key token | LIST [MATCH glob] [COUNT n] [SCAN] | WATCH [MATCH glob] |
//	        BREAK key | STATS [ALL] | HELP
//
// Its subcommands do not go through newVerb, for each needs rights of its own, and their locks stand one
// argument further on.
func lockctlVerb(l *Lockers) *commands.Command {
	const perLock = "O(N), N being holders and waiters"
	reading := func(args [][]byte) []commands.Right { return readRights(l.keyOf(args[2])) }
	breaking := func(args [][]byte) []commands.Right {
		key := l.keyOf(args[2])
		return append(breakRights(key), writeRight(key))
	}
	helping := commands.FixedRights(commands.NewRight("COMMAND"))
	verb := &commands.Command{
		Row: commands.Row{Name: "lockctl", Arity: -2, Flags: commands.LockVerb, Route: commands.Local,
			Run: commands.NoSubcommand},
		Needs: helping,
		Docs: &commands.Docs{Summary: "Looks after locks.", Since: since, Group: "lock",
			Complexity: "Depends on the subcommand."},
	}
	// What they have in common is set below.
	for _, sub := range []*commands.Command{
		aboutOne("lockctl|info", 3, commands.ReadOnly, reading, func(c *commands.Call) { lockctlInfo(c, l) },
			commands.Docs{Summary: "Says who holds a lock and how many wait.", Complexity: perLock}),
		aboutOne("lockctl|check", 4, commands.ReadOnly, reading,
			func(c *commands.Call) { lockctlCheck(c, l) },
			commands.Docs{Summary: "Says what a token holds: ttl in ms, fence, count. Null: nothing.",
				Complexity: perLock,
				Arguments:  []commands.Argument{{Name: "token", Type: "string"}}}),
		asking("lockctl|list", commands.ReadOnly, allLocksRights(l), commands.Docs{
			Summary:    "Lists the locks that are held, by name; 100 unless COUNT says more.",
			Complexity: "O(N), N being the locks that are held; with SCAN the keys of all nodes",
			Arguments:  takes("MATCH", "COUNT", "SCAN"),
		}, l, lockctlList),
		asking("lockctl|watch", commands.ReadOnly|commands.NoMulti, allLocksRights(l), commands.Docs{
			Summary:    "Shows what happens to locks, as it happens, at all proxies. RESET ends it.",
			Complexity: "O(1)",
			Arguments:  takes("MATCH"),
		}, l, lockctlWatch),
		aboutOne("lockctl|break", 3, commands.Write|commands.Admin, breaking,
			func(c *commands.Call) { lockctlBreak(c, l) },
			commands.Docs{Summary: "Takes a lock away from whoever holds it, and tells them.",
				Complexity: perLock}),
		asking("lockctl|stats", commands.ReadOnly,
			commands.FixedRights(commands.NewRight("INFO"), commands.NewRight("KEYS", "*")), commands.Docs{
				Summary:    "Says what this proxy has done with locks, or all of them.",
				Complexity: "O(N), N being lock-stats-names; with ALL the number of proxies",
				Arguments:  takes("ALL"),
			}, l, lockctlStats),
		{
			Row: commands.Row{Name: "lockctl|help", Arity: 2, Flags: commands.ReadOnly,
				Run: func(c *commands.Call) { c.Reply(commands.HelpOf(verb)) }},
			Needs: helping,
			Docs:  &commands.Docs{Summary: "Lists the subcommands.", Complexity: "O(1)"},
		},
	} {
		sub.Flags |= commands.LockVerb
		sub.Route = commands.Local
		sub.Docs.Since, sub.Docs.Group = since, "lock"
		verb.AddSub(sub)
	}
	// So the cost of a pattern is bounded as for KEYS.
	verb.Subs["list"].Globs = commands.GlobsBehind("MATCH")
	verb.Subs["check"].Secret = commands.SecretsFrom(3)
	return verb
}

// aboutOne is a subcommand about the lock that its first argument names. docs names only what stands behind
// the key. run answers the command.
func aboutOne(name string, arity int, flags commands.Flags, needs func([][]byte) []commands.Right,
	run func(c *commands.Call), docs commands.Docs,
) *commands.Command {
	access := []string{"RO", "access"}
	if flags&commands.Write != 0 {
		access = []string{"RW", "delete"}
	}
	docs.Arguments = append([]commands.Argument{keyArgument}, docs.Arguments...)
	return &commands.Command{
		Row:   commands.Row{Name: name, Arity: arity, Flags: flags, Run: run},
		Needs: needs, Docs: &docs, Check: shortName(2),
		Keys: []commands.KeySpec{{Begin: 2, Flags: access}},
	}
}

// asking is a subcommand with options, which run is given. The defaults of the options stand here: all names,
// and listCount of them. Plain stands for the bounds of an engine, which none of these options has.
func asking(name string, flags commands.Flags, needs func([][]byte) []commands.Right, docs commands.Docs,
	l *Lockers, run func(c *commands.Call, l *Lockers, a *arguments) error,
) *commands.Command {
	sub := &commands.Command{
		Row: commands.Row{Name: name, Arity: -2, Flags: flags}, Needs: needs, Docs: &docs,
	}
	s := newSyntax(sub)
	asked := runner(func(c *commands.Call, s *syntax) error {
		a := arguments{listing: locks.Listing{Match: "*", Count: listCount}}
		if _, err := a.readRest(s, l.Plain, c.Args, 2); err != nil {
			return sub.Usage(err)
		}
		return run(c, l, &a)
	})
	sub.Run = func(c *commands.Call) { asked.answerCall(c, s) }
	return sub
}

// lockctlInfo replies a map: state, fence, holders (maps), waiters, of a semaphore in use also used and of,
// key, waiting (maps); and rest, if there is one. Redis knows the holders by digests of their tokens, and how
// many wait. Who they are other proxies have to be asked, which a task does; if nobody has to do with the
// lock it is answered at once.
func lockctlInfo(c *commands.Call, l *Lockers) {
	o, name, sees := c.Actions, string(c.Args[2]), l.sees(c)
	inspectLock(c, l, "", func(s redlock.State, proto int) []byte {
		show := func(known who.Known) []byte {
			return resp.AppendPairs(nil, proto, appendState(nil, proto, s, known))
		}
		if len(s.Holders) == 0 && s.Waiters == 0 || l.Who == nil {
			return show(who.Known{})
		}
		o.Task(commands.Returning(func(ctx context.Context) []byte {
			return show(l.knownClients(ctx, sees, locks.Listed{Name: name, State: s})[name])
		}), nil)
		return nil
	})
}

// appendState appends the state of a lock as pairs of a map, with the clients that are known to hold it and
// to wait for it. Times are in milliseconds: since is a unix time, the others are durations. waited is -1,
// and client, addr, user and proxy are empty, if nobody knows the client.
func appendState(b []byte, proto int, s redlock.State, known who.Known) []byte {
	b = resp.AppendBulks(b, "state", s.Name())
	b = resp.AppendNumber(b, "fence", s.Fence)
	b = redcon.AppendArray(redcon.AppendBulkString(b, "holders"), len(s.Holders))
	now := time.Now()
	for _, h := range s.Holders {
		b = resp.AppendMap(b, proto, 14)
		b = resp.AppendBulks(b, "token", h.Digest())
		b = resp.AppendBulks(b, "mode", modeNames[h.Mode])
		b = resp.AppendNumber(b, "ttl", h.TTL.Milliseconds())
		b = resp.AppendNumber(b, "count", h.Count)
		b = resp.AppendNumber(b, "fence", h.Fence)
		b = resp.AppendNumber(b, "age", h.Age.Milliseconds())
		b = resp.AppendBulks(b, "meta", h.Meta)
		b = resp.AppendNumber(b, "kept", resp.Truth(h.Kept))
		holder, ok := known.Holders[h.Digest()]
		if !ok {
			holder.Waited = -1
		}
		b = appendClient(b, holder.Client, holder.Proxy)
		b = resp.AppendNumber(b, "since", now.Add(-h.Age).UnixMilli())
		b = resp.AppendNumber(b, "waited", holder.Waited)
	}
	b = resp.AppendNumber(b, "waiters", s.Waiters)
	if used := s.Used(); used > 0 {
		b = resp.AppendNumber(b, "used", used)
		b = resp.AppendNumber(b, "of", s.Permits)
	}
	b = resp.AppendBulks(b, "key", s.Key)
	b = redcon.AppendArray(redcon.AppendBulkString(b, "waiting"), len(known.Waiters))
	for _, w := range known.Waiters {
		b = resp.AppendMap(b, proto, 6)
		b = resp.AppendBulks(b, "mode", modeNames[w.Mode])
		b = appendClient(b, w.Client, w.Proxy)
		b = resp.AppendNumber(b, "waited", w.Waited)
	}
	if s.Rest > 0 {
		b = resp.AppendNumber(b, "rest", s.Rest.Milliseconds())
	}
	return b
}

// They are those of replies, events and metrics.
var modeNames = map[redlock.Mode]string{
	redlock.Write: "write", redlock.Read: "read", redlock.Permit: "permit",
}

// lockctlCheck replies an array of ttl in ms, fence and count, or Null. An error instead of Null says that
// the hold was lost, and why.
func lockctlCheck(c *commands.Call, l *Lockers) {
	if len(c.Args[3]) > maxToken { // no token is that long
		c.Reply(resp.AppendNull(nil, c.Client.Proto))
		return
	}
	token := string(c.Args[3])
	name, of := string(c.Args[2]), l.engineOf(c.Args[2])
	inspectLock(c, l, token, func(s redlock.State, proto int) []byte {
		h := s.Held(token)
		if h == nil {
			if err := whyNothing(of, name, token, 0); err != nil {
				return commands.ErrorReply(err)
			}
			return resp.AppendNull(nil, proto)
		}
		if err := untold(of, name, token, h.Fence, thenLock); err != nil { // it is about to be freed
			return commands.ErrorReply(err)
		}
		return resp.AppendInts(redcon.AppendArray(nil, 3), h.TTL.Milliseconds(), h.Fence, h.Count)
	})
}

// inspectLock reads the lock that Args[2] names and answers with what show makes of it. Any token that is not
// "" limits it to the hold of that token. show runs on the loop, when Redis has answered, and may go on
// instead of answering.
func inspectLock(c *commands.Call, all *Lockers, token string, show func(s redlock.State, proto int) []byte) {
	name, proto := string(c.Args[2]), c.Client.Proto
	all.engineOf(c.Args[2]).Inspect(c.Actions, name, token, func(s redlock.State, err error) []byte {
		if err != nil {
			return commands.ErrorReply(err)
		}
		return show(s, proto)
	})
}

// lockctlBreak replies 1 if the lock was held and is no more, 0 if it was free. Those who held it hear of it
// if they are kept alive. Who waits gets the lock next.
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

// Break takes a lock away from its holders, for a client, and tells of it. It does not block. then makes the
// answer. The admin page uses it too. Nothing is told if the lock was free.
func (l *Lockers) Break(
	by redlock.Caller, name string, who *redlock.Client, then func(broken bool, err error) []byte,
) {
	of, asked := l.engineOf([]byte(name)), time.Now()
	of.Break(by, name, func(broken bool, err error) []byte {
		if err == nil && broken {
			of.TellBroken(name, who.Addr, who.User)
			l.Ledger.noteBroken(name, "", who, asked)
		}
		return then(broken, err)
	})
}
