package resp

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/redcon"
)

// FuzzGuard: nothing panics; what the guard lets through is read by redcon as
// exactly that command, and encoding it again gives the same bytes; how the
// input is cut changes nothing.
func FuzzGuard(f *testing.F) {
	for _, c := range readHostile(f) {
		if len(c.input) < 1000 {
			f.Add(c.input, byte(0), false)
		}
	}
	f.Fuzz(func(t *testing.T, input []byte, size byte, before bool) {
		lim := defaults
		if before {
			lim = lim.Unauthenticated()
		}
		var g InputGuard
		for buf := input; ; {
			n, args, err := g.NextArgs(buf, &lim, make([][]byte, 3))
			var refused ProtocolError
			if err != nil && !errors.As(err, &refused) || n < 0 || n > len(buf) || g.Missing() < 1 {
				t.Fatalf("%q: %d, %v, missing %d", buf, n, err, g.Missing())
			}
			if n == 0 {
				break
			}
			checkCommand(t, buf, n)
			if split, _, _ := Split(buf[:n], nil); args != nil && show(args) != show(split) {
				t.Fatalf("%q: %q, but split %q", buf[:n], args, split)
			}
			buf = buf[n:]
		}
		whole := judge([][]byte{input}, &lim)
		if cut := judge(cutEvery(int(size)+1, input), &lim); cut != whole {
			t.Fatalf("%q: %s in pieces, %s as a whole", input, cut, whole)
		}
	})
}

// checkCommand looks at the command buf[:n], which a guard let through.
func checkCommand(t *testing.T, buf []byte, n int) {
	t.Helper()
	args, raw, err := Split(buf[:n], nil)
	if err != nil {
		t.Fatalf("%q: %v", buf[:n], err)
	}
	if len(args) == 0 {
		if raw != nil {
			t.Fatalf("%q: %q", buf[:n], raw)
		}
		return
	}
	if again := AppendCommand(nil, args...); !bytes.Equal(again, raw) || buf[0] == '*' &&
		!bytes.Equal(again, buf[:n]) {
		t.Fatalf("%q: %q, %q", buf[:n], raw, again)
	}
	if buf[0] != '*' {
		buf, n = raw, len(raw)
	}
	whole, parsed, kind, rest, err := redcon.ReadNextCommand(buf, nil)
	if !whole || err != nil || kind != redcon.Redis || len(rest) != len(buf)-n || show(parsed) != show(args) {
		t.Fatalf("%q: redcon: %v, %q, %v, %q, %v", buf[:n], whole, parsed, kind, rest, err)
	}
}

// FuzzInline: words are what Redis makes of a line.
func FuzzInline(f *testing.F) {
	for _, line := range []string{`SET "a b" 'c'`, `"\x41\n"`, `'\''`, `a"b"c`, `""`, "\t\v a\r", `"\`, `'\`,
		`"\x4`} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		args, err := words(line, nil)
		if bytes.IndexByte(line, 0) >= 0 {
			if err != errNUL {
				t.Fatalf("%q: %v", line, err)
			}
			return
		}
		want, ok := sdssplitargs(line)
		if ok != (err == nil) || ok && show(args) != show(want) {
			t.Fatalf("%q: %q, %v, want %q, %v", line, args, err, want, ok)
		}
	})
}

