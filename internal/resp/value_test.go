package resp

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// spell writes a Value the way the tables below do.
func spell(v Value) string {
	switch {
	case v.Null():
		return "null"
	case strings.IndexByte("*%~>", v.Kind) >= 0:
		elems := make([]string, len(v.Elems))
		for i, e := range v.Elems {
			elems[i] = spell(e)
		}
		return string(v.Kind) + "[" + strings.Join(elems, " ") + "]"
	case v.Kind == ':' || v.Kind == '#':
		return fmt.Sprintf("%c%d", v.Kind, v.Int)
	}
	return fmt.Sprintf("%c%q", v.Kind, v.Str)
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ reply, want string }{
		{"+OK\r\n", `+"OK"`},
		{"+\r\n", `+""`},
		{"-ERR no\r\n", `-"ERR no"`},
		{":-12\r\n", ":-12"},
		{"$3\r\nbar\r\n", `$"bar"`},
		{"$0\r\n\r\n", `$""`},
		{"$-1\r\n", "null"},
		{"*-1\r\n", "null"},
		{"_\r\n", "null"},
		{"*0\r\n", "*[]"},
		{"*2\r\n:1\r\n*1\r\n$-1\r\n", "*[:1 *[null]]"},
		{"#t\r\n", "#1"},
		{"#f\r\n", "#0"},
		{",1.5\r\n", `,"1.5"`},
		{"(123\r\n", `("123"`},
		{"=8\r\ntxt:abcd\r\n", `="abcd"`},
		{"=4\r\nmkd:\r\n", `=""`},
		{"!5\r\nERR x\r\n", `!"ERR x"`},
		{"%1\r\n+a\r\n:1\r\n", `%[+"a" :1]`},
		{"~2\r\n:1\r\n:2\r\n", "~[:1 :2]"},
		{">1\r\n+m\r\n", `>[+"m"]`},
		{"|1\r\n+a\r\n:1\r\n:2\r\n", ":2"},
		{"*2\r\n|1\r\n+a\r\n*1\r\n:1\r\n:2\r\n:3\r\n", "*[:2 :3]"},
	} {
		v, rest, err := Parse([]byte(c.reply + "+rest\r\n"))
		if err != nil || spell(v) != c.want || string(rest) != "+rest\r\n" {
			t.Errorf("%q: got %s, rest %q, %v", c.reply, spell(v), rest, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("*1\r\n", n) + ":1\r\n" }
	for _, c := range []struct {
		reply string
		want  error
	}{
		{"", ErrIncomplete},
		{"+OK", ErrIncomplete},
		{"$10\r\nabc", ErrIncomplete},
		{"*2\r\n:1\r\n", ErrIncomplete},
		{"*999999999999999999\r\n", ErrIncomplete},
		{"|1\r\n:1\r\n:2\r\n", ErrIncomplete},
		{"+" + strings.Repeat("x", 2*lineLimit), ErrIncomplete},
		{"x\r\n", ErrReply},
		{"$2\r\nabc\r\n", ErrReply},
		{"=3\r\ntxt\r\n", ErrReply},
		{"=4\r\ntext\r\n", ErrReply},
		{deep(maxDepth), nil},
		{deep(maxDepth + 1), ErrDepth},
		{deep(1 << 20), ErrDepth},
		{strings.Repeat("|0\r\n", 1<<20) + ":1\r\n", ErrDepth},
	} {
		if _, rest, err := Parse([]byte(c.reply)); err != c.want || err != nil && len(rest) != len(c.reply) {
			t.Errorf("%.40q: %v, want %v", c.reply, err, c.want)
		}
	}
}

// The memory of a Value follows from what is there, not from what is declared.
func TestParseMemory(t *testing.T) {
	reply := []byte(strings.Repeat("*1000000\r\n", 100) + strings.Repeat("+\r\n", 1000))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		if _, _, err := Parse(reply); err != ErrIncomplete {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
		t.Errorf("%d bytes", used)
	}
}

func TestValueAccessors(t *testing.T) {
	for _, c := range []struct {
		reply, text, err string
	}{
		{reply: ":12\r\n", text: "12"},
		{reply: "$2\r\n12\r\n", text: "12"},
		{reply: "+-7\r\n", text: "-7"},
		{reply: "(7\r\n", text: "7"},
		{reply: "#t\r\n"},
		{reply: "#f\r\n"},
		{reply: "$3\r\nabc\r\n", text: "abc"},
		{reply: "$-1\r\n"},
		{reply: "_\r\n"},
		{reply: "*1\r\n:1\r\n"},
		{reply: ",1.5\r\n", text: "1.5"},
		{reply: "-NOAUTH x\r\n", text: "NOAUTH x", err: "NOAUTH x"},
		{reply: "!3\r\nERR\r\n", text: "ERR", err: "ERR"},
		{reply: "=6\r\ntxt:12\r\n", text: "12"},
	} {
		v, _, err := Parse([]byte(c.reply))
		if err != nil {
			t.Fatalf("%q: %v", c.reply, err)
		}
		if v.Text() != c.text || v.Err() != c.err {
			t.Errorf("%q: %q, %q", c.reply, v.Text(), v.Err())
		}
	}
	if (Value{}).Null() {
		t.Error("the zero Value is Null")
	}
}
