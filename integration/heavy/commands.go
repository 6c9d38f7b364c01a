// Package heavy sends what no honest client sends: commands of a million arguments or of a hundred megabytes,
// and those whose answer is much longer than themselves. Meanwhile another client of the same proxy sends
// PING, and the longest that it waits says for how long the proxy did nothing else.
package heavy

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"lockproxy/internal/resp"
)

// Command is one command and what has to be there first.
type Command struct {
	Name    string
	Before  []string // commands in words, each of which has one reply
	Request func(n int) []byte
	Replies func(n int) int // to Request; nil: one
}

// Commands are the commands of the package. Each is made for a size n: it has about n arguments, of which the
// names of keys have 100 bytes, or a single argument of 100 n bytes.
var Commands = []Command{
	{Name: "DEL, keys of all slots", Request: words("DEL", key)},
	{Name: "DEL, keys of one slot", Request: words("DEL", tagged)},
	{Name: "MGET", Request: words("MGET", key)},
	{Name: "MSET", Request: words("MSET", key)},
	{Name: "MGET of what is there", Before: filled(), Request: words("MGET", few)},
	{Name: "SADD", Request: words("SADD hostile:set", key)},
	{Name: "SMEMBERS", Request: once("SMEMBERS hostile:set")},
	{Name: "UNLINK of the set", Request: once("UNLINK hostile:set")},
	{Name: "SINTER, keys of all slots", Request: words("SINTER", key)},
	// Redis compares each key with all before it
	{Name: "WATCH", Request: words("WATCH", same("{hostile}"+filling))},
	{Name: "EVAL, keys of one slot", Request: counted("EVAL return{}", tagged)},
	{Name: "XREAD without STREAMS", Request: words("XREAD", key)},
	{Name: "SET, a long value", Request: long("SET hostile:value")},
	{Name: "GET of it", Request: once("GET hostile:value")},
	{Name: "GET of it behind a slow command", Request: behind("GET hostile:value"), Replies: fixed(2)},
	{Name: "ECHO", Request: long("ECHO")},
	{Name: "PING", Request: words("PING", key)},
	{Name: "an unknown command", Request: words("XYZZY", key)},
	{Name: "EVAL, a long script", Request: func(n int) []byte {
		return resp.AppendCommandStrings(nil, "EVAL", "return 1 --"+strings.Repeat("x", 100*n), "0")
	}},
	{Name: "EVAL, a script of many calls", Request: func(int) []byte {
		return resp.AppendCommandStrings(nil, "EVAL", "return 1 --"+
			strings.Repeat("redis.call('PING')", 3_500), "0")
	}},
	{Name: "FUNCTION LOAD, many functions", Request: func(int) []byte {
		library := "#!lua name=hostile\n"
		for i := range 1_200 {
			library += fmt.Sprintf("redis.register_function('hostile%d',function() end)\n", i)
		}
		return resp.AppendCommandStrings(nil, "FUNCTION", "LOAD", "REPLACE", library)
	}},
	{Name: "COMMAND DOCS lock", Request: words("COMMAND DOCS", same("lock"))},
	{Name: "COMMAND INFO lock", Request: words("COMMAND INFO", same("lock"))},
	{Name: "COMMAND INFO, unknown names", Request: words("COMMAND INFO", key)},
	{Name: "COMMAND GETKEYS MSET", Request: words("COMMAND GETKEYS MSET", key)},
	{Name: "COMMAND GETKEYS LOCK", Request: words("COMMAND GETKEYS LOCK", key)},
	{Name: "CLIENT LIST ID", Request: words("CLIENT LIST ID", number)},
	{Name: "CLIENT LIST ID, one of them", Request: words("CLIENT LIST ID", same("1"))},
	{Name: "CLIENT KILL", Request: words("CLIENT KILL ID 1000000", pair("ID", same("1000000")))},
	{Name: "CLIENT TRACKING PREFIX", Request: words("CLIENT TRACKING ON BCAST", pair("PREFIX", key))},
	{Name: "CONFIG GET, names", Request: words("CONFIG GET", key)},
	{Name: "CONFIG GET, patterns", Request: words("CONFIG GET", patterns)},
	{Name: "CONFIG GET, a long pattern", Request: stars("CONFIG GET")},
	{Name: "CONFIG SET", Request: words("CONFIG SET", pair("log-level", same("info")))},
	{Name: "COMMAND LIST PATTERN", Request: stars("COMMAND LIST FILTERBY PATTERN")},
	{Name: "PUBSUB NUMSUB", Request: words("PUBSUB NUMSUB", key)},
	{Name: "PUBSUB CHANNELS", Request: stars("PUBSUB CHANNELS")},
	{Name: "PUBLISH", Request: long("PUBLISH hostile:channel")},
	{Name: "UNSUBSCRIBE", Request: words("UNSUBSCRIBE", key), Replies: func(n int) int {
		if n < 65_536 {
			return n
		}
		return 1 // an error
	}},
	{Name: "SCRIPT EXISTS", Request: words("SCRIPT EXISTS", key)},
	{Name: "INFO, sections", Request: words("INFO", key)},
	{Name: "LOCK, tokens", Request: words("LOCK hostile:lock", pair("TOKEN", same("t")))},
	{Name: "LOCK, a long name", Request: long("LOCK")},
	{Name: "LOCK, a long META", Request: long("LOCK hostile:lock2 META")},
	{Name: "LOCKCTL INFO of it", Request: once("LOCKCTL INFO hostile:lock2")},
	{Name: "LOCKCTL BREAK of it", Request: once("LOCKCTL BREAK hostile:lock2")},
	{Name: "UNLOCK", Request: words("UNLOCK hostile:lock", key)},
	{Name: "LOCKCTL LIST, a long pattern", Request: stars("LOCKCTL LIST MATCH")},
	{Name: "SCAN, a long pattern", Request: stars("SCAN 0 MATCH")},
	{Name: "KEYS, a long pattern", Request: stars("KEYS")},
	{Name: "MULTI, MGET, EXEC", Request: func(n int) []byte {
		multi := resp.AppendCommandStrings(nil, "MULTI")
		return append(append(multi, words("MGET", tagged)(n)...), "*1\r\n$4\r\nEXEC\r\n"...)
	}, Replies: fixed(3)},
	{Name: "MULTI, COMMAND INFO, EXEC", Request: func(n int) []byte {
		multi := resp.AppendCommandStrings(nil, "MULTI")
		return append(append(multi, words("COMMAND INFO", same("lock"))(n)...), "*1\r\n$4\r\nEXEC\r\n"...)
	}, Replies: fixed(3)},
	{Name: "many short commands", Request: func(n int) []byte { return bytes.Repeat([]byte("PING\r\n"), n) },
		Replies: func(n int) int { return n }},
}

