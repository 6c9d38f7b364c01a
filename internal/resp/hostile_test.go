package resp

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// hostile is one line of testdata/hostile.txt, whose head explains it.
type hostile struct {
	line    int
	like    bool // Redis 7.0 does the same
	input   []byte
	verdict string
}

func readHostile(t testing.TB) (cases []hostile) {
	t.Helper()
	file, err := os.Open("testdata/hostile.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for line := 1; lines.Scan(); line++ {
		if text := lines.Text(); text != "" && text[0] != '#' {
			fields := strings.Split(text, "\t")
			if len(fields) != 3 || fields[0] != "=" && fields[0] != "!" {
				t.Fatalf("hostile.txt:%d: want mark, input, verdict", line)
			}
			cases = append(cases, hostile{line, fields[0] == "=", unquoteInput(t, fields[1]), fields[2]})
		}
	}
	if len(cases) < 100 {
		t.Fatalf("hostile.txt: %d cases", len(cases))
	}
	return cases
}

// unquoteInput reads Go strings with spaces between them; 3*"x" is "xxx".
func unquoteInput(t testing.TB, text string) (input []byte) {
	t.Helper()
	for text != "" {
		times := 1
		if n, rest, ok := strings.Cut(text, "*"); ok && text[0] != '"' {
			times, _ = strconv.Atoi(n)
			text = rest
		}
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			t.Fatalf("hostile.txt: %s: %v", text, err)
		}
		s, _ := strconv.Unquote(quoted)
		input = append(input, strings.Repeat(s, times)...)
		text = strings.TrimPrefix(text[len(quoted):], " ")
	}
	return input
}

// judge is what guard and Split make of input when it arrives in pieces.
func judge(pieces [][]byte, lim *Limits) string {
	var g InputGuard
	var verdict []string
	var buf []byte
	for _, piece := range pieces {
		buf = append(buf, piece...)
		for len(buf) > 0 {
			n, err := g.Next(buf, lim)
			if err != nil {
				return strings.Join(append(verdict, fmt.Sprintf("%+q", "-"+err.Error())), " ")
			}
			if n == 0 {
				break
			}
			args, _, err := Split(buf[:n], nil)
			if err != nil {
				return "Split: " + err.Error()
			}
			verdict = append(verdict, show(args))
			buf = buf[n:]
		}
	}
	if len(buf) > 0 {
		verdict = append(verdict, "wait")
	}
	return strings.Join(verdict, " ")
}

// show quotes args; what is long is cut.
func show(args [][]byte) string {
	for i, arg := range args {
		if len(arg) > 100 {
			args[i] = fmt.Appendf(nil, "%d bytes", len(arg))
		}
	}
	return fmt.Sprintf("%q", args)
}

// Bytes that break other parsers get from the guard what they get from Redis.
func TestHostileInput(t *testing.T) {
	for _, c := range readHostile(t) {
		if got := judge([][]byte{c.input}, &defaults); got != c.verdict {
			t.Errorf("hostile.txt:%d: %.60q: got %s, want %s", c.line, c.input, got, c.verdict)
		}
	}
}

// The verdict does not depend on how the bytes arrive.
func TestHostileInputDripped(t *testing.T) {
	for _, c := range readHostile(t) {
		var drops [][]byte
		for i := range c.input {
			drops = append(drops, c.input[i:i+1])
		}
		if got := judge(drops, &defaults); got != c.verdict {
			t.Errorf("hostile.txt:%d: %.60q: got %s, want %s", c.line, c.input, got, c.verdict)
		}
	}
}
