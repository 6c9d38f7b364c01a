package commands_test

import (
	"strings"
	"testing"

	"lockproxy/commands"
	"lockproxy/commands/routes"
)

func TestLookup(t *testing.T) {
	table := redis7(t)
	for name, want := range map[string]string{
		"get": "get", "GET": "get", "gEt": "get", "ZRANGEBYSCORE": "zrangebyscore",
		"": "", "nosuch": "", "get ": "", "g\xc5t": "", "g%t": "",
		"GEORADIUSBYMEMBER_RO":  "georadiusbymember_ro",
		strings.Repeat("x", 40): "", "{get": "", "@cl": "", "acl": "acl",
	} {
		got := table.Lookup([]byte(name))
		if (got == nil) != (want == "") || got != nil && got.Name != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

func TestIDsAreDense(t *testing.T) {
	for _, table := range []*commands.Table{redis7(t, sampleVerbs()...),
		miniRedis(t, sampleVerbs()...)} {
		seen := make(map[string]bool)
		for i, c := range table.Commands() {
			if c.ID != i || seen[c.Name] {
				t.Errorf("command %d: %s has ID %d", i, c.Name, c.ID)
			}
			seen[c.Name] = true
		}
		for _, name := range []string{"get", "config|get", "hello", "reset", "lock", "lockctl|info",
			"unknown"} {
			if !seen[name] {
				t.Errorf("%s is missing", name)
			}
		}
	}
}

// A table never writes into the commands that it is given: many tables are made.
func TestVerbsAreCopied(t *testing.T) {
	verbs := sampleVerbs()
	a, b := redis7(t, verbs...), miniRedis(t, verbs...)
	if a.Lookup([]byte("lock")) == b.Lookup([]byte("lock")) || a.Lookup([]byte("lock")) == verbs[0] {
		t.Error("tables share a command")
	}
	if x, y := a.Lookup([]byte("lock")).ID, b.Lookup([]byte("lock")).ID; x == y || verbs[0].ID != 0 {
		t.Errorf("IDs %d, %d, %d", x, y, verbs[0].ID)
	}
}

// What every client may say at first must never be forwarded, and what a shared
// connection cannot carry must never get onto one, whatever the upstream's age.
func TestRoutes(t *testing.T) {
	for name, table := range map[string]*commands.Table{"redis 7.0": redis7(t),
		"miniredis": miniRedis(t)} {
		for line, want := range map[string]commands.Route{
			"GET k": commands.ByKeys, "SORT k": commands.ByKeys, "NOSUCH k": commands.Refused,
			"NOSUCH": commands.Refused, "MGET a b": commands.Split, "MSETNX a b": commands.ByKeys,
			"PING": commands.Local, "HELLO 3": commands.Local, "AUTH x": commands.Local,
			"CLIENT SETNAME x": commands.Local, "CLIENT SETINFO LIB-NAME x": commands.Local,
			"CLIENT NOSUCH": commands.Local,
			"CLIENT":        commands.Local, "SELECT 0": commands.Local, "QUIT": commands.Local,
			"RESET": commands.Local, "COMMAND": commands.Local, "COMMAND DOCS": commands.Local,
			"COMMAND NOSUCH": commands.Local,
			"CONFIG GET x":   commands.Local, "CONFIG REWRITE": commands.Refused,
			"CONFIG NOSUCH": commands.Local, "CLUSTER INFO": commands.Local, "CLUSTER MEET": commands.Local,
			"CLUSTER": commands.Local, "READONLY": commands.Local, "ASKING": commands.Local,
			"DBSIZE": commands.AllNodes, "KEYS *": commands.AllNodes, "SCAN 0": commands.Local,
			"FLUSHALL": commands.AllNodes, "INFO": commands.Local, "SCRIPT LOAD x": commands.Local,
			"SCRIPT EXISTS x": commands.Local,
			"SCRIPT KILL":     commands.Local, "SCRIPT DEBUG YES": commands.Refused,
			"FUNCTION STATS": commands.Local, "PUBLISH a b": commands.Local, "TIME": commands.AnyNode,
			"MULTI": commands.Local, "EXEC": commands.Local, "DISCARD": commands.Local,
			"WATCH k": commands.Local, "UNWATCH": commands.Local,
			"BLPOP k 0": commands.Blocks, "BRPOP k 0": commands.Blocks,
			"BLMOVE a b LEFT LEFT 0": commands.Blocks, "BRPOPLPUSH a b 0": commands.Blocks,
			"BLMPOP 0 1 k LEFT": commands.Blocks,
			"BZPOPMIN k 0":      commands.Blocks, "BZPOPMAX k 0": commands.Blocks,
			"BZMPOP 0 1 k MIN": commands.Blocks, "WAIT 0 0": commands.Blocks,
			"WAITAOF 0 0 0": commands.Blocks,
			"SUBSCRIBE c":   commands.Local, "PSUBSCRIBE c": commands.Local, "SSUBSCRIBE c": commands.Local,
			"UNSUBSCRIBE": commands.Local, "PUNSUBSCRIBE": commands.Local, "SUNSUBSCRIBE": commands.Local,
			"PUBSUB CHANNELS": commands.Local, "MONITOR": commands.Local, "SYNC": commands.Refused,
			"PSYNC": commands.Refused, "REPLCONF": commands.Refused, "SHUTDOWN": commands.Refused,
			"REPLICAOF a 1": commands.Refused, "SLAVEOF a 1": commands.Refused, "FAILOVER": commands.Refused,
			"MIGRATE a": commands.Refused, "DEBUG SLEEP 1": commands.Refused, "DEBUG": commands.Refused,
			"MODULE LOAD x": commands.Refused, "MODULE UNLOAD x": commands.Refused,
			"MODULE LIST": commands.AnyNode, "ACL SETUSER x": commands.Local, "ACL WHOAMI": commands.Local,
			"SAVE": commands.Refused, "BGSAVE": commands.AllNodes, "BGREWRITEAOF": commands.AllNodes,
			"PFSELFTEST": commands.Refused, "RESTORE-ASKING k": commands.Refused,
			"SWAPDB 0 1":         commands.AnyNode,
			"CLIENT TRACKING ON": commands.Local, "CLIENT CACHING YES": commands.Local,
			"CLIENT REPLY OFF": commands.Local, "CLIENT KILL x": commands.Local,
			"CLIENT PAUSE 1": commands.Local,
			"CLIENT UNPAUSE": commands.Local, "CLIENT UNBLOCK 1": commands.Local,
			"XREAD STREAMS k 0": commands.Blocks, "CLIENT LIST": commands.Local,
		} {
			if cmd, _ := table.Resolve(wordsOf(line)); cmd.Route != want {
				t.Errorf("%s: %s (%s): route %d, want %d", name, line, cmd.Name, cmd.Route, want)
			}
		}
	}
}

// A command of a module, or of a later Redis, that the upstream flags as blocking
// or as a subscription gets onto no shared connection, without a row of ours.
func TestFlagsKeepApart(t *testing.T) {
	describe := func(name, flag string) string {
		return "*6\r\n$" + string(rune('0'+len(name))) + "\r\n" + name + "\r\n:-2\r\n*1\r\n+" + flag +
			"\r\n:1\r\n:1\r\n:1\r\n"
	}
	table, err := routes.NewTable([]byte("*3\r\n"+describe("mod.wait", "blocking")+describe("mod.sub",
		"pubsub")+describe("mod.get", "readonly")), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]commands.Route{"mod.wait": commands.Blocks,
		"mod.sub": commands.Refused, "mod.get": commands.ByKeys} {
		if got := table.Lookup([]byte(name)).Route; got != want {
			t.Errorf("%s: route %d", name, got)
		}
	}
}

func TestRefusals(t *testing.T) {
	f := newSession(t)
	for line, want := range map[string]string{
		"SHUTDOWN": "-ERR SHUTDOWN is not available through lockproxy: it stops the servers of the " +
			"upstream; do that at each of them (refused-commands)\r\n",
		"PSYNC ? -1": "-ERR PSYNC is not available through lockproxy: it is for replicas; connect to the " +
			"server for it\r\n",
	} {
		if got := f.Do(line); got != want || len(f.Sent) > 0 {
			t.Errorf("%s: %q, sent %q", line, got, f.Sent)
		}
	}
}

func TestStreamsWithoutBlock(t *testing.T) {
	f := newSession(t)
	for _, line := range []string{"XREAD STREAMS block 0", "XREAD COUNT 1 STREAMS k $",
		"XREADGROUP GROUP block block STREAMS k >", "XREADGROUP GROUP g c STREAMS block >"} {
		if got := f.Do(line); got != "+OK\r\n" {
			t.Errorf("%s: %q", line, got)
		}
	}
}

func TestBadTables(t *testing.T) {
	for _, reply := range []string{"", "+OK\r\n", "-ERR no\r\n", "*1\r\n*2\r\n$3\r\nget\r\n:2\r\n",
		"*1\r\n+x\r\n", "*2\r\n"} {
		if _, err := routes.NewTable([]byte(reply), nil); err == nil {
			t.Errorf("%q makes a table", reply)
		}
	}
}
