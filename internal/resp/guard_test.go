package resp

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// The seed is fixed: nothing fails by chance. A flag on the command line goes before this, as in make soak.
func init() { flag.Set("rapid.seed", "1") }

var defaults = DefaultLimits()

func TestGuardLimits(t *testing.T) {
	small := Limits{Args: 3, Bulk: 5, Inline: 20, Command: 36}
	before := defaults.Unauthenticated()
	smallBefore := small.Unauthenticated()
	for _, c := range []struct {
		name    string
		lim     Limits
		input   string
		verdict string
	}{
		{"arguments", small, "*3\r\n", "wait"},
		{"too many arguments", small, "*4\r\n", "invalid multibulk length"},
		{"bulk", small, "*1\r\n$5\r\nabcde\r\n", `["abcde"]`},
		{"bulk too long", small, "*1\r\n$6\r\n", "invalid bulk length"},
		{"inline", small, "12345678901234567890\n", `["12345678901234567890"]`},
		{"inline with CR", small, "1234567890123456789\r\n", `["1234567890123456789"]`},
		{"inline too long", small, "123456789012345678901\n", "too big inline request"},
		{"inline too long, without end", small, "123456789012345678901", "too big inline request"},
		{"command", Limits{Command: 29}.OrDefaults(), "*2\r\n$6\r\nabcdef\r\n$7\r\nabcdef2\r\n",
			`["abcdef" "abcdef2"]`},
		{"command too long", Limits{Command: 28}.OrDefaults(), "*2\r\n$6\r\nabcdef\r\n$7\r\nabcdef2\r\n",
			"too big command"},
		{"command too long, not there yet", small, "*3\r\n$5\r\nabcde\r\n$5\r\nabcde\r\n$5\r\n",
			"too big command"},
		{"args before AUTH", before, "*10\r\n", "wait"},
		{"too many args before AUTH", before, "*11\r\n", "unauthenticated multibulk length"},
		{"far too many args before AUTH", before, "*2147483647\r\n", "unauthenticated multibulk length"},
		{"senseless args before AUTH", before, "*2147483648\r\n", "invalid multibulk length"},
		{"bulk before AUTH", before, "*1\r\n$16384\r\n", "wait"},
		{"bulk too long before AUTH", before, "*1\r\n$16385\r\n", "unauthenticated bulk length"},
		{"bulk far too long before AUTH", before, "*1\r\n$536870913\r\n", "invalid bulk length"},
		{"low limits stay before AUTH", smallBefore, "*1\r\n$6\r\n", "invalid bulk length"},
		{"low limits stay before AUTH", smallBefore, "*4\r\n", "unauthenticated multibulk length"},
		{"highest limits", Limits{math.MaxInt, math.MaxInt, math.MaxInt32, math.MaxInt, 0},
			"*1\r\n$999999999999999999\r\n", "wait"},
		{"highest limits", Limits{math.MaxInt, math.MaxInt, math.MaxInt32, math.MaxInt, 0},
			"*1\r\n$9223372036854775807\r\n", "too big command"},
		{"line of a count", small, "*0" + strings.Repeat("0", headerLimit), "too big mbulk count string"},
	} {
		want := c.verdict
		if !strings.HasPrefix(want, "[") && want != "wait" {
			want = `"-ERR Protocol error: ` + want + `"`
		}
		if got := judge([][]byte{[]byte(c.input)}, &c.lim); got != want {
			t.Errorf("%s: %.40q: got %s, want %s", c.name, c.input, got, want)
		}
	}
}

func TestGuardMissing(t *testing.T) {
	const cmd = "*2\r\n$4\r\nECHO\r\n$1000\r\n"
	for _, c := range []struct {
		input   string
		missing int
	}{
		{"", 1},
		{"*", 1},
		{"*2\r", 1},
		{"*2\r\n", 1},
		{"*2\r\n$4\r\n", 6},
		{"*2\r\n$4\r\nECHO", 2},
		{"*2\r\n$4\r\nECHO\r", 1},
		{cmd, 1002},
		{cmd + "abc", 999},
		{"PING", 1},
	} {
		var g InputGuard
		n, err := g.Next([]byte(c.input), &defaults)
		if n != 0 || err != nil || g.Missing() != c.missing {
			t.Errorf("%q: got %d, %v, missing %d, want %d", c.input, n, err, g.Missing(), c.missing)
		}
	}
}

