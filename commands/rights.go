package commands

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"lockproxy/internal/resp"
)

// This file says which rights a user must have at the upstream so that the proxy answers a command of that
// user by itself. Commands that a node gets as they stand are not its concern: the node checks them.

// Right is the permission to run a command of Redis with these arguments.
type Right [][]byte

// NewRight makes a Right of words: the name of a command, and arguments that stand for those that it would
// have.
func NewRight(words ...string) Right {
	r := make(Right, len(words))
	for i, word := range words {
		r[i] = []byte(word)
	}
	return r
}

// Free says that the proxy need not ask for a right: Redis serves the command to everybody, or a node checks
// it.
func (c *Command) Free() bool { return c.Flags&(NoAuth|Judged) != 0 }

// Rights are the rights that args, a command, needs. There is at least one; errors name the first. From inner
// on they are those of a command that it runs, in the database of the client.
func (c *Command) Rights(args [][]byte) (all []Right, inner int) {
	all = rights(c, args)
	inner = len(all)
	if runs, at := c.Inner(args); runs != nil {
		all = append(all, rights(runs, args[at:])...)
	}
	return all, inner
}

// rights is Rights without those of an inner command. What has keys or channels is shown to the upstream as
// it is, since rules are about these.
func rights(c *Command, args [][]byte) []Right {
	switch {
	case c.Needs != nil:
		return c.Needs(args)
	case c.Route == Split:
		return []Right{withoutValues(c, args)}
	case len(c.Keys) > 0 || c.Flags&PubSub != 0:
		return []Right{args}
	}
	return []Right{withoutArguments(c, args)}
}

// withoutArguments is the right to a command that has no keys or channels in its arguments. Rules may name a
// subcommand or the first argument; the others are not shown to the upstream.
func withoutArguments(c *Command, args [][]byte) Right {
	short := make(Right, min(len(args), max(c.Arity, -c.Arity)+spareArguments))
	for i := range short {
		if short[i] = hiddenArgument; i < 2 {
			short[i] = args[i][:min(len(args[i]), maxFirstArgument)]
		}
	}
	return short
}

// maxFirstArgument is how many bytes of the first argument the upstream is asked about. No rule names a
// longer one.
const maxFirstArgument = 4 << 10

var hiddenArgument = []byte("*")

// spareArguments is how many arguments DRYRUN is given beyond what the command needs here: there it may need
// more.
const spareArguments = 4

// withoutValues is the right to a command that is cut by slot: its keys, without the values beside them.
func withoutValues(c *Command, args [][]byte) Right {
	keys := make(Right, len(args))
	for i := range keys {
		keys[i] = hiddenArgument
	}
	keys[0] = args[0]
	for _, i := range c.KeyIndexes(args) {
		keys[i] = args[i]
	}
	return keys
}

// FixedRights are rights that do not depend on the arguments.
func FixedRights(all ...Right) func([][]byte) []Right {
	return func([][]byte) []Right { return all }
}

// RightsOf asks the upstream about the rights of one of its users.
type RightsOf struct {
	user  string
	table *Table
	old   bool // before Redis 7.0, which has no DRYRUN: the rules are read
}

// NewRightsOf is for the user of that name.
func NewRightsOf(user string, s Server, t *Table) RightsOf {
	return RightsOf{user, t, !s.Upstream().AtLeast(7, 0)}
}

// Ask is the request that asks for r.
func (u RightsOf) Ask(r Right) []byte {
	if u.old {
		return resp.AppendCommandStrings(nil, "ACL", "GETUSER", u.user)
	}
	return resp.AppendCommand(nil, append([][]byte{[]byte("ACL"), []byte("DRYRUN"), []byte(u.user)}, r...)...)
}

// RightsVerdict is what the upstream said about the rights of a user.
type RightsVerdict struct {
	Refusal []byte // the reply to the command; nil: it is allowed
	Gone    bool   // there is no such user any more
	Lacks   string // the right that the proxy's own user would need; "": it has it
}

