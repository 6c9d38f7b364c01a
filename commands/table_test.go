package commands

import (
	"strings"
	"testing"
)

func TestLookup(t *testing.T) {
	table := redis7(t)
	for name, want := range map[string]string{
		"get": "get", "GET": "get", "gEt": "get", "ZRANGEBYSCORE": "zrangebyscore",
		"": "", "nosuch": "", "get ": "", "g\xc5t": "", "g%t": "", "GEORADIUSBYMEMBER_RO": "georadiusbymember_ro",
		strings.Repeat("x", 40): "", "{get": "", "@cl": "", "acl": "acl",
	} {
		got := table.Lookup([]byte(name))
		if (got == nil) != (want == "") || got != nil && got.Name != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

func TestIDsAreDense(t *testing.T) {
	for _, table := range []*Table{redis7(t, sampleVerbs()...), miniRedis(t, sampleVerbs()...)} {
		seen := make(map[string]bool)
		for i, c := range table.Commands() {
			if c.ID != i || seen[c.Name] {
				t.Errorf("command %d: %s has ID %d", i, c.Name, c.ID)
			}
			seen[c.Name] = true
		}
		for _, name := range []string{"get", "config|get", "hello", "reset", "lock", "lockctl|info", "unknown"} {
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
	for name, table := range map[string]*Table{"redis 7.0": redis7(t), "miniredis": miniRedis(t)} {
		for line, want := range map[string]Route{
			"GET k": ByKeys, "SORT k": ByKeys, "NOSUCH k": Refused, "NOSUCH": Refused, "MGET a b": Split, "MSETNX a b": ByKeys,
			"PING": Local, "HELLO 3": Local, "AUTH x": Local, "CLIENT SETNAME x": Local, "CLIENT SETINFO LIB-NAME x": Local, "CLIENT NOSUCH": Local,
			"CLIENT": Local, "SELECT 0": Local, "QUIT": Local, "RESET": Local, "COMMAND": Local, "COMMAND DOCS": Local, "COMMAND NOSUCH": Local,
			"CONFIG GET x": Local, "CONFIG REWRITE": Refused, "CONFIG NOSUCH": Local, "CLUSTER INFO": Local, "CLUSTER MEET": Local, "CLUSTER": Local, "READONLY": Local, "ASKING": Local,
			"DBSIZE": AllNodes, "KEYS *": AllNodes, "SCAN 0": Local, "FLUSHALL": AllNodes, "INFO": Local, "SCRIPT LOAD x": Local, "SCRIPT EXISTS x": Local,
			"SCRIPT KILL": Local, "SCRIPT DEBUG YES": Refused, "FUNCTION STATS": Local, "PUBLISH a b": Local, "TIME": AnyNode,
			"MULTI": Local, "EXEC": Local, "DISCARD": Local, "WATCH k": Local, "UNWATCH": Local,
			"BLPOP k 0": Blocks, "BRPOP k 0": Blocks, "BLMOVE a b LEFT LEFT 0": Blocks, "BRPOPLPUSH a b 0": Blocks, "BLMPOP 0 1 k LEFT": Blocks,
			"BZPOPMIN k 0": Blocks, "BZPOPMAX k 0": Blocks, "BZMPOP 0 1 k MIN": Blocks, "WAIT 0 0": Blocks, "WAITAOF 0 0 0": Blocks,
			"SUBSCRIBE c": Local, "PSUBSCRIBE c": Local, "SSUBSCRIBE c": Local, "UNSUBSCRIBE": Local, "PUNSUBSCRIBE": Local, "SUNSUBSCRIBE": Local,
			"PUBSUB CHANNELS": Local, "MONITOR": Local, "SYNC": Refused, "PSYNC": Refused, "REPLCONF": Refused, "SHUTDOWN": Refused,
			"REPLICAOF a 1": Refused, "SLAVEOF a 1": Refused, "FAILOVER": Refused, "MIGRATE a": Refused, "DEBUG SLEEP 1": Refused, "DEBUG": Refused,
			"MODULE LOAD x": Refused, "MODULE UNLOAD x": Refused, "MODULE LIST": AnyNode, "ACL SETUSER x": Local, "ACL WHOAMI": Local,
			"SAVE": Refused, "BGSAVE": AllNodes, "BGREWRITEAOF": AllNodes, "PFSELFTEST": Refused, "RESTORE-ASKING k": Refused, "SWAPDB 0 1": AnyNode,
			"CLIENT TRACKING ON": Local, "CLIENT CACHING YES": Local, "CLIENT REPLY OFF": Local, "CLIENT KILL x": Local, "CLIENT PAUSE 1": Local,
			"CLIENT UNPAUSE": Local, "CLIENT UNBLOCK 1": Local, "XREAD STREAMS k 0": Blocks, "CLIENT LIST": Local,
		} {
			if cmd, _ := table.Resolve(split(line)); cmd.Route != want {
				t.Errorf("%s: %s (%s): route %d, want %d", name, line, cmd.Name, cmd.Route, want)
			}
		}
	}
}

// A command of a module, or of a later Redis, that the upstream flags as blocking
// or as a subscription gets onto no shared connection, without a row of ours.
func TestFlagsKeepApart(t *testing.T) {
	describe := func(name, flag string) string {
		return "*6\r\n$" + string(rune('0'+len(name))) + "\r\n" + name + "\r\n:-2\r\n*1\r\n+" + flag + "\r\n:1\r\n:1\r\n:1\r\n"
	}
	table, err := NewTableOf([]byte("*3\r\n"+describe("mod.wait", "blocking")+describe("mod.sub", "pubsub")+describe("mod.get", "readonly")), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Route{"mod.wait": Blocks, "mod.sub": Refused, "mod.get": ByKeys} {
		if got := table.Lookup([]byte(name)).Route; got != want {
			t.Errorf("%s: route %d", name, got)
		}
	}
}

func TestRefusals(t *testing.T) {
	f := newFake(t)
	for line, want := range map[string]string{
		"SHUTDOWN":   "-ERR SHUTDOWN is not available through lockproxy: it stops the servers of the upstream; do that at each of them (refused-commands)\r\n",
		"PSYNC ? -1": "-ERR PSYNC is not available through lockproxy: it is for replicas; connect to the server for it\r\n",
	} {
		if got := f.do(line); got != want || len(f.sent) > 0 {
			t.Errorf("%s: %q, sent %q", line, got, f.sent)
		}
	}
}

func TestStreamsWithoutBlock(t *testing.T) {
	f := newFake(t)
	for _, line := range []string{"XREAD STREAMS block 0", "XREAD COUNT 1 STREAMS k $", "XREADGROUP GROUP block block STREAMS k >", "XREADGROUP GROUP g c STREAMS block >"} {
		if got := f.do(line); got != "+OK\r\n" {
			t.Errorf("%s: %q", line, got)
		}
	}
}

func TestBadTables(t *testing.T) {
	for _, reply := range []string{"", "+OK\r\n", "-ERR no\r\n", "*1\r\n*2\r\n$3\r\nget\r\n:2\r\n", "*1\r\n+x\r\n", "*2\r\n"} {
		if _, err := NewTableOf([]byte(reply), nil); err == nil {
			t.Errorf("%q makes a table", reply)
		}
	}
}
