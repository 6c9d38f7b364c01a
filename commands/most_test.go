package commands_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"lockproxy/commands"
	"lockproxy/commands/lock"
	"lockproxy/internal/resp"
)

// Each command that the proxy answers itself takes a limited number of arguments, or does no more with
// them than to pass them on.
func TestMostArguments(t *testing.T) {
	passes := map[string]bool{ // to nodes, or looks at the first ones alone
		"acl|cat": true, "acl|deluser": true, "acl|load": true, "acl|log": true, "acl|save": true,
		"acl|setuser": true, "client": true, "cluster": true, "command": true, "config": true, "debug": true,
		"latency|history": true, "latency|histogram": true,
		"latency|graph": true, "memory|stats": true,
		"ping": true, "quit": true,
		"post": true, "host:": true, "cluster|addslots": true, "cluster|addslotsrange": true,
		"cluster|delslots":      true,
		"cluster|delslotsrange": true, "cluster|failover": true, "cluster|meet": true,
		"cluster|myshardid":            true,
		"cluster|cancelslotmigrations": true, "cluster|flushslot": true,
		"cluster|migrateslots": true, "cluster|syncslots": true,
		"cluster|reset": true, "cluster|setslot": true, "command|getkeys": true,
		"command|getkeysandflags": true,
		"eval":                    true, "eval_ro": true, "failover": true, "function|kill": true,
		"function|load":  true,
		"function|stats": true, "pubsub|channels": true, "pubsub|numpat": true,
		"pubsub|shardchannels": true, "replicaof": true, "slaveof": true, "script|flush": true,
		"script|kill": true, "slowlog|len": true, "slowlog|reset": true,
		"watch": true,
	}
	for _, c := range redis7(t, sampleVerbs()...).Commands() {
		if c.Route == commands.Local && c.Arity < 0 && !c.TooLong(math.MaxInt) && !passes[c.Name] {
			t.Errorf("%s takes any number of arguments", c.Name)
		}
	}
}

// More than that is refused by name, and one argument less is not.
func TestTooManyArguments(t *testing.T) {
	f := sessionOver(t, redis7(t, sampleVerbs()...),
		saying("*0\r\n"))
	for line, most := range map[string]int{
		"COMMAND INFO": commands.MaxNames, "CLIENT LIST ID": commands.MaxIDs,
		"CONFIG GET": commands.MaxOptions, "LOCK": commands.MaxOptions,
		"CLIENT TRACKING ON": commands.MaxOptions, "SUBSCRIBE": commands.MaxIDs,
		"SCRIPT EXISTS": commands.MaxIDs, "PUBSUB NUMSUB": commands.MaxTopics,
		"PUBSUB SHARDNUMSUB": commands.MaxTopics,
	} {
		words := strings.Fields(line)
		for len(words) < most {
			words = append(words, "1")
		}
		if got := f.Args(words...); strings.HasPrefix(got, "-ERR too many") {
			t.Errorf("%s with %d arguments: %s", line, most, got)
		}
		if got := f.Args(append(words, "1")...); !strings.HasPrefix(got, "-ERR too many arguments for '") {
			t.Errorf("%s with %d arguments: %.100q", line, most+1, got)
		}
	}
}

// TestLongCommandsOfTheProxy proves that what the proxy answers itself has a bound on its length, unless it
// carries data.
func TestLongCommandsOfTheProxy(t *testing.T) {
	const mostBytes = 1 << 20
	table := redis7(t, lock.Verbs(lock.Lockers{})...)
	for line, refused := range map[string]bool{
		"CLIENT SETNAME x": true, "CONFIG GET x": true, "LOCK x": true, "LOCKCTL LIST": true, "INFO": true,
		"SCAN 0": true,
		"ECHO x": false, "PUBLISH a b": false, "EVAL x 0": false, "SUBSCRIBE x": false, "GET x": false,
		"MGET x":   false,
		"FLUSHALL": false, "BLPOP x 0": false,
	} {
		c, _ := table.Resolve(wordsOf(line))
		if c.Excess(wordsOf(line), mostBytes) != nil {
			t.Errorf("%s of %d bytes is refused", line, mostBytes)
		}
		if got := c.Excess(wordsOf(line), mostBytes+1); (got != nil) != refused {
			t.Errorf("%s of %d bytes: %q", line, mostBytes+1, got)
		}
	}
}

