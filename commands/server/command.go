package server

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tidwall/redcon"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/glob"
	"lockproxy/internal/resp"
)

// COMMAND and its subcommands: the upstream's answers as they are, with the lock
// verbs among them.

// commandAll is COMMAND alone. Subcommands have rows of their own, so what stands behind COMMAND here is none
// that anybody knows.
func commandAll(c *commands.Call) {
	if len(c.Args) > 1 {
		commands.NoSubcommand(c)
		return
	}
	sendDescribed(c, describedAll)
}

// commandCount is COMMAND COUNT. It asks nobody: the Table has counted what the upstream has told, and the
// verbs.
func commandCount(c *commands.Call) { c.Reply(redcon.AppendInt(nil, int64(c.Table.Count()))) }

// commandInfo is COMMAND INFO [name ...]. A name that nobody has is answered with Null, in its place: a
// client goes by the positions. Subcommands are named as "config|get".
func commandInfo(c *commands.Call) {
	if len(c.Args) == 2 {
		sendDescribed(c, describedAll)
		return
	}
	verbs := verbsNamed(c.Table, c.Args[2:])
	names := make([]string, len(verbs))
	for i, name := range c.Args[2:] {
		names[i] = strings.ToLower(string(name))
	}
	sendDescribed(c, func(proto int, reply []byte, _ []*commands.Command) []byte {
		elems, ok := resp.Elements(reply)
		if !ok {
			return reply
		}
		// The node was sent the names of the verbs too, and has answered Null for them, so its answer has one
		// element for each name.
		if len(elems) != len(names) {
			elems = pickNamed(elems, names, proto)
		}
		out := redcon.AppendArray(nil, len(elems))
		for i, elem := range elems {
			if verbs[i] != nil {
				out = appendCommand(out, proto, verbs[i])
			} else {
				out = append(out, elem...)
			}
		}
		return out
	})
}

// pickNamed finds the named commands in a whole table. Servers without COMMAND INFO answer it with the table.
// found has an element for each name, Null where the table has none, as if COMMAND INFO had been answered.
func pickNamed(table [][]byte, names []string, proto int) [][]byte {
	byName := make(map[string][]byte, len(table))
	for _, elem := range table {
		byName[describedAs(elem)] = elem
	}
	found := make([][]byte, len(names))
	for i, name := range names {
		if found[i] = byName[name]; found[i] == nil {
			found[i] = resp.AppendNullArray(nil, proto)
		}
	}
	return found
}

// describedAs is the name of the command that an element of COMMAND describes.
func describedAs(elem []byte) string {
	row, ok := resp.Elements(elem)
	if !ok || len(row) == 0 {
		return ""
	}
	return lowerText(row[0])
}

// sendDescribed asks a node and answers with what merge makes of its reply, after the call has ended. verbs
// are those of the Table of now: another one may be in use when the node answers. It may be any node, for all
// are taken to be of one version.
func sendDescribed(c *commands.Call, merge func(proto int, reply []byte, verbs []*commands.Command) []byte) {
	proto, verbs := c.Client.Proto, c.Table.Verbs()
	c.Ask(pipe.Target{}, c.Raw, commands.Reread,
		func(reply []byte) []byte { return merge(proto, reply, verbs) })
}

// describedAll adds the verbs to the descriptions of all commands. An error of the node, such as NOPERM, is
// the answer as it stands.
func describedAll(proto int, reply []byte, verbs []*commands.Command) []byte {
	elems, ok := resp.Elements(reply)
	if !ok {
		return reply
	}
	var ours []byte
	for _, verb := range verbs {
		ours = appendCommand(ours, proto, verb)
	}
	n, body := beside(verbs, ours, elems, 1, describedAs)
	return append(redcon.AppendArray(make([]byte, 0, len(body)+16), n), body...)
}

// beside puts ours, what is told of the verbs, behind theirs, what a node tells of its commands: so many
// elements of each, the first of which has its name. It leaves out commands that a verb hides. each is 1 for
// an array of descriptions, and 2 for a map, whose elements are names and values in turn. n is how many
// entries body has.
func beside(
	verbs []*commands.Command, ours []byte, theirs [][]byte, each int, nameOf func(elem []byte) string,
) (n int, body []byte) {
	hidden := make(map[string]bool, len(verbs))
	for _, verb := range verbs {
		hidden[verb.Name] = true
	}
	n = len(verbs)
	for ; len(theirs) >= each; theirs = theirs[each:] {
		if !hidden[nameOf(theirs[0])] {
			body = append(body, bytes.Join(theirs[:each], nil)...)
			n++
		}
	}
	return n, append(body, ours...)
}

