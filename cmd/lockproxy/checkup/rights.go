package checkup

import (
	"fmt"
	"strings"

	"lockproxy/cmd/lockproxy/settings"
)

// onLocks are the commands that scripts run on the keys of locks, each with arguments that a server takes.
var onLocks = [][]string{
	{"GET", "KEY"}, {"SET", "KEY", "x"}, {"DEL", "KEY"}, {"EXISTS", "KEY"}, {"TYPE", "KEY"}, {"MGET", "KEY"},
	{"PTTL", "KEY"}, {"PEXPIRE", "KEY", "1"}, {"PEXPIREAT", "KEY", "1"},
	{"HGET", "KEY", "x"}, {"HMGET", "KEY", "x"}, {"HGETALL", "KEY"}, {"HKEYS", "KEY"}, {"HLEN", "KEY"},
	{"HSET", "KEY", "x", "x"}, {"HDEL", "KEY", "x"},
	{"GETRANGE", "KEY", "0", "1"}, {"SETRANGE", "KEY", "0", "x"}, {"APPEND", "KEY", "x"},
	{"PUBLISH", "KEY", "x"}, {"SUBSCRIBE", "KEY"},
}

// inIndex are those that the proxy runs on its index of the locks that are held.
var inIndex = [][]string{
	{"ZADD", "KEY", "1", "x"}, {"ZREM", "KEY", "x"}, {"ZREMRANGEBYSCORE", "KEY", "0", "1"},
	{"ZRANGE", "KEY", "0", "1"},
}

// tryRights asks the server whether its user may do all that with the keys of locks. Nothing is run.
func (n *checkedNode) tryRights(c *conversation, v *settings.Values) {
	asked := onLocks
	if n.part == member {
		// cut to its length, so that the table itself is not appended to
		asked = append(asked[:len(asked):len(asked)], inIndex...)
	}
	var questions [][]string
	for _, words := range asked {
		// ACL DRYRUN user command arg...: the key is the first argument of each of these.
		question := append([]string{"ACL", "DRYRUN", n.user}, words...)
		question[4] = v.Proxy.Locks.Prefix + "{lockproxy-check}"
		questions = append(questions, question)
	}
	for i, v := range c.askAll(questions...) {
		switch {
		// not a verdict: the server has no ACL DRYRUN, or forbids it
		case v.IsError():
			n.unjudged = v.Err()
			return
		case v.Text() != "OK":
			n.denied = append(n.denied, strings.ToLower(asked[i][0]))
		}
	}
}

// tellRights tells whether the user may use the keys of locks.
func (n *checkedNode) tellRights(v *settings.Values, say func(l Level, about, text, remedy string)) {
	prefix := v.Proxy.Locks.Prefix
	switch {
	case !n.keepsLocks(v):
	case n.unjudged != "" && !n.server.AtLeast(7, 0):
		say(OK, "rights", fmt.Sprintf("nobody knows whether user %q may use the keys of locks: this server "+
			"has no ACL DRYRUN", n.user), "")
	case n.unjudged != "":
		say(Warn, "rights", fmt.Sprintf("nobody knows whether user %q may use the keys of locks: %s", n.user,
			n.unjudged), "allow it +acl|dryrun")
	// Everything is denied: it is the pattern of keys that is missing, most likely, and not each single
	// command.
	case len(n.denied) == len(onLocks) || len(n.denied) == len(onLocks)+len(inIndex):
		say(Fail, "rights", fmt.Sprintf("user %q may not use keys and channels that begin with %s", n.user,
			prefix), n.allow(fmt.Sprintf("~%s* &*", prefix)))
	case len(n.denied) > 0:
		say(Fail, "rights", fmt.Sprintf("user %q may not run on keys and channels that begin with %s "+
			"these commands: %s", n.user, prefix, strings.Join(n.denied, ", ")),
			n.allow(fmt.Sprintf("~%s* &* +%s", prefix, strings.Join(n.denied, " +"))))
	default:
		say(OK, "rights", fmt.Sprintf("user %q may use keys and channels that begin with %s", n.user, prefix),
			"")
	}
}

// allow is the remedy where the user lacks rules.
func (n *checkedNode) allow(rules string) string {
	return "ACL SETUSER " + n.user + " " + rules + " (docs/security.md, run it closed)"
}
