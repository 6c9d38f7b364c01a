package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// rightsSample is one call of a command whose rights are looked at.
type rightsSample struct {
	name  string // of the command, "container|sub"
	args  []string
	apart bool // it needs a connection of its own

	readOnly bool // as COMMAND tells
}

func (s rightsSample) String() string { return strings.Join(s.args, " ") }

// rightsCalls stand for the calls of testdata/bytes of the same commands: those would wait, or would hurt the
// test.
var rightsCalls = map[string][]string{
	"acl|deluser":     {"nosuch"},
	"acl|load":        {""},
	"acl|setuser":     {"someone off"},
	"auth":            {"x", "nosuch x"},
	"blmove":          {"k l LEFT LEFT 0.01"},
	"blmpop":          {"0.01 1 k LEFT", "0.01 2 k l RIGHT"},
	"blpop":           {"k 0.01", "k l 0.01"},
	"brpop":           {"k 0.01"},
	"brpoplpush":      {"k l 0.01"},
	"bzmpop":          {"0.01 1 k MIN"},
	"bzpopmax":        {"k 0.01"},
	"bzpopmin":        {"k l 0.01"},
	"client|kill":     {"1.2.3.4:5", "ID 999999999 SKIPME no", "USER nosuch"},
	"client|pause":    {"1", "1 WRITE"},
	"client|reply":    {"ON"},
	"client|tracking": {"ON", "OFF", "ON BCAST PREFIX app:", "ON BCAST"},
	"client|unblock":  {"999999999"},
	"config|set":      {"maxclients 10000", "requirepass x", "client-output-buffer-limit x"},
	"copy":            {"k l", "k l DB 1 REPLACE"},
	"eval": {"return{redis.call('GET','other:secret')} 0", "return{redis.call('SET',KEYS[1],'1')} 1 k",
		"redis.call('SELECT','1')return{redis.call('GET',KEYS[1])} 1 k", "return{} 0"},
	"hello":        {"", "2", "3", "3 SETNAME x"},
	"mset":         {"k 1", "k 1 l 2"},
	"psubscribe":   {"app:*", "app:news", "*", "app:news secret"},
	"publish":      {"app:news x", "secret x"},
	"punsubscribe": {"", "app:*"},
	"select":       {"0", "1"},
	"sort": {"k", "k BY w_* GET o_*", "k BY nosort GET other:* GET #", "k BY nosort ALPHA", "k BY *",
		"k LIMIT 0 1 GET # STORE l", "k ALPHA STORE l"},
	"sort_ro":      {"k", "k BY w_*", "k BY nosort GET other:*", "k BY nosort"},
	"spublish":     {"app:news x", "secret x"},
	"ssubscribe":   {"app:news", "secret"},
	"subscribe":    {"app:news", "secret", "app:news secret"},
	"sunsubscribe": {"", "app:news"},
	"unsubscribe":  {"", "app:news"},
	"wait":         {"0 1", "1 1"},
	"xread":        {"STREAMS k 0", "BLOCK 1 STREAMS k $", "STREAMS k l 0 0"},
	"xreadgroup":   {"GROUP g c STREAMS k >", "GROUP g c BLOCK 1 STREAMS k l > >"},
}

// rightsNewer are calls of commands that testdata/bytes does not have, since Redis 7.0 has not.
var rightsNewer = []struct{ names, call string }{
	{"hexpire hpexpire hexpireat hpexpireat", "k 100 FIELDS 1 f"},
	{"hexpiretime hpexpiretime hpersist hpttl httl hgetdel hgetex", "k FIELDS 1 f"},
	{"hsetex", "k FIELDS 1 f v"},
	{"vadd", "k VALUES 2 1 2 e"},
	{"vcard vdim vinfo vrandmember", "k"},
	{"vemb vgetattr vismember vlinks vrem", "k e"},
	{"vsetattr", "k e {}"},
	{"vsim", "k ELE e"},
	{"waitaof", "0 0 1"},
	{"delifeq", "k v"},
	{"msetex", "1 k v EX 10"},
	{"script|show", "ffffffffffffffffffffffffffffffffffffffff"},
	{"cluster|myshardid cluster|getslotmigrations cluster|cancelslotmigrations commandlog|help", ""},
	{"commandlog|len commandlog|reset", "slow"},
	{"commandlog|get", "1 slow"},
	{"client|capa", "redirect"},
	{"client|import-source", "ON"},
	{"clusterscan", "0"},
	{"cluster|flushslot", "1"},
	{"cluster|migrateslots", "SLOTSRANGE 1 1 NODE nosuch"},
	{"cluster|slot-stats", "SLOTSRANGE 0 0"},
	{"cluster|syncslots", "FINISH"},
}

