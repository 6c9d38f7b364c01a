package commands

import (
	"slices"
	"strings"

	"lockproxy/internal/glob"
	"lockproxy/internal/resp"
)

// This file checks rights by the rules of a user, as ACL GETUSER of Redis 6 gives them. Redis 6 has no
// DRYRUN, no selectors, and no separate rules for reading and writing. What cannot be told for certain is
// denied.

// judgeRules checks the right r by the reply of ACL GETUSER. v has the rules as a map. The refusals are in
// the words of Redis 6.
func (u RightsOf) judgeRules(r Right, v resp.Value) RightsVerdict {
	if v.Null() {
		return RightsVerdict{Refusal: errNoAuth, Gone: true}
	}
	const no = "NOPERM this user has no permissions to "
	c := u.table.Lookup(r[0])
	switch {
	case c == nil:
		return RightsVerdict{Refusal: UnknownCommand(r)}
	case c.askKeys || !allowsCommand(resp.Field(v, "commands").Text(), c, r):
		return RightsVerdict{Refusal: resp.ErrorLine(no+"run the '%s' command or its subcommand", c.Name)}
	}
	for _, i := range c.KeyIndexes(r) {
		if !allowsKey(v, r[i]) {
			return RightsVerdict{Refusal: resp.ErrorLine(no + "access one of the keys used as arguments")}
		}
	}
	channels := r[1:]
	switch {
	case c.Topics == noTopics:
		return RightsVerdict{}
	case c.Topics == TopicFirst:
		channels = r[1:2]
	}
	for _, channel := range channels {
		if !allowsChannel(v, channel, c.Topics == TopicPatterns) {
			return RightsVerdict{Refusal: resp.ErrorLine(no + "access one of the channels used as arguments")}
		}
	}
	return RightsVerdict{}
}

// allowsCommand says whether rules such as "-@all +@read -keys +config|get" allow r, the command c. Later
// rules win. A rule that takes a command away takes its subcommands away too.
func allowsCommand(rules string, c *Command, r Right) bool {
	all, subs := false, []string(nil)
	for _, rule := range strings.Fields(rules) {
		name, sub, isSub := strings.Cut(rule[1:], "|")
		switch {
		case name != "@all" && name != c.Name && !slices.Contains(c.categories, name):
		case rule[0] == '+' && isSub:
			subs = append(subs, sub)
		case rule[0] == '+':
			all = true
		default:
			all, subs = false, nil
		}
	}
	return all || len(r) > 1 && slices.ContainsFunc(subs,
		func(sub string) bool { return resp.IsWord(r[1], sub) })
}

// allowsKey says whether one of the patterns of a user fits the key.
func allowsKey(v resp.Value, key []byte) bool {
	return slices.ContainsFunc(resp.Field(v, "keys").Elems,
		func(pattern resp.Value) bool { return glob.Match(pattern.Str, key) })
}

// allowsChannel says whether rules allow a channel or a pattern. A pattern is allowed only if a rule is that
// very pattern. Redis 6.0 has no rules for channels.
func allowsChannel(v resp.Value, channel []byte, isPattern bool) bool {
	rules := resp.Field(v, "channels")
	if rules.Kind != '*' {
		return true
	}
	return slices.ContainsFunc(rules.Elems, func(rule resp.Value) bool {
		if isPattern && rule.Text() != "*" {
			return rule.Text() == string(channel)
		}
		return glob.Match(rule.Str, channel)
	})
}

// TopicUse says what the arguments of a command mean to rules for channels.
type TopicUse uint8

const (
	noTopics      TopicUse = iota
	TopicNames             // SUBSCRIBE
	TopicPatterns          // PSUBSCRIBE: a rule must allow the pattern itself
	TopicFirst             // PUBLISH: the first one is a channel
)