// sdssplitargs follows the function of this name in Redis's sds.c step by step.
func sdssplitargs(line []byte) (args [][]byte, ok bool) {
	at := func(i int) byte {
		if i < len(line) {
			return line[i]
		}
		return 0
	}
	ends := func(i int) bool { return at(i) == 0 || isSpace(at(i)) }
	for p := 0; ; {
		for at(p) != 0 && isSpace(at(p)) {
			p++
		}
		if at(p) == 0 {
			return args, true
		}
		current := []byte{}
		double, single, done := false, false, false
		for !done {
			c := at(p)
			switch {
			case double && c == '\\' && at(p+1) == 'x' && hex(at(p+2)) >= 0 && hex(at(p+3)) >= 0:
				current = append(current, byte(hex(at(p+2))*16+hex(at(p+3))))
				p += 3
			case double && c == '\\' && at(p+1) != 0:
				p++
				current = append(current, escaped(at(p)))
			case double && c == '"', single && c == '\'':
				if !ends(p + 1) {
					return nil, false
				}
				done = true
			case single && c == '\\' && at(p+1) == '\'':
				p++
				current = append(current, '\'')
			case (double || single) && c == 0:
				return nil, false
			case double || single:
				current = append(current, c)
			case c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == 0:
				done = true
			case c == '"':
				double = true
			case c == '\'':
				single = true
			default:
				current = append(current, c)
			}
			if at(p) != 0 {
				p++
			}
		}
		args = append(args, current)
	}
}

// FuzzFramer: how a stream is cut changes nothing, and Parse agrees.
func FuzzFramer(f *testing.F) {
	addReplies(f, func(reply []byte) { f.Add(reply, byte(0)) })
	f.Fuzz(func(t *testing.T, stream []byte, size byte) {
		ends, rest := frame([][]byte{stream})
		cutEnds, cutRest := frame(cutEvery(int(size)+1, stream))
		if len(ends) != len(cutEnds) || lastOf(ends) != lastOf(cutEnds) || rest != cutRest {
			t.Fatalf("%q: %v, %q in pieces, %v, %q as a whole", stream, cutEnds, cutRest, ends, rest)
		}
		_, after, err := Parse(stream)
		switch {
		case err == nil && (len(ends) == 0 || ends[0] != len(stream)-len(after)):
			t.Fatalf("%q: Parse leaves %q, Framer found %v", stream, after, ends)
		case err == ErrIncomplete && len(ends) > 0:
			t.Fatalf("%q: incomplete, but Framer found %v", stream, ends)
		}
	})
}

// FuzzParse: nothing panics; a Value that is encoded again is the same Value.
func FuzzParse(f *testing.F) {
	addReplies(f, func(reply []byte) { f.Add(reply) })
	f.Fuzz(func(t *testing.T, b []byte) {
		v, rest, err := Parse(b)
		if err != nil {
			if len(rest) != len(b) {
				t.Fatalf("%q: %v, rest %q", b, err, rest)
			}
			return
		}
		v.Text()
		v.Err()
		again, rest, err := Parse(encode(nil, v))
		if err != nil || len(rest) != 0 || spell(again) != spell(v) {
			t.Fatalf("%q: %s, again %s, %q, %v", b, spell(v), spell(again), rest, err)
		}
	})
}

func addReplies(f *testing.F, add func(reply []byte)) {
	for _, reply := range append(replies, malformed...) {
		if len(reply) < 1000 {
			add([]byte(reply))
		}
	}
	add([]byte(strings.Repeat("*1\r\n", maxDepth) + "_\r\n"))
}

// encode appends v as RESP.
func encode(dst []byte, v Value) []byte {
	line := func(text string) []byte { return append(append(append(dst, v.Kind), text...), "\r\n"...) }
	switch v.Kind {
	case '#':
		return append(dst, map[int64]string{0: "#f\r\n", 1: "#t\r\n"}[v.Int]...)
	case ':':
		return line(strconv.FormatInt(v.Int, 10))
	case '=':
		return AppendVerbatim(dst, 3, v.Text())
	case '$', '!':
		if dst = line(strconv.FormatInt(v.Int, 10)); v.Null() {
			return dst
		}
		return append(append(dst, v.Str...), "\r\n"...)
	case '*', '~', '>', '%':
		dst = line(strconv.FormatInt(v.Int, 10))
		for _, e := range v.Elems {
			dst = encode(dst, e)
		}
		return dst
	}
	return line(v.Text())
}

// hex is the value of a hexadecimal digit, -1 of any other byte.
func hex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