func fixed(n int) func(int) int { return func(int) int { return n } }

// once is a command in words.
func once(text string) func(int) []byte {
	return func(int) []byte { return resp.AppendCommandStrings(nil, strings.Fields(text)...) }
}

// behind sends a command that takes the node a while over which replies pile up, and then another.
func behind(text string) func(int) []byte {
	return func(int) []byte {
		slow := resp.AppendCommandStrings(nil, "BLPOP", "hostile:nothing", "0.2")
		return append(slow, resp.AppendCommandStrings(nil, strings.Fields(text)...)...)
	}
}

// words is text and then n arguments.
func words(text string, arg func(i int) string) func(n int) []byte {
	return func(n int) []byte {
		front := strings.Fields(text)
		if len(front) == 1 { // an even number, for pairs
			n -= n % 2
		}
		out := fmt.Appendf(make([]byte, 0, 110*n), "*%d\r\n", len(front)+n)
		for _, word := range front {
			out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(word), word)
		}
		for i := range n {
			word := arg(i)
			out = append(strconv.AppendInt(append(out, '$'), int64(len(word)), 10), "\r\n"...)
			out = append(append(out, word...), "\r\n"...)
		}
		return out
	}
}

// counted is words with the number of them before them.
func counted(text string, arg func(i int) string) func(n int) []byte {
	return func(n int) []byte { return words(fmt.Sprint(text, " ", n), arg)(n) }
}

// long is text and one argument of 100 n bytes.
func long(text string) func(n int) []byte {
	return func(n int) []byte {
		return resp.AppendCommandStrings(nil, append(strings.Fields(text), strings.Repeat("x", 100*n))...)
	}
}

// stars is text and a pattern of 9 n bytes, but for its last one nothing but stars and letters.
func stars(text string) func(n int) []byte {
	return func(n int) []byte {
		return resp.AppendCommandStrings(nil,
			append(strings.Fields(text), strings.Repeat("*a", 9*n/2)+"b")...)
	}
}

var filling = strings.Repeat("k", 92)

func key(i int) string    { return filling + fmt.Sprintf("%08d", i) }
func tagged(i int) string { return "{hostile}" + filling[9:] + fmt.Sprintf("%08d", i) }
func few(i int) string    { return "hostile:" + strconv.Itoa(i%100) }
func number(i int) string { return strconv.Itoa(i + 1) }

func patterns(i int) string { return "*[a-c]*" + strconv.Itoa(i) + "*" }

// filled sets the keys of few.
func filled() []string {
	all := []string{"MSET"}
	for i := range 100 {
		all = append(all, few(i), filling)
	}
	return []string{strings.Join(all, " ")}
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
