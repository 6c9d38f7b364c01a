package commands_test

import (
	"slices"
	"strings"

	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// keysOf are the keys in args that the table finds, sorted.
func keysOf(table *commands.Table, args [][]byte) []string {
	cmd, _ := table.Resolve(args)
	keys := []string{}
	for _, at := range cmd.KeyIndexes(args) {
		keys = append(keys, string(args[at]))
	}
	slices.Sort(keys)
	return keys
}

// sampleOf makes up a call of c that satisfies its arity, "" if there is none.
func sampleOf(c *commands.Command, extra int) string {
	n := c.Arity
	if n < 0 {
		n = -n + extra
	} else if extra > 0 {
		return ""
	}
	words := strings.Split(c.Name, "|")
	if c.Subs != nil || len(words) > n {
		return ""
	}
	for i := len(words); i < n; i++ {
		words = append(words, "k"+string(rune('a'+i)))
	}
	for _, k := range c.Keys {
		if k.Counted && k.Keyword == "" && k.Begin+k.Count < n {
			words[k.Begin+k.Count] = "1"
		}
	}
	return strings.Join(words, " ")
}

// calls are commands whose keys depend on more than their positions.
var calls = []string{
	"GET k", "get k", "SET k v EX 10", "MGET a b c", "MSET a 1 b 2", "MSETNX a 1 b 2", "DEL a b c",
	"RENAME a b", "LMOVE a b LEFT RIGHT",
	"EVAL return 2 a b x y", "EVAL return 0 x", "EVAL return 1 a", "EVALSHA x 3 a b c d",
	"EVAL_RO return 1 a", "FCALL f 1 a b", "FCALL_RO f 2 a b",
	"EVAL return 3 a b", "EVAL return nan a b", "EVAL return -1 a", "EVAL return 99999999999999999999 a",
	"EVAL return 1",
	"ZUNIONSTORE d 2 a b WEIGHTS 1 2", "ZINTERSTORE d 1 a", "ZDIFFSTORE d 2 a b", "ZUNION 2 a b",
	"ZINTER 1 a WITHSCORES", "ZDIFF 1 a", "ZINTERCARD 2 a b LIMIT 3",
	"ZUNIONSTORE d 5 a b", "ZUNIONSTORE d x a b", "ZRANGESTORE d s 0 1", "ZMPOP 2 a b MIN", "LMPOP 1 a LEFT",
	"SINTERCARD 2 a b", "SINTERSTORE d a b",
	"XREAD STREAMS a b 0 0", "XREAD COUNT 2 STREAMS a 0", "XREAD COUNT 2 STREAMS a b c 0 0 0",
	"XREAD STREAMS STREAMS 0",
	"XREADGROUP GROUP g c STREAMS a >", "XREADGROUP GROUP streams c NOACK STREAMS a b > >",
	"XREAD COUNT 2 FOO a 0",
	"GEORADIUS k 1 2 3 km", "GEORADIUS k 1 2 3 km STORE d", "GEORADIUS k 1 2 3 km COUNT 3 STOREDIST d",
	"GEORADIUSBYMEMBER k m 3 km store d", "GEOSEARCHSTORE d s FROMMEMBER m BYRADIUS 1 km",
	"OBJECT ENCODING k", "OBJECT HELP", "MEMORY USAGE k SAMPLES 3", "MEMORY DOCTOR", "XGROUP CREATE k g 0",
	"XINFO STREAM k FULL", "XINFO GROUPS k", "DEBUG OBJECT k",
	"BITOP AND d a b", "PFCOUNT a b", "PFMERGE d a b", "COPY a b REPLACE", "SMOVE a b m", "PUBLISH c m",
	"LCS a b", "RESTORE k 0 x",
	"TIME", "PING", "DBSIZE", "SCAN 0", "CONFIG GET x", "FUNCTION LIST", "SCRIPT LOAD x", "WATCH a b",
	"BLPOP a b 0", "BLMPOP 0 2 a b LEFT", "BZMPOP 0 1 a MIN",
}

// sampleVerbs look like the lock verbs.
func sampleVerbs() []*commands.Command {
	row := func(name string, arity int, flags commands.Flags) commands.Row {
		return commands.Row{Name: name, Arity: arity, Flags: flags | commands.LockVerb, Route: commands.Local,
			Run: func(c *commands.Call) { c.Reply(resp.OK) }}
	}
	lockctl, stats := row("lockctl", -2, 0), row("lockctl|stats", 2, 0)
	lockctl.Run = commands.NoSubcommand
	stats.Route, stats.Run, stats.Why = commands.Refused, nil, " yet: it comes later"
	return []*commands.Command{
		{
			Row:  row("lock", -2, commands.Write|commands.Blocking),
			Keys: []commands.KeySpec{{Begin: 1, Flags: []string{"RW", "access", "update"}}},
			Docs: &commands.Docs{Summary: "Takes a lock", Since: "0.1.0", Group: "lock", Complexity: "O(1)",
				Arguments: []commands.Argument{
					{Name: "key", Type: "key"},
					{Name: "token", Type: "string", Token: "TOKEN", Optional: true},
					{Name: "lease", Type: "oneof", Optional: true, Arguments: []commands.Argument{
						{Name: "milliseconds", Type: "integer", Token: "PX"},
						{Name: "seconds", Type: "integer", Token: "EX"},
					}},
					{Name: "reentrant", Type: "pure-token", Token: "REENTRANT", Optional: true},
				}},
		},
		{
			Row:  lockctl,
			Docs: &commands.Docs{Summary: "Tells of locks", Since: "0.1.0", Group: "lock"},
			Subs: map[string]*commands.Command{
				"info": {
					Row:  row("lockctl|info", 3, commands.ReadOnly),
					Keys: []commands.KeySpec{{Begin: 2, Flags: []string{"RO", "access"}}},
					Docs: &commands.Docs{Summary: "Tells of one lock", Since: "0.1.0", Group: "lock",
						Arguments: []commands.Argument{{Name: "key", Type: "key"}}},
				},
				"stats": {Row: stats},
				"help": {
					Row:  row("lockctl|help", 2, 0),
					Docs: &commands.Docs{Summary: "Prints help", Since: "0.1.0", Group: "lock"},
				},
			},
		},
	}
}
