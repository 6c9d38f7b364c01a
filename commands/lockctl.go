package commands

import (
	"github.com/tidwall/redcon"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
)

// lockctlVerb is LOCKCTL, for people who look after locks:
//
//	LOCKCTL INFO key | CHECK key token | LIST [MATCH glob] [COUNT n] | BREAK key | STATS | HELP
func lockctlVerb(l *Lockers, b *busiest) *Command {
	reads := []KeySpec{{Begin: 2, Flags: []string{"RO", "access"}}}
	writes := []KeySpec{{Begin: 2, Flags: []string{"RW", "delete"}}}
	key := Argument{Name: "key", Type: "key"}
	sub := func(name string, arity int, flags Flags, keys []KeySpec, summary, complexity string, run func(c *Call), args ...Argument) *Command {
		return &Command{
			Name: "lockctl|" + name, Arity: arity, Flags: flags | LockVerb, Keys: keys, Route: Local, Run: run,
			Docs: &Docs{Summary: summary, Since: "0.1.0", Group: "lock", Complexity: complexity, Arguments: args},
		}
	}
	reading := func(args [][]byte) []Right { return readRights(l.key(args[2])) }
	helping := fixedRights(right("COMMAND"))
	const perLock = "O(N), N being holders and waiters"
	verb := &Command{
		Name: "lockctl", Arity: -2, Flags: LockVerb, Route: Local, Run: noSubcommand, needs: helping,
		Docs: &Docs{Summary: "Looks after locks.", Since: "0.1.0", Group: "lock", Complexity: "Depends on the subcommand."},
		Subs: map[string]*Command{
			"info":  sub("info", 3, ReadOnly, reads, "Says who holds a lock and how many wait.", perLock, func(c *Call) { lockctlInfo(c, l) }, key),
			"check": sub("check", 4, ReadOnly, reads, "Says what a token holds.", perLock, func(c *Call) { lockctlCheck(c, l) }, key, Argument{Name: "token", Type: "string"}),
			"list": sub("list", -2, ReadOnly, nil, "Lists the locks that are held.", "O(N), N being the keys of all nodes", nil,
				Argument{Name: "pattern", Type: "pattern", Token: "MATCH", Optional: true}, Argument{Name: "count", Type: "integer", Token: "COUNT", Optional: true}),
			"break": sub("break", 3, Write|Admin, writes, "Takes a lock away from whoever holds it.", perLock, func(c *Call) { lockctlBreak(c, l) }, key),
			"stats": sub("stats", 2, ReadOnly, nil, "Says what this proxy has done with locks.", "O(N), N being lock-stats-names", func(c *Call) { lockctlStats(c, l, b) }),
			"help":  sub("help", 2, ReadOnly, nil, "Lists the subcommands.", "O(1)", lockctlHelp),
		},
	}
	for sub, needs := range map[string]func([][]byte) []Right{
		"info": reading, "check": reading, "break": breakRights(l), "list": allLocksRights(l),
		"stats": fixedRights(right("INFO"), right("KEYS", "*")), "help": helping,
	} {
		verb.Subs[sub].needs = needs
	}
	verb.Subs["check"].secret = secretsFrom(3)
	list := verb.Subs["list"]
	list.Run = func(c *Call) { lockctlList(c, l, list) }
	return verb
}

func lockctlHelp(c *Call) {
	c.Reply(helpReply("LOCKCTL",
		"INFO <key>",
		"    Say who holds a lock, with which fence and for how long, and how many wait.",
		"CHECK <key> <token>",
		"    Say what the token holds: ttl in ms, fence, count. Null: nothing.",
		"LIST [MATCH <glob>] [COUNT <n>]",
		"    List the locks that are held, as INFO shows them, sorted by name; 100 unless COUNT says more.",
		"BREAK <key>",
		"    Take a lock away from its holders, who are told. 1: done. 0: nobody held it.",
		"STATS",
		"    Say what this proxy has done with locks, and which of them were the busiest."))
}

// lockctlInfo replies a map: state, fence, holders (maps), waiters, key.
func lockctlInfo(c *Call, l *Lockers) {
	inspect(c, l, "", func(s redlock.State, proto int) []byte {
		return appendState(resp.AppendMap(nil, proto, statePairs), proto, s)
	})
}

const statePairs = 5

// appendState appends the pairs that say how a lock is.
func appendState(b []byte, proto int, s redlock.State) []byte {
	b = appendPair(b, "state", s.Name())
	b = appendCount(b, "fence", s.Fence)
	b = redcon.AppendArray(redcon.AppendBulkString(b, "holders"), len(s.Holders))
	for _, h := range s.Holders {
		b = resp.AppendMap(b, proto, 8)
		b = appendPair(b, "token", h.Digest())
		b = appendPair(b, "mode", modeNames[h.Mode])
		b = appendCount(b, "ttl", h.TTL.Milliseconds())
		b = appendCount(b, "count", h.Count)
		b = appendCount(b, "fence", h.Fence)
		b = appendCount(b, "age", h.Age.Milliseconds())
		b = appendPair(b, "meta", h.Meta)
		b = appendCount(b, "kept", oneIf(h.Kept))
	}
	b = appendCount(b, "waiters", int64(s.Waiters))
	return appendPair(b, "key", s.Key)
}

var modeNames = map[redlock.Mode]string{redlock.Write: "write", redlock.Read: "read"}

func appendPair(b []byte, name, value string) []byte {
	return redcon.AppendBulkString(redcon.AppendBulkString(b, name), value)
}

func appendCount(b []byte, name string, n int64) []byte {
	return redcon.AppendInt(redcon.AppendBulkString(b, name), n)
}

// lockctlCheck replies an array of ttl in ms, fence and count, or Null.
func lockctlCheck(c *Call, l *Lockers) {
	if len(c.Args[3]) > maxToken { // nobody has one that long
		c.Reply(resp.AppendNull(nil, c.Client.Proto))
		return
	}
	token := string(c.Args[3])
	inspect(c, l, token, func(s redlock.State, proto int) []byte {
		h := s.Held(token)
		if h == nil {
			return resp.AppendNull(nil, proto)
		}
		b := redcon.AppendArray(nil, 3)
		b = redcon.AppendInt(b, h.TTL.Milliseconds())
		b = redcon.AppendInt(b, h.Fence)
		return redcon.AppendInt(b, h.Count)
	})
}

// inspect reads the lock that Args[2] names, for the owner of token if that is not "", and answers with what
// show makes of it.
func inspect(c *Call, all *Lockers, token string, show func(s redlock.State, proto int) []byte) {
	name, proto := string(c.Args[2]), c.Client.Proto
	if err := c.Client.Kept.refuse(name); err != nil {
		c.Reply(ErrorReply(err))
		return
	}
	all.of(name).Inspect(&lockCaller{c.Actions}, name, token, func(s redlock.State, err error) []byte {
		if err != nil {
			return ErrorReply(err)
		}
		return show(s, proto)
	})
}

// lockctlBreak replies 1: those who held the lock do no more; 0: nobody did.
func lockctlBreak(c *Call, all *Lockers) {
	name := string(c.Args[2])
	if err := c.Client.Kept.refuse(name); err != nil {
		c.Reply(ErrorReply(err))
		return
	}
	all.of(name).Break(&lockCaller{c.Actions}, name, func(broken bool, err error) []byte {
		switch {
		case err != nil:
			return ErrorReply(err)
		case broken:
			return resp.One
		}
		return resp.Zero
	})
}
