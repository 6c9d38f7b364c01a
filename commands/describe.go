package commands

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"lockproxy/internal/resp"
)

// errTable says that the upstream's COMMAND reply cannot be understood.
var errTable = errors.New("commands: unexpected reply to COMMAND")

// describe makes Commands of the upstream's reply to COMMAND in RESP2. Since Redis 7.0 that has ten elements
// for each command, with key specs and subcommands; before, six or seven. An entry that is Null, as COMMAND
// INFO has for unknown names, is passed over.
func describe(reply []byte) ([]*Command, error) {
	v, _, err := resp.Parse(reply)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTable, err)
	}
	if v.Kind != '*' {
		return nil, fmt.Errorf("%w: %.80q", errTable, reply)
	}
	return describeAll(v.Elems)
}

func describeAll(rows []resp.Value) ([]*Command, error) {
	var all []*Command
	for _, row := range rows {
		if row.Null() {
			continue
		}
		c, err := describeOne(row.Elems)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// Positions in the description of one command.
const (
	describedName = iota
	describedArity
	describedFlags
	describedFirst
	describedLast
	describedStep
	describedCategories
	describedTips
	describedKeys
	describedSubs
	describedAll
)

// describeOne makes a Command of the description of one. Route and what else is lockproxy's own are set
// later, by its row. An element that is missing, as in older versions, leaves its field empty.
func describeOne(row []resp.Value) (*Command, error) {
	if len(row) <= describedStep {
		return nil, fmt.Errorf("%w: %d elements describe a command", errTable, len(row))
	}
	old := len(row) <= describedKeys
	row = slices.Concat(row, make([]resp.Value, describedAll))
	c := &Command{Row: Row{Name: strings.ToLower(row[describedName].Text()),
		Arity: int(row[describedArity].Int)}}
	for _, flag := range row[describedFlags].Elems {
		c.Flags |= flagNames[flag.Text()]
	}
	for _, category := range row[describedCategories].Elems {
		c.categories = append(c.categories, category.Text())
	}
	// Before rows add flags of their own, which say something about the proxy.
	c.data = c.Flags&(ReadOnly|Write) != 0
	if old {
		c.Keys = legacyKeys(c, int(row[describedFirst].Int), int(row[describedLast].Int),
			int(row[describedStep].Int))
		return c, nil
	}
	c.tips = make(map[string]string)
	for _, tip := range row[describedTips].Elems {
		name, policy, _ := strings.Cut(tip.Text(), ":")
		c.tips[name] = policy
	}
	for _, spec := range row[describedKeys].Elems {
		c.Keys = append(c.Keys, describeKeys(spec))
	}
	subs, err := describeAll(row[describedSubs].Elems)
	if err != nil {
		return nil, err
	}
	// So a subcommand that is missing is an error without asking a node.
	c.container = len(subs) > 0
	for _, sub := range subs {
		c.AddSub(sub)
	}
	return c, nil
}

// flagNames are the flags of COMMAND that matter here. "no_auth" is not among them: which commands are served
// before AUTH is said by rows.
var flagNames = map[string]Flags{
	"readonly":     ReadOnly,
	"write":        Write,
	"blocking":     Blocking,
	"movablekeys":  MovableKeys,
	"pubsub":       PubSub,
	"admin":        Admin,
	"no_multi":     NoMulti,
	"skip_monitor": SkipMonitor,
	"noscript":     NoScript,
	"module":       OfModule,
}

// describeKeys makes a KeySpec of one map of Redis 7, flat as RESP2 has it.
func describeKeys(v resp.Value) KeySpec {
	k := KeySpec{Incomplete: slices.ContainsFunc(resp.Field(v, "flags").Elems,
		func(flag resp.Value) bool { return flag.Text() == "incomplete" })}
	search, spec := kindAndSpec(resp.Field(v, "begin_search"))
	switch search {
	case "index":
		k.Begin = intOf(spec, "index")
	case "keyword":
		k.Keyword, k.Begin = resp.Field(spec, "keyword").Text(), intOf(spec, "startfrom")
	default:
		k.Unknown = true
	}
	find, spec := kindAndSpec(resp.Field(v, "find_keys"))
	switch find {
	case "range":
		k.Last, k.Step, k.Limit = intOf(spec, "lastkey"), intOf(spec, "keystep"), intOf(spec, "limit")
	case "keynum":
		k.Counted = true
		k.Count, k.First, k.Step = intOf(spec, "keynumidx"), intOf(spec, "firstkey"),
			intOf(spec, "keystep")
	default:
		k.Unknown = true
	}
	return k
}

// kindAndSpec takes one half of a key spec apart: how it searches, and the numbers or words for that.
func kindAndSpec(v resp.Value) (kind string, spec resp.Value) {
	return resp.Field(v, "type").Text(), resp.Field(v, "spec")
}

// intOf is a number of a map, 0 without one.
func intOf(v resp.Value, name string) int { return int(resp.Field(v, name).Int) }

// legacyKeys is what a server older than 7.0 says of the keys. Positions of older versions are absolute,
// those of a KeySpec relative to its first key, unless they count from the end.
func legacyKeys(c *Command, first, last, step int) []KeySpec {
	if known, ok := movableKeys[c.Name]; ok {
		return known
	}
	if c.Flags&MovableKeys != 0 {
		return []KeySpec{{Unknown: true}}
	}
	if first <= 0 {
		return nil
	}
	if last >= 0 {
		last -= first
	}
	return []KeySpec{{Begin: first, Last: last, Step: step}}
}

// movableKeys are key specs, as Redis 7 describes them, for commands whose keys older servers find but do
// not describe. Any other such command costs these servers a COMMAND GETKEYS each time.
var movableKeys = map[string][]KeySpec{
	"eval":        counted(2),
	"evalsha":     counted(2),
	"zunionstore": append(counted(2), KeySpec{Begin: 1}),
	"zinterstore": append(counted(2), KeySpec{Begin: 1}),
	"zdiffstore":  append(counted(2), KeySpec{Begin: 1}),
	"zunion":      counted(1),
	"zinter":      counted(1),
	"zdiff":       counted(1),
	"xread":       {{Keyword: "STREAMS", Begin: 1, Last: -1, Limit: 2}},
	"xreadgroup":  {{Keyword: "STREAMS", Begin: 4, Last: -1, Limit: 2}},
}

// counted describes keys behind their number, which is argument i.
func counted(i int) []KeySpec { return []KeySpec{{Begin: i, Counted: true, First: 1}} }