// Whoever reads as much as Missing says gets a large value in one piece and
// never reads beyond the command.
func TestGuardMissingLeadsToTheEnd(t *testing.T) {
	cmd := AppendCommandStrings(nil, "SET", "key", strings.Repeat("x", 1<<20))
	var g InputGuard
	have, calls := 0, 0
	for {
		n, err := g.Next(cmd[:have], &defaults)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			break
		}
		have += g.Missing()
		calls++
	}
	if have != len(cmd) || calls > 30 {
		t.Errorf("%d of %d bytes after %d calls", have, len(cmd), calls)
	}
}

func TestGuardStartsAgain(t *testing.T) {
	ping := []byte("*1\r\n$4\r\nPING\r\n")
	for name, upset := range map[string]func(g *InputGuard){
		"after an error":    func(g *InputGuard) { g.Next([]byte("*2\r\n$4\r\nPING\r\n$x\r\n"), &defaults) },
		"after a whole one": func(g *InputGuard) { g.Next(ping[:9], &defaults); g.Next(ping, &defaults) },
		"after an empty one": func(g *InputGuard) {
			g.Next([]byte("*0\r"), &defaults)
			g.Next([]byte("*0\r\n"),
				&defaults)
		},
		"after a line": func(g *InputGuard) {
			g.Next([]byte("PING"), &defaults)
			g.Next([]byte("PING\n"),
				&defaults)
		},
	} {
		var g InputGuard
		upset(&g)
		if g != (InputGuard{}) {
			t.Errorf("%s: %+v", name, g)
		}
		if n, err := g.Next(ping, &defaults); n != len(ping) || err != nil {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
}

// A caller that breaks the rules, or a limit that changes meanwhile, gets some
// answer, not a panic.
func TestGuardMisused(t *testing.T) {
	inputs := []string{"", "*", "*3\r\n$100\r\nabc", "*3\r\n$3\r\nSET\r\n$4", "PING", "*1\r\n$4\r\nPING\r\n",
		"*" + strings.Repeat("1", 9000), "*2\r\n$5000\r\n"}
	for _, first := range inputs {
		for _, second := range inputs {
			for _, lim := range []Limits{DefaultLimits(), {1, 1, 1, 1, 0}} {
				var g InputGuard
				g.Next([]byte(first), &defaults)
				if n, err := g.Next([]byte(second), &lim); n > len(second) || n > 0 && err != nil {
					t.Errorf("%.20q, %.20q: %d, %v", first, second, n, err)
				}
			}
		}
	}
}

// What drips in byte by byte is scanned once: these would take minutes
// otherwise.
func TestGuardDripped(t *testing.T) {
	many := AppendCommandStrings(nil, strings.Fields("MSET"+strings.Repeat(" k v", 1<<17))...)
	for name, cmd := range map[string][]byte{
		"a long argument": AppendCommandStrings(nil, "SET", "k", strings.Repeat("x", 1<<22)),
		"many arguments":  many,
		"a long line":     []byte("ECHO " + strings.Repeat("x", 60<<10) + "\r\n"),
	} {
		var g InputGuard
		lim := defaults
		for i := range cmd {
			n, err := g.Next(cmd[:i+1], &lim)
			if err != nil || n != 0 && i+1 < len(cmd) || n == 0 && i+1 == len(cmd) {
				t.Fatalf("%s: byte %d of %d: %d, %v", name, i, len(cmd), n, err)
			}
		}
	}
}

func TestGuardAllocatesNothing(t *testing.T) {
	inputs := []string{
		"*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000042\r\n$3\r\nxxx\r\n",
		"*1000000\r\n$536870912\r\nabc",
		"*-1\r\n", "*0\r\n", "PING 'a b'\r\n", "*-9223372036854775808\r\n",
	}
	for _, input := range inputs {
		buf, lim := []byte(input), &defaults
		if n := testing.AllocsPerRun(100, func() {
			var g InputGuard
			for i := 0; i <= len(buf); i += 3 {
				g.Next(buf[:i], lim)
			}
			g = InputGuard{}
			g.Next(buf, lim)
		}); n > 0 {
			t.Errorf("%q: %v allocations", input, n)
		}
	}
	if size := unsafe.Sizeof(InputGuard{}); size > 48 {
		t.Errorf("a Guard has %d bytes", size)
	}
}

// However a stream of commands is cut, the same ones come out.
func TestGuardCutAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		for range rapid.IntRange(0, 5).Draw(t, "commands") {
			stream = append(stream, drawCommand(t)...)
		}
		whole := judge([][]byte{stream}, &defaults)
		if cut := judge(drawPieces(t, stream), &defaults); cut != whole {
			t.Fatalf("%q: %s in pieces, %s as a whole", stream, cut, whole)
		}
	})
}