// Judge reads the reply to Ask. args is the command that needs r. It judges without asking again. Whatever it
// does not understand is a refusal.
func (u RightsOf) Judge(c *Command, args [][]byte, r Right, reply []byte) RightsVerdict {
	v, _, err := resp.Parse(reply)
	switch text := v.Text(); {
	case err != nil:
		return RightsVerdict{Refusal: resp.ErrUnexpected}
	case strings.HasPrefix(v.Err(), "NOPERM"):
		lacks := "acl|dryrun"
		if u.old {
			lacks = "acl|getuser"
		}
		return RightsVerdict{Refusal: Unable(lacks), Lacks: lacks}
	case u.old && v.Err() == "":
		return u.judgeRules(r, v)
	case v.Err() == "" && text == "OK":
		return RightsVerdict{}
	case v.Err() == "":
		return RightsVerdict{Refusal: denied(c, text)}
	case strings.HasPrefix(v.Err(), "ERR User '") && strings.HasSuffix(v.Err(), "not found"):
		return RightsVerdict{Refusal: errNoAuth, Gone: true}
	// the proxy has it, this Redis has not
	case strings.HasPrefix(v.Err(), "ERR Command '") && c.Flags&LockVerb == 0:
		if len(args) > 1 && (c.Subs != nil || strings.Contains(c.Name, "|")) {
			return RightsVerdict{Refusal: unknownSubcommand(args)}
		}
		return RightsVerdict{Refusal: UnknownCommand(args)}
	}
	return RightsVerdict{Refusal: bytes.Clone(reply)}
}

// denied is the error for a command of which DRYRUN says text, in the words that the server would use in an
// error: it does not name the key there.
func denied(c *Command, text string) []byte {
	who, what, _ := strings.Cut(text, " has no permissions to ")
	since72 := strings.HasPrefix(who, "User ")
	switch kind := what[strings.LastIndexByte(what, ' ')+1:]; {
	case kind == "command" && since72:
	case kind == "command":
		text = "this user has no permissions to " + what
	case since72:
		text = "No permissions to access a " + kind
	default:
		text = "this user has no permissions to access one of the " + kind + "s used as arguments"
	}
	switch {
	case c.Flags&RunsQueue != 0:
		return resp.ErrorLine("EXECABORT Transaction discarded because of: NOPERM %s", text)
	case c.Flags&LockVerb != 0:
		text += " (" + strings.ToUpper(strings.ReplaceAll(c.Name, "|", " ")) + " asks for it)"
	}
	return resp.ErrorLine("NOPERM %s", text)
}

// Unable is the error if the proxy's own user lacks the right to ask what others may do.
func Unable(lacks string) []byte {
	return resp.ErrorLine("NOPERM lockproxy cannot ask what this user may do: "+
		"its own user at the upstream needs the right to %s (+%s)",
		strings.ToUpper(strings.ReplaceAll(lacks, "|", " ")), lacks)
}

var errNoAuth = []byte("-NOAUTH Authentication required.\r\n")

// AskUsers is the request for all users and their rules.
var AskUsers = resp.AppendCommandStrings(nil, "ACL", "LIST")

// Users reads a reply to AskUsers: the rules of all users, by name. lacks is as in RightsVerdict.
func Users(reply []byte) (rules map[string]string, lacks string, ok bool) {
	v, _, err := resp.Parse(reply)
	switch {
	case strings.HasPrefix(v.Err(), "NOPERM"):
		return nil, "acl|list", false
	case err != nil || v.Err() != "" || v.Kind != '*':
		return nil, "", false
	}
	rules = make(map[string]string, len(v.Elems))
	for _, elem := range v.Elems {
		if words := strings.SplitN(elem.Text(), " ", 3); len(words) == 3 && words[0] == "user" {
			rules[words[1]] = words[2]
		}
	}
	return rules, "", true
}

// LetsIn says whether rules, from Users, are of a user that is switched on and has this password. Redis keeps
// passwords as their SHA256 in hex digits, with # in front.
func LetsIn(rules, password string) bool {
	sum := sha256.Sum256([]byte(password))
	words := strings.Fields(rules)
	return slices.Contains(words, "on") &&
		(slices.Contains(words, "nopass") || slices.Contains(words, "#"+hex.EncodeToString(sum[:])))
}