// A channel or a pattern is bounded wherever one is named, in its length and in what it costs a node; data
// beside it are not.
func TestLongChannels(t *testing.T) {
	table := redis7(t, lock.Verbs(lock.Lockers{})...)
	names := strings.NewReplacer(
		"LONG", strings.Repeat("c", commands.MaxChannel+1), "FITS", strings.Repeat("c", commands.MaxChannel),
		"DEAR", "*"+strings.Repeat("c", commands.DearestPattern+1),
		"PAID", "*"+strings.Repeat("c", commands.DearestPattern),
	)
	for line, refused := range map[string]bool{
		"SUBSCRIBE LONG": true, "SUBSCRIBE a LONG": true, "SUBSCRIBE FITS": false, "PSUBSCRIBE LONG": true,
		"SSUBSCRIBE LONG": true, "PUBLISH LONG x": true, "PUBLISH x LONG": false, "SPUBLISH LONG x": true,
		"SPUBLISH x LONG": false, "PUBSUB CHANNELS LONG": true, "PUBSUB SHARDCHANNELS LONG": true,
		"SET LONG LONG": false, "ECHO LONG": false, "SUBSCRIBE DEAR": false, "PUBLISH DEAR x": false,
		"PSUBSCRIBE DEAR": true, "PSUBSCRIBE a DEAR": true, "PSUBSCRIBE PAID": false, "KEYS DEAR": true,
		"KEYS PAID": false, "SCAN 0 MATCH DEAR": true, "SCAN 0 MATCH PAID COUNT 1 MATCH DEAR": true,
		"SCAN 0 MATCH FITS": false, "SCAN 0 MATCH LONG": true, "SSCAN k 0 COUNT 9 match DEAR": true,
		"HSCAN MATCH 0 MATCH PAID": false, "HSCAN k 0 MATCH DEAR": true, "ZSCAN k 0 MATCH LONG": true,
		"FUNCTION LIST LIBRARYNAME DEAR": true, "LOCKCTL LIST MATCH DEAR": true, "SCAN 0 MATCH": false,
		"PUBSUB CHANNELS DEAR": false, // which the proxy compares
	} {
		args := wordsOf(names.Replace(line))
		c, _ := table.Resolve(args)
		n := 0
		for _, arg := range args {
			n += len(arg)
		}
		if got := c.Excess(args, n); (got != nil) != refused {
			t.Errorf("%s: %.200q", line, got)
		}
	}
}

// Each pattern that a command has, as COMMAND DOCS tells, has a price, but for those that no node compares
// with names of any length.
func TestPatternsHaveAPrice(t *testing.T) {
	table := redis7(t, lock.Verbs(lock.Lockers{})...)
	free := map[string]bool{
		"sort": true, "sort_ro": true, "punsubscribe": true, "command|list": true, // nothing is compared
		"pubsub|channels": true, "pubsub|shardchannels": true, "lockctl|watch": true, // the proxy compares
	}
	seen := 0
	check := func(name string, docs resp.Value) {
		for _, arg := range resp.Field(docs, "arguments").Elems {
			if resp.Field(arg, "type").Text() != "pattern" {
				continue
			}
			seen++
			command, sub, _ := strings.Cut(name, "|")
			args := wordsOf(strings.TrimSpace(command + " " + sub))
			if c, _ := table.Resolve(args); c.Globs == nil && !free[name] {
				t.Errorf("the pattern of %s has no price", name)
			}
		}
	}
	eachDocs(t, testdata(t, "docs-7.0.15.resp"), check)
	f := sessionOver(t, table, saying("*0\r\n"))
	eachDocs(t, []byte(f.Do("COMMAND DOCS lockctl")), check)
	if seen < 10 {
		t.Errorf("%d patterns", seen)
	}
}

// A name that is repeated makes the answer of COMMAND DOCS no longer.
func TestCommandDocsOfRepeatedNames(t *testing.T) {
	var asked []string
	f := sessionOver(t, redis7(t, sampleVerbs()...),
		func(args []string) string {
			asked = args
			return "*2\r\n$3\r\nget\r\n*0\r\n"
		})
	for _, names := range []string{"lock", "lock get"} {
		once := f.Do("COMMAND DOCS " + names)
		if often := f.Do("COMMAND DOCS" + strings.Repeat(" "+names, 100) + " LOCK"); often != once {
			t.Errorf("%s: %d bytes, and repeated %d bytes", names, len(once), len(often))
		}
	}
	if want := []string{"COMMAND", "DOCS", "lock", "get"}; !slices.Equal(asked, want) {
		t.Errorf("the node was asked %q, want %q", asked, want)
	}
}

func TestCommandListPattern(t *testing.T) {
	f := sessionOver(t, redis7(t, sampleVerbs()...),
		saying("*0\r\n"))
	for pattern, want := range map[string]string{
		"LOCK":                     "*1\r\n$4\r\nlock\r\n",
		"*ctl":                     "*1\r\n$7\r\nlockctl\r\n",
		"lock[^x]*":                "*1\r\n$7\r\nlockctl\r\n",
		"[^l]*":                    "*0\r\n",
		strings.Repeat("*l", 5000): "*0\r\n",
	} {
		if got := f.Do("COMMAND LIST FILTERBY PATTERN " + pattern); got != want {
			t.Errorf("%.20s: %q, want %q", pattern, got, want)
		}
	}
}