// rightsApart are those that change what the connection does for the commands behind them.
var rightsApart = []string{
	"auth", "client|caching", "client|no-evict", "client|tracking", "hello", "readonly", "readwrite", "reset",
	"select", "watch",
}

// samplesOfCommands are calls of every command and subcommand of a server: those of testdata/bytes, a short
// and a long one each, with their keys under two prefixes.
func samplesOfCommands(t *testing.T, bare string) (all []rightsSample) {
	t.Helper()
	c := rig.Connect(t, bare)
	table := c.Must(t, "COMMAND").Elems
	arity, lasts := everyArity(table), everyCommand(table)
	readOnly := make(map[string]bool)
	for _, row := range table {
		readOnly[row.Elems[0].Text] = slices.Contains(row.Elems[2].Strings(), "readonly")
	}
	talks := readTalks(t)
	for _, name := range slices.Sorted(maps.Keys(arity)) {
		isContainer := func(other string) bool { return strings.HasPrefix(other, name+"|") }
		if slices.ContainsFunc(slices.Collect(maps.Keys(arity)), isContainer) {
			continue // its subcommands are commands of their own
		}
		words := strings.Split(name, "|")
		var calls [][]string
		for _, call := range rightsCalls[name] {
			calls = append(calls, append(slices.Clone(words), strings.Fields(call)...))
		}
		for _, newer := range rightsNewer {
			if slices.Contains(strings.Fields(newer.names), strings.ToLower(name)) {
				calls = append(calls, append(slices.Clone(words), strings.Fields(newer.call)...))
			}
		}
		if calls == nil {
			calls = sensibleCalls(talks, name, arity[name])
		}
		if calls == nil {
			t.Errorf("no call of %s", name)
		}
		apart := lasts[name] || slices.Contains(rightsApart, name)
		for _, args := range calls {
			for _, args := range keyVariants(c.Call(t, append([]string{"COMMAND", "GETKEYS"}, args...)...),
				args) {
				all = append(all, rightsSample{name, args, apart, readOnly[name]})
			}
		}
	}
	if len(all) < 600 {
		t.Errorf("%d calls of %d commands", len(all), len(arity))
	}
	return all
}

// sensibleCalls are the shortest and the longest call of a command that the conversations have.
func sensibleCalls(talks []talk, name string, arity int) (calls [][]string) {
	for _, k := range talks {
		for _, l := range k.lines {
			if commandOf(l.args, name) && (len(l.args) == arity || arity < 0 && len(l.args) >= -arity) {
				calls = append(calls, l.args)
			}
		}
	}
	slices.SortStableFunc(calls, func(a, b []string) int { return len(a) - len(b) })
	if len(calls) > 2 {
		calls = [][]string{calls[0], calls[len(calls)-1]}
	}
	return calls
}

// keyVariants are calls like args with keys that are all under app:, all under other:, and some under each.
// getkeys is what COMMAND GETKEYS says.
func keyVariants(getkeys rig.Reply, args []string) (all [][]string) {
	keys := slices.Compact(slices.Sorted(slices.Values(getkeys.Strings())))
	if getkeys.IsError() || len(keys) == 0 {
		return [][]string{args}
	}
	prefixes := [][2]string{{"app:", "app:"}, {"other:", "other:"}}
	if len(keys) > 1 {
		prefixes = append(prefixes, [2]string{"app:", "other:"}, [2]string{"other:", "app:"})
	}
	for _, prefix := range prefixes {
		call := slices.Clone(args)
		for i := 1; i < len(call); i++ {
			if n := slices.Index(getkeys.Strings(), call[i]); n >= 0 {
				call[i] = fmt.Sprintf("%s{t}%d", prefix[min(n, 1)], n)
			}
		}
		all = append(all, call)
	}
	return all
}
