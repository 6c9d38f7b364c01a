package server

import (
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/redcon"

	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// How the commands of lockproxy's own look in COMMAND and COMMAND DOCS: the
// forms of Redis 7.0. redis-cli trusts the types: names and summaries are bulk
// strings, flags are simple strings.

// appendCommand appends the description of c, as in COMMAND. The ten elements are those of Redis 7.0: name,
// arity, flags, first key, last key, step, categories, tips, key specs, subcommands. The three positions are
// 0 where keys stand behind their number: only the key spec tells of these.
func appendCommand(dst []byte, proto int, c *commands.Command) []byte {
	dst = redcon.AppendArray(dst, 10)
	dst = resp.AppendBulks(dst, c.Name)
	dst = redcon.AppendInt(dst, int64(c.Arity))
	flags, categories := describeFlags(c.Flags)
	if slices.ContainsFunc(c.Keys, func(k commands.KeySpec) bool { return k.Counted }) {
		flags = append(flags, "movablekeys") // or a client that goes by the positions would see no keys
	}
	dst = appendWords(dst, proto, flags)
	first, last, step := 0, 0, 0
	if at := c.KeyAt(); at > 0 {
		first, last, step = at, at, 1
	}
	dst = resp.AppendInts(dst, first, last, step)
	dst = appendWords(dst, proto, categories)
	dst = resp.AppendSet(dst, proto, 0) // tips
	dst = resp.AppendSet(dst, proto, len(c.Keys))
	for i := range c.Keys {
		dst = appendKeySpec(dst, proto, &c.Keys[i])
	}
	subs := offeredSubs(c)
	dst = redcon.AppendArray(dst, len(subs))
	for _, sub := range subs {
		dst = appendCommand(dst, proto, sub)
	}
	return dst
}

// offeredSubs are the subcommands that are not refused, by name.
func offeredSubs(c *commands.Command) []*commands.Command {
	var subs []*commands.Command
	for _, name := range slices.Sorted(maps.Keys(c.Subs)) {
		if sub := c.Subs[name]; sub.Route != commands.Refused {
			subs = append(subs, sub)
		}
	}
	return subs
}

// flagForms are how COMMAND shows the flags of a verb, in the order of Redis: a word, and ACL categories.
var flagForms = []struct {
	flag       commands.Flags
	word       string
	categories []string
}{
	{commands.Write, "write", []string{"@write"}},
	{commands.ReadOnly, "readonly", []string{"@read"}},
	{commands.Admin, "admin", []string{"@admin", "@dangerous"}},
	{commands.NoScript, "noscript", nil},
	{commands.Blocking, "blocking", []string{"@blocking"}},
}

// describeFlags returns the flags of a verb as words, and its ACL categories. No verb can run in a script.
// All are slow, since they run a script at the upstream, and Redis knows nothing between fast and slow.
func describeFlags(f commands.Flags) (words, categories []string) {
	categories = []string{"@" + lockCategory}
	for _, form := range flagForms {
		if (f|commands.NoScript)&form.flag != 0 {
			words = append(words, form.word)
			categories = append(categories, form.categories...)
		}
	}
	return words, append(categories, "@slow")
}

// appendKeySpec appends where a verb has its keys: at a place of their own, or behind their number. Key specs
// of verbs never search for a keyword, and know all of the keys.
func appendKeySpec(dst []byte, proto int, k *commands.KeySpec) []byte {
	dst = resp.AppendMap(dst, proto, 3)
	dst = resp.AppendBulks(dst, "flags")
	dst = appendWords(dst, proto, k.Flags)
	dst = resp.AppendBulks(dst, "begin_search")
	dst = appendSpec(dst, proto, "index", 1)
	dst = resp.AppendNumber(dst, "index", k.Begin)
	dst = resp.AppendBulks(dst, "find_keys")
	if k.Counted {
		dst = appendSpec(dst, proto, "keynum", 3)
		dst = resp.AppendNumber(dst, "keynumidx", k.Count)
		dst = resp.AppendNumber(dst, "firstkey", k.First)
		return resp.AppendNumber(dst, "keystep", max(k.Step, 1))
	}
	dst = appendSpec(dst, proto, "range", 3)
	dst = resp.AppendNumber(dst, "lastkey", k.Last)
	dst = resp.AppendNumber(dst, "keystep", max(k.Step, 1))
	return resp.AppendNumber(dst, "limit", k.Limit)
}

// appendSpec begins one half of a key spec, which goes on with n pairs. A key spec has two of them: where the
// keys begin, and how they go on from there.
func appendSpec(dst []byte, proto int, kind string, n int) []byte {
	dst = resp.AppendMap(dst, proto, 2)
	dst = resp.AppendBulks(dst, "type", kind, "spec")
	return resp.AppendMap(dst, proto, n)
}

// appendWords appends a set of simple strings.
func appendWords(dst []byte, proto int, words []string) []byte {
	dst = resp.AppendSet(dst, proto, len(words))
	for _, word := range words {
		dst = redcon.AppendString(dst, word)
	}
	return dst
}

// appendDocs appends the documentation of c, as in COMMAND DOCS. Entries that have nothing to say are left
// out, as Redis leaves them out.
func appendDocs(dst []byte, proto int, c *commands.Command) []byte {
	docs := c.Docs
	pairs := resp.AppendBulks(nil, "summary", docs.Summary, "since", docs.Since, "group", docs.Group)
	if docs.Complexity != "" {
		pairs = resp.AppendBulks(pairs, "complexity", docs.Complexity)
	}
	if len(docs.Arguments) > 0 {
		pairs = appendArguments(resp.AppendBulks(pairs, "arguments"), proto, docs.Arguments)
	}
	if subs := offeredSubs(c); len(subs) > 0 {
		pairs = resp.AppendMap(resp.AppendBulks(pairs, "subcommands"), proto, len(subs))
		for _, sub := range subs {
			pairs = appendDocs(resp.AppendBulks(pairs, sub.Name), proto, sub)
		}
	}
	return resp.AppendPairs(dst, proto, pairs)
}

// appendArguments appends a list of arguments, in the order in which they are written. Those of oneof and
// block have lists of their own.
func appendArguments(dst []byte, proto int, args []commands.Argument) []byte {
	dst = redcon.AppendArray(dst, len(args))
	for _, arg := range args {
		dst = appendArgument(dst, proto, arg)
	}
	return dst
}

func appendArgument(dst []byte, proto int, arg commands.Argument) []byte {
	pairs := resp.AppendBulks(nil, "name", strings.ToLower(arg.Name), "type", arg.Type)
	var flags []string
	if arg.Optional {
		flags = append(flags, "optional")
	}
	if arg.Multiple {
		flags = append(flags, "multiple")
	}
	// a verb has one key spec, and its keys are what that finds
	if arg.Type == "key" {
		pairs = resp.AppendNumber(pairs, "key_spec_index", 0)
	}
	if arg.Token != "" {
		pairs = resp.AppendBulks(pairs, "token", arg.Token)
	}
	if flags != nil {
		pairs = appendWords(resp.AppendBulks(pairs, "flags"), proto, flags)
	}
	if len(arg.Arguments) > 0 {
		pairs = appendArguments(resp.AppendBulks(pairs, "arguments"), proto, arg.Arguments)
	}
	return resp.AppendPairs(dst, proto, pairs)
}