// drawCommand is a command of any kind, sometimes damaged.
func drawCommand(t *rapid.T) []byte {
	var cmd []byte
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		cmd = []byte(rapid.StringMatching(`[ a"'\\xn41\t]{0,12}(\n|\r\n)`).Draw(t, "line"))
	case 1:
		cmd = []byte(rapid.SampledFrom([]string{"*0\r\n", "*-1\r\n", "\r\n", "*-12345678901\r\n"}).Draw(t,
			"empty"))
	default:
		args := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 120), 1, 12).Draw(t, "args")
		cmd = AppendCommand(nil, args...)
	}
	if rapid.IntRange(0, 9).Draw(t, "damage") == 0 {
		cmd[rapid.IntRange(0, len(cmd)-1).Draw(t, "where")] = rapid.Byte().Draw(t, "byte")
	}
	return cmd
}

// drawPieces cuts b somewhere.
func drawPieces(t *rapid.T, b []byte) (pieces [][]byte) {
	for len(b) > 0 {
		n := rapid.IntRange(1, len(b)).Draw(t, "piece")
		pieces = append(pieces, b[:n])
		b = b[n:]
	}
	return pieces
}

func TestSplit(t *testing.T) {
	for _, c := range []struct{ cmd, args, raw string }{
		{"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", `["ECHO" ""]`, "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n"},
		{"*1\r\n$0\r\n\r\n", `[""]`, "*1\r\n$0\r\n\r\n"},
		{"*0\r\n", `[]`, ""},
		{"*-1\r\n", `[]`, ""},
		{"\r\n", `[]`, ""},
		{"\n", `[]`, ""},
		{" \t\n", `[]`, ""},
		{"get  a\r\n", `["get" "a"]`, "*2\r\n$3\r\nget\r\n$1\r\na\r\n"},
		{"$4 'a\rb' \"\\r\\n\\x00\"\n", `["$4" "a\rb" "\r\n\x00"]`,
			"*3\r\n$2\r\n$4\r\n$3\r\na\rb\r\n$3\r\n\r\n\x00\r\n"},
	} {
		args, raw, err := Split([]byte(c.cmd), make([][]byte, 3, 8))
		if err != nil || show(args) != c.args || string(raw) != c.raw {
			t.Errorf("%q: got %q, %q, %v", c.cmd, args, raw, err)
		}
	}
}

