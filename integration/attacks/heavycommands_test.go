package attacks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// heavyCommand is what no honest client sends: of a million arguments or of a hundred megabytes, or with an
// answer that is much longer than itself. It is made for a size n: it has about n arguments, of which the
// names of keys have 100 bytes, or a single argument of 100 n bytes.
type heavyCommand struct {
	name     string
	commands func(n int) [][]string
}

// send sends it over a connection of its own, and reads all replies.
func (h heavyCommand) send(t *testing.T, addr string, n int) {
	t.Helper()
	c := rig.Connect(t, addr)
	defer c.Close()
	const last = "behind all that"
	var request []byte
	for _, words := range append(h.commands(n), []string{"PING", last}) {
		request = append(request, rig.Encode(words...)...)
	}
	go c.Write(request) // ends when all of it is taken, or with the connection
	for v := (rig.Reply{}); v.Text != last; {
		var err error
		if v, err = c.Receive(4 * rig.Patience); err != nil {
			t.Fatalf("%s, %d bytes: %v", h.name, len(request), err)
		}
	}
}

var heavyCommands = []heavyCommand{
	{"DEL, keys of all slots", words("DEL", key)},
	{"DEL, keys of one slot", words("DEL", tagged)},
	{"MGET", words("MGET", key)},
	{"MSET", words("MSET", key)},
	{"MSET of few keys", filled},
	{"MGET of them", words("MGET", few)},
	{"SADD", words("SADD hostile:set", key)},
	{"SMEMBERS", once("SMEMBERS hostile:set")},
	{"UNLINK of the set", once("UNLINK hostile:set")},
	{"SINTER, keys of all slots", words("SINTER", key)},
	// Redis compares each key with all before it
	{"WATCH", words("WATCH", same("{hostile}"+filling))},
	{"EVAL, keys of one slot", counted("EVAL return{}", tagged)},
	{"XREAD without STREAMS", words("XREAD", key)},
	{"SET, a long value", long("SET hostile:value")},
	{"GET of it", once("GET hostile:value")},
	{"GET of it behind a slow command", inTurn(once("BLPOP hostile:nothing 0.2"),
		once("GET hostile:value"))},
	{"ECHO", long("ECHO")},
	{"PING", words("PING", key)},
	{"an unknown command", words("XYZZY", key)},
	{"EVAL, a long script", line(func(n int) []string {
		return []string{"EVAL", "return 1 --" + strings.Repeat("x", 100*n), "0"}
	})},
	{"EVAL, a script of many calls", line(func(int) []string {
		return []string{"EVAL", "return 1 --" + strings.Repeat("redis.call('PING')", 3_500), "0"}
	})},
	{"FUNCTION LOAD, many functions", line(func(int) []string {
		library := "#!lua name=hostile\n"
		for i := range 1_200 {
			library += fmt.Sprintf("redis.register_function('hostile%d',function() end)\n", i)
		}
		return []string{"FUNCTION", "LOAD", "REPLACE", library}
	})},
	{"COMMAND DOCS lock", words("COMMAND DOCS", same("lock"))},
	{"COMMAND INFO lock", words("COMMAND INFO", same("lock"))},
	{"COMMAND INFO, unknown names", words("COMMAND INFO", key)},
	{"COMMAND GETKEYS MSET", words("COMMAND GETKEYS MSET", key)},
	{"COMMAND GETKEYS LOCK", words("COMMAND GETKEYS LOCK", key)},
	{"CLIENT LIST ID", words("CLIENT LIST ID", number)},
	{"CLIENT LIST ID, one of them", words("CLIENT LIST ID", same("1"))},
	{"CLIENT KILL", words("CLIENT KILL ID 1000000", pair("ID", same("1000000")))},
	{"CLIENT TRACKING PREFIX", words("CLIENT TRACKING ON BCAST", pair("PREFIX", key))},
	{"CONFIG GET, names", words("CONFIG GET", key)},
	{"CONFIG GET, patterns", words("CONFIG GET", patterns)},
	{"CONFIG GET, a long pattern", stars("CONFIG GET")},
	{"CONFIG SET", words("CONFIG SET", pair("log-level", same("info")))},
	{"COMMAND LIST PATTERN", stars("COMMAND LIST FILTERBY PATTERN")},
	{"PUBSUB NUMSUB", words("PUBSUB NUMSUB", key)},
	{"PUBSUB CHANNELS", stars("PUBSUB CHANNELS")},
	{"PUBLISH", long("PUBLISH hostile:channel")},
	{"UNSUBSCRIBE", words("UNSUBSCRIBE", key)},
	{"SCRIPT EXISTS", words("SCRIPT EXISTS", key)},
	{"INFO, sections", words("INFO", key)},
	{"LOCK, tokens", words("LOCK hostile:lock", pair("TOKEN", same("t")))},
	{"LOCK, a long name", long("LOCK")},
	{"LOCK, a long META", long("LOCK hostile:lock2 META")},
	{"LOCKCTL INFO of it", once("LOCKCTL INFO hostile:lock2")},
	{"LOCKCTL BREAK of it", once("LOCKCTL BREAK hostile:lock2")},
	{"UNLOCK", words("UNLOCK hostile:lock", key)},
	{"LOCKCTL LIST, a long pattern", stars("LOCKCTL LIST MATCH")},
	{"SCAN, a long pattern", stars("SCAN 0 MATCH")},
	{"KEYS, a long pattern", stars("KEYS")},
	{"MULTI, MGET, EXEC", inTurn(once("MULTI"), words("MGET", tagged), once("EXEC"))},
	{"MULTI, COMMAND INFO, EXEC", inTurn(once("MULTI"), words("COMMAND INFO", same("lock")),
		once("EXEC"))},
	{"many short commands", func(n int) [][]string { return slices.Repeat([][]string{{"PING"}}, n) }},
}