// commandDocs is COMMAND DOCS [name ...]. With servers that do not have it, the verbs are documented all the
// same. A name that is repeated stands in the answer, a map, only once; otherwise the answer could be a
// hundred times as long as the command.
func commandDocs(c *commands.Call) {
	names := c.Args[2:]
	verbs := c.Table.Verbs()
	if len(names) > 0 {
		names = once(names)
		verbs = slices.DeleteFunc(verbsNamed(c.Table, names),
			func(verb *commands.Command) bool { return verb == nil })
	}
	proto := c.Client.Proto
	var ours []byte
	for _, verb := range verbs {
		ours = resp.AppendBulks(ours, verb.Name)
		ours = appendDocs(ours, proto, verb)
	}
	// Verbs only: nobody need be asked.
	if len(names) > 0 && len(verbs) == len(names) {
		c.Reply(append(resp.AppendMap(nil, proto, len(verbs)), ours...))
		return
	}
	ask := c.Raw
	if len(names) < len(c.Args)-2 {
		ask = resp.AppendCommand(nil, append(slices.Clone(c.Args[:2]), names...)...)
	}
	c.Ask(pipe.Target{}, ask, commands.Reread, func(reply []byte) []byte {
		elems, ok := resp.Elements(reply)
		if !ok || len(elems) > 0 && elems[0][0] != '$' {
			elems = nil // a server older than 7.0
		}
		n, body := beside(verbs, ours, elems, 2, lowerText)
		return append(resp.AppendMap(make([]byte, 0, len(body)+16), proto, n), body...)
	})
}

// once returns the names without repetitions. Cases do not matter, as in Redis. Of several spellings the
// first one stays.
func once(names [][]byte) (each [][]byte) {
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if lower := strings.ToLower(string(name)); !seen[lower] {
			seen[lower] = true
			each = append(each, name)
		}
	}
	return each
}

// commandList is COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN glob]. Without a filter it is
// answered by the Table; with one the node picks, and the verbs that the filter fits are added.
func commandList(c *commands.Call) {
	verbs := c.Table.Verbs()
	switch {
	case len(c.Args) == 2:
		listed := c.Table.Listed()
		c.Reply(resp.AppendBulks(redcon.AppendArray(nil, len(listed)), listed...))
		return
	case len(c.Args) != 5 || !resp.IsWord(c.Args[2], "FILTERBY"):
		c.Reply(resp.ErrSyntax)
		return
	// no verb is of a module, and all are of one category
	case resp.IsWord(c.Args[3], "MODULE"),
		resp.IsWord(c.Args[3], "ACLCAT") && !resp.IsWord(c.Args[4], "LOCK"):
		verbs = nil
	case resp.IsWord(c.Args[3], "PATTERN"):
		verbs = matching(verbs, c.Args[4])
	}
	var ours []byte
	for _, verb := range verbs {
		ours = resp.AppendBulks(ours, verb.Name)
	}
	c.Ask(pipe.Target{}, c.Raw, commands.Reread, func(reply []byte) []byte {
		return resp.AppendElements(reply, len(verbs), ours)
	})
}

// matching are the verbs whose names match a pattern, in any mixture of cases. A pattern that is longer than
// any name matches none.
func matching(verbs []*commands.Command, pattern []byte) []*commands.Command {
	if len(pattern) > longestPattern {
		return nil
	}
	lower := bytes.ToLower(pattern)
	return slices.DeleteFunc(slices.Clone(verbs),
		func(verb *commands.Command) bool { return !glob.Match(lower, []byte(verb.Name)) })
}

// longestPattern is in bytes: matching is done on the loop, and its cost grows with the pattern.
const longestPattern = 1 << 10

// commandGetKeys is COMMAND GETKEYS and GETKEYSANDFLAGS command [arg ...]. The keys of a verb are found here,
// since no node knows it; all else is asked of a node. The errors have Redis's words. Keys of the command
// inside a GUARD are shown with the flags that GUARD has for its own key.
func commandGetKeys(c *commands.Call) []byte {
	args := c.Args[2:]
	verb, _ := c.Table.Resolve(args)
	if verb.Flags&commands.LockVerb == 0 {
		c.Forward(commands.AnySlot)
		return nil
	}
	keys := verb.KeyIndexes(args)
	switch {
	case !verb.Accepts(len(args)):
		return resp.ErrorLine("ERR Invalid number of arguments specified for command")
	case len(keys) == 0:
		return resp.ErrorLine("ERR The command has no key arguments")
	}
	flagged := strings.HasSuffix(c.Command.Name, "flags")
	out := redcon.AppendArray(nil, len(keys))
	for _, at := range keys {
		if !flagged {
			out = redcon.AppendBulk(out, args[at])
			continue
		}
		out = redcon.AppendArray(out, 2)
		out = redcon.AppendBulk(out, args[at])
		out = appendWords(out, c.Client.Proto, verb.Keys[0].Flags)
	}
	return out
}

// verbsNamed are the verbs, or subcommands of verbs ("lockctl|info"), of these
// names; nil stands for a name of something else.
func verbsNamed(t *commands.Table, names [][]byte) []*commands.Command {
	found := make([]*commands.Command, len(names))
	for i, name := range names {
		if c := t.Named(name); c != nil && c.Flags&commands.LockVerb != 0 {
			found[i] = c
		}
	}
	return found
}

// lowerText is the text of a string reply in lower case. It is "" for what is no reply.
func lowerText(elem []byte) string {
	v, _, _ := resp.Parse(elem)
	return strings.ToLower(v.Text())
}