func TestSplitAliases(t *testing.T) {
	cmd := []byte("*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\n")
	dst := make([][]byte, 0, 8)
	args, raw, _ := Split(cmd, dst)
	if &args[0] != &dst[:1][0] || &raw[0] != &cmd[0] || &args[1][0] != &cmd[18] {
		t.Error("something was copied")
	}
	if n := testing.AllocsPerRun(100, func() { args, _, _ = Split(cmd, args) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Split stands behind Next, but says what is wrong even without it.
func TestSplitWithoutGuard(t *testing.T) {
	for _, cmd := range []string{"*1\r\n$4\r\nPI", "*x\r\n", "ECHO \"a\r\n", "a\x00b\r\n"} {
		var want ProtocolError
		if _, _, err := Split([]byte(cmd), nil); !errors.As(err, &want) {
			t.Errorf("%q: %v", cmd, err)
		}
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{`a b`, `["a" "b"]`},
		{"\ta\t\tb\t", `["a" "b"]`},
		{"\v\fa", `["a"]`},
		{"a\vb", `["a\vb"]`},
		{`"a"` + "\v", `["a"]`},
		{`"a b"`, `["a b"]`},
		{`'a b'`, `["a b"]`},
		{`a"b c"`, `["ab c"]`},
		{`a'b c'`, `["ab c"]`},
		{`"" ''`, `["" ""]`},
		{`"\n\r\t\b\a"`, `["\n\r\t\b\a"]`},
		{`"\x41\x0A\xff"`, `["A\n\xff"]`},
		{`"\x4" "\x4g" "\xg4" "\x" "\X41"`, `["x4" "x4g" "xg4" "x" "X41"]`},
		{`"\"\'\\\q"`, `["\"'\\q"]`},
		{`'\'\"\\\n'`, `["'\\\"\\\\\\n"]`},
		{`a\nb`, `["a\\nb"]`},
		{`a\"b"`, `["a\\b"]`},
		{`"abc`, "unbalanced"},
		{`'abc`, "unbalanced"},
		{`"abc\"`, "unbalanced"},
		{`'abc\'`, "unbalanced"},
		{`"abc\`, "unbalanced"},
		{`"a"b`, "unbalanced"},
		{`"a""b"`, "unbalanced"},
		{`a"b"c`, "unbalanced"},
		{`it's`, "unbalanced"},
		{"a\x00", "NUL"},
	} {
		args, err := words([]byte(c.line), nil)
		got := show(args)
		switch err {
		case errQuotes:
			got = "unbalanced"
		case errNUL:
			got = "NUL"
		}
		if got != c.want {
			t.Errorf("%q: got %s, want %s", c.line, got, c.want)
		}
	}
}

func TestErrNoDollar(t *testing.T) {
	for c, want := range map[byte]string{'x': "got 'x'", '\n': "got ' '", '\r': "got ' '",
		0xff: "got '\xff'"} {
		if got := errNoDollar(c).Error(); got != "ERR Protocol error: expected '$', "+want {
			t.Errorf("%q: %q", c, got)
		}
	}
}

func TestInteger(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int64
		ok   bool
	}{
		{"0", 0, true}, {"7", 7, true}, {"-1", -1, true}, {"42", 42, true},
		{"9223372036854775807", math.MaxInt64, true}, {"-9223372036854775808", math.MinInt64, true},
		{"9223372036854775808", 0, false}, {"-9223372036854775809", 0, false},
		{"", 0, false}, {"-", 0, false}, {"-0", 0, false}, {"00", 0, false}, {"01", 0, false},
		{"-01", 0, false},
		{"+1", 0, false}, {" 1", 0, false}, {"1 ", 0, false}, {"1_000", 0, false}, {"0x1", 0, false},
		{"1e3", 0, false},
		{"--1", 0, false}, {"1-", 0, false}, {"99999999999999999999", 0, false},
	} {
		if n, ok := Integer([]byte(c.text)); ok != c.ok || ok && n != c.n {
			t.Errorf("%q: %d, %v", c.text, n, ok)
		}
		// number is the fast half of the same rule.
		n, next := number([]byte(c.text+"\r\n"), 0)
		if plain := c.ok && c.n >= 0 && len(c.text) <= maxDigits; (next > 0) != plain || plain &&
			int64(n) != c.n {
			t.Errorf("number: %q: %d, %d", c.text, n, next)
		}
	}
	for _, text := range []string{"1", "12\r", "12\n", "12\rx", "\r\n", ""} {
		if _, next := number([]byte(text), 0); next > 0 {
			t.Errorf("number: %q is whole", text)
		}
	}
	if n, next := number(bytes.Repeat([]byte("1"), 100), 0); n != 0 || next != 0 {
		t.Errorf("number: %d", n)
	}
}

// Of a command that is not whole the InputGuard guesses how much is to come, by the arguments that are there.
func TestGuardLikely(t *testing.T) {
	long := "*1001\r\n$3\r\nDEL\r\n" + strings.Repeat("$10\r\n0123456789\r\n", 100)
	for _, test := range []struct {
		input       string
		least, most int
	}{
		{"", 0, 0}, {"*10", 0, 0}, {"*1000\r\n", 0, 0}, {"*1000\r\n$3\r\nGE", 0, 0}, {"PING", 0, 0},
		{long, 900 * 15, 900 * 17}, {long + "$5\r\n", 900 * 15, 900 * 17},
		{"*2\r\n$3\r\nGET\r\n$1000000\r\n" + strings.Repeat("x", 1000), 0, 0}, // Missing knows better
	} {
		var g InputGuard
		if n, err := g.Next([]byte(test.input), &defaults); n != 0 || err != nil {
			t.Fatalf("%q: %d, %v", test.input, n, err)
		}
		if n := g.Likely([]byte(test.input)); n < test.least || n > test.most {
			t.Errorf("%.40q: %d bytes are likely to come, want %d to %d", test.input, n, test.least,
				test.most)
		}
	}
}

// However a command is cut and passed on, all of it comes out, and the same is refused as if it were kept.
func TestGuardPasses(t *testing.T) {
	long := Limits{Command: 100}
	for _, c := range []struct {
		input, rest string
		lim         Limits
		err         error
	}{
		{input: "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$20\r\n" + strings.Repeat("\r\n", 10) + "\r\n",
			rest: "PING\r\n"},
		{input: "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$0\r\n\r\n", rest: "*1\r\n"},
		{input: "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvaluexx", err: errCRLF},
		{input: "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n:5\r\n", err: errNoDollar(':')},
		{input: "*3\r\n$3\r\nSET\r\n$70\r\n" + strings.Repeat("k", 70) + "\r\n$10\r\n",
			lim: long, err: errCommandSize},
		{input: "*3\r\n$3\r\nSET\r\n$69\r\n" + strings.Repeat("k", 69) + "\r\n$1\r\nv\r\n", lim: long},
	} {
		lim := c.lim.OrDefaults()
		for size := 1; size < 40; size++ {
			var g InputGuard
			var buf, passed []byte
			var err error
			last := false
			for _, piece := range cutEvery(size, []byte(c.input+c.rest)) {
				buf = append(buf, piece...)
				for n := 1; n > 0 && !last && err == nil; {
					n, last, err = g.Pass(buf, &lim)
					passed, buf = append(passed, buf[:n]...), buf[n:]
				}
			}
			if err != c.err || last == (c.err != nil) {
				t.Errorf("%q in pieces of %d: %v, whole %v, want %v", c.input, size, err, last, c.err)
			}
			if err == nil && (string(passed) != c.input || string(buf) != c.rest || g != InputGuard{}) {
				t.Errorf("%q in pieces of %d: passed %q, left %q, %+v", c.input, size, passed, buf, g)
			}
		}
	}
}

func TestGuardBegun(t *testing.T) {
	for input, want := range map[string]string{
		"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$9\r\nxx": `["SET" "key"] 3`,
		"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n":         `["SET" "key"] 3`,
		"*3\r\n$3\r\nSET\r\n$3\r\nkey":             `[] 3`,
		"*3\r\n$3\r\nSET\r\n":                      `[] 3`,
		"*3\r":                                     `[] 0`,
		"*4\r\n":                                   `[] 4`,
		"SET key":                                  `[] 0`,
	} {
		var g InputGuard
		if n, err := g.Next([]byte(input), &defaults); n != 0 || err != nil {
			t.Fatalf("%q: %d, %v", input, n, err)
		}
		args, all := g.Begun([]byte(input), 2)
		if got := fmt.Sprintf("%q %d", args, all); got != want {
			t.Errorf("%q: %s, want %s", input, got, want)
		}
	}
}