// line is one command.
func line(words func(n int) []string) func(n int) [][]string {
	return func(n int) [][]string { return [][]string{words(n)} }
}

// inTurn is one after the other.
func inTurn(all ...func(n int) [][]string) func(n int) [][]string {
	return func(n int) (commands [][]string) {
		for _, of := range all {
			commands = append(commands, of(n)...)
		}
		return commands
	}
}

// once is a command in words.
func once(text string) func(n int) [][]string {
	return line(func(int) []string { return strings.Fields(text) })
}

// words is text and then n arguments.
func words(text string, arg func(i int) string) func(n int) [][]string {
	return line(func(n int) []string {
		all := strings.Fields(text)
		for i := range n {
			all = append(all, arg(i))
		}
		return all
	})
}

// counted is words with the number of them before them.
func counted(text string, arg func(i int) string) func(n int) [][]string {
	return func(n int) [][]string { return words(fmt.Sprint(text, " ", n), arg)(n) }
}

// long is text and one argument of 100 n bytes.
func long(text string) func(n int) [][]string {
	return line(func(n int) []string { return append(strings.Fields(text), strings.Repeat("x", 100*n)) })
}

// stars is text and a pattern of 9 n bytes, but for its last one nothing but stars and letters.
func stars(text string) func(n int) [][]string {
	return line(func(n int) []string { return append(strings.Fields(text), strings.Repeat("*a", 9*n/2)+"b") })
}

var filling = strings.Repeat("k", 92)

func key(i int) string    { return filling + fmt.Sprintf("%08d", i) }
func tagged(i int) string { return "{hostile}" + filling[9:] + fmt.Sprintf("%08d", i) }
func few(i int) string    { return "hostile:" + strconv.Itoa(i%100) }
func number(i int) string { return strconv.Itoa(i + 1) }

func patterns(i int) string { return "*[a-c]*" + strconv.Itoa(i) + "*" }

// filled sets the keys of few.
func filled(int) [][]string {
	all := []string{"MSET"}
	for i := range 100 {
		all = append(all, few(i), filling)
	}
	return [][]string{all}
}

// same is one word again and again.
func same(word string) func(int) string { return func(int) string { return word } }

// pair is a name and its value in turn.
func pair(name string, value func(int) string) func(int) string {
	return func(i int) string {
		if i%2 == 0 {
			return name
		}
		return value(i)
	}
}
