package resp

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// replies are whole replies of every type, alone and nested.
var replies = []string{
	"+OK\r\n", "+\r\n", "+O\r\n", "+PONG\r\n", "+with \r and \n in it\r\n", "+\n\r\n", "+\r\r\n",
	"-ERR unknown command\r\n", "-\r\n",
	":0\r\n", ":-1\r\n", ":42\r\n", ":9223372036854775807\r\n", ":-9223372036854775808\r\n",
	"$0\r\n\r\n", "$3\r\nbar\r\n", "$-1\r\n", "$5\r\n\r\n+\r\n\r\n", "$12\r\nabcdefghijkl\r\n",
	"*0\r\n", "*-1\r\n", "*1\r\n:1\r\n", "*2\r\n$1\r\na\r\n*2\r\n+b\r\n*-1\r\n",
	"*3\r\n*0\r\n*0\r\n*1\r\n*0\r\n",
	"_\r\n", "#t\r\n", "#f\r\n", ",1.5\r\n", ",inf\r\n", ",-inf\r\n", ",nan\r\n", ",1e10\r\n",
	"(3492890328409238509324850943850943825024385\r\n",
	"=15\r\ntxt:Some string\r\n", "!21\r\nSYNTAX invalid syntax\r\n", "!0\r\n\r\n",
	"%0\r\n", "%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n", "~0\r\n", "~3\r\n:1\r\n:2\r\n#t\r\n",
	">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n",
	"|1\r\n+ttl\r\n:3600\r\n$3\r\nbar\r\n", "|0\r\n:1\r\n", "*2\r\n|1\r\n+a\r\n+b\r\n:1\r\n:2\r\n",
	"|1\r\n+a\r\n|1\r\n+b\r\n+c\r\n:0\r\n:1\r\n",
	"%1\r\n|1\r\n+a\r\n+b\r\n+key\r\n|0\r\n*1\r\n_\r\n",
	strings.Repeat("*1\r\n", 100_000) + ":1\r\n",
	strings.Repeat("|1\r\n", 1000) + strings.Repeat(":1\r\n", 2001),
	"*1000\r\n" + strings.Repeat("$-1\r\n", 1000),
	"$100000\r\n" + strings.Repeat("\r\n", 50_000) + "\r\n",
	"+" + strings.Repeat("x", lineLimit-3) + "\r\n",
	"+" + strings.Repeat("x", 3*lineLimit) + "\r\n",
	"-" + strings.Repeat("\r", 2*lineLimit) + "\r\n",
	"(" + strings.Repeat("1\n", 2*lineLimit) + "\r\n",
}

// malformed are bytes that no reply starts with.
var malformed = []string{
	"x", "\r\n", "\x00", " OK\r\n", "OK\r\n", "?\r\n",
	"$\r\n", "$-2\r\n", "$01\r\n", "$+1\r\n", "$ 1\r\n", "$1 \r\n", "$1\n", "$x\r\n", "$-0\r\n", "$-\r\n",
	"$?\r\n", "$9223372036854775807\r\n",
	"$18446744073709551616\r\n", "$9999999999999999999\r\n", "$1111111111111111111111111111", "$1\r\nab\r\n",
	"$1\r\na\rx", "$1\r\na\n\n", "$0\r\nab", "$-4294967297\r\n",
	"*\r\n", "*-2\r\n", "*01\r\n", "*?\r\n", "*9223372036854775807\r\n", "*1\r\nx", "*2\r\n:1\r\nx\r\n",
	"%-1\r\n", "~-1\r\n", ">-1\r\n", "|-1\r\n", "!-1\r\n", "=-1\r\n", "%9223372036854775807\r\n",
	":\r\n", ":x\r\n", ":1.5\r\n", ":01\r\n", ":+1\r\n", ":1\n", ":9223372036854775808\r\n", ":-\r\n",
	"_x\r\n", "_\n", "#\r\n", "#x\r\n", "#tt\r\n", "#t\n",
	strings.Repeat("%999999999999999999\r\n", 10),
}

// frame gives pieces to a Framer as a loop would and says where replies ended.
func frame(pieces [][]byte) (ends []int, rest string) {
	var f Framer
	var kept []byte
	total := 0
	for _, piece := range pieces {
		kept = append(kept, piece...)
		for {
			n, done, err := f.Next(kept)
			if err != nil {
				return ends, "malformed"
			}
			kept = kept[n:]
			total += n
			if !done {
				break
			}
			ends = append(ends, total)
		}
		if len(kept) > lineLimit {
			return ends, "kept too much"
		}
	}
	if f.left > 0 && total+len(kept) > lastOf(ends) {
		return ends, "incomplete"
	}
	return ends, ""
}

func lastOf(ends []int) int {
	if len(ends) == 0 {
		return 0
	}
	return ends[len(ends)-1]
}

func cutEvery(n int, b []byte) (pieces [][]byte) {
	for len(b) > n {
		pieces = append(pieces, b[:n])
		b = b[n:]
	}
	return append(pieces, b)
}

func TestFramer(t *testing.T) {
	for _, reply := range replies {
		for _, size := range []int{1, 2, 3, 7, 4096, lineLimit, 1 << 20} {
			if len(reply)/size > 300_000 {
				continue
			}
			stream := []byte(reply + ":7\r\n")
			ends, rest := frame(cutEvery(size, stream))
			if len(ends) != 2 || ends[0] != len(reply) || ends[1] != len(stream) || rest != "" {
				t.Errorf("%.60q in pieces of %d: %d bytes, got %v, %q", reply, size, len(reply), ends, rest)
			}
		}
	}
}

func TestFramerTogether(t *testing.T) {
	stream := []byte(strings.Join(replies, ""))
	ends, rest := frame([][]byte{stream})
	if len(ends) != len(replies) || lastOf(ends) != len(stream) || rest != "" {
		t.Errorf("%d of %d replies, %q", len(ends), len(replies), rest)
	}
}

func TestFramerMalformed(t *testing.T) {
	for _, text := range malformed {
		// The zeros let an announced length that is too short be seen.
		for _, size := range []int{1, 3, 1 << 20} {
			ends, rest := frame(cutEvery(size, []byte(text)))
			if len(ends) != 0 || rest != "malformed" {
				t.Errorf("%.40q in pieces of %d: %v, %q", text, size, ends, rest)
			}
		}
	}
}

// After an error, as after Reset, a Framer stands at the start of a reply.
func TestFramerStartsAgain(t *testing.T) {
	for name, upset := range map[string]func(f *Framer){
		"in an array":    func(f *Framer) { f.Next([]byte("*3\r\n:1\r\n")) },
		"in a bulk":      func(f *Framer) { f.Next([]byte("$9\r\nabc")) },
		"in a line":      func(f *Framer) { f.Next([]byte("+abc")) },
		"in a long line": func(f *Framer) { f.Next([]byte("+abc" + strings.Repeat("x", lineLimit))) },
	} {
		var f Framer
		upset(&f)
		if f.Reset(); f != (Framer{}) {
			t.Errorf("%s: %+v", name, f)
		}
		upset(&f)
		if strings.Contains(name, "array") {
			if _, _, err := f.Next([]byte("x")); err != ErrReply || f != (Framer{}) {
				t.Errorf("%s: %v, %+v", name, err, f)
			}
		}
	}
}

// All of a bulk is consumed as it comes, so that it can be streamed.
func TestFramerStreams(t *testing.T) {
	for _, c := range []struct {
		buf string
		n   int
	}{
		{"$100\r\nabc", 9},
		{"$100\r\n", 6},
		{"$3\r\nabc", 7},
		{"$3\r\nabc\r", 8},
		{"*2\r\n$3\r\nabc\r\n$10", 13},
		{"*2\r\n$3\r\nabc\r\n", 13},
		{"*2\r\n+abc", 4},
		{"+abc", 0},
		{"-MOVED 1 ", 0},
		{"$10", 0},
		{"+" + strings.Repeat("x", lineLimit-1), 0},
		{"+" + strings.Repeat("x", lineLimit), lineLimit + 1},
		{"", 0},
	} {
		var f Framer
		if n, done, err := f.Next([]byte(c.buf)); n != c.n || done || err != nil {
			t.Errorf("%.40q: %d, %v, %v, want %d", c.buf, n, done, err, c.n)
		}
	}
}

// A reply that declares more than anybody can send costs nothing.
func TestFramerDeclaredLengths(t *testing.T) {
	for _, text := range []string{"*999999999999999999\r\n", "$999999999999999999\r\nabc",
		"%999999999999999999\r\n:1\r\n"} {
		ends, rest := frame([][]byte{[]byte(text)})
		if len(ends) != 0 || rest != "incomplete" {
			t.Errorf("%q: %v, %q", text, ends, rest)
		}
	}
}

func TestFramerAllocatesNothing(t *testing.T) {
	for _, reply := range replies {
		buf := []byte(reply)
		var f Framer
		if n := testing.AllocsPerRun(10, func() {
			for at := 0; at < len(buf); {
				n, _, _ := f.Next(buf[at:min(len(buf), at+1000)])
				if at += n; n == 0 {
					break
				}
			}
			f.Reset()
			f.Next(buf)
			f.Reset()
		}); n > 0 {
			t.Errorf("%.40q: %v allocations", reply, n)
		}
	}
}

// However a stream of replies is cut, the same ones come out.
func TestFramerCutAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		var want []int
		for range rapid.IntRange(0, 4).Draw(t, "replies") {
			stream = drawReply(t, stream, 3)
			want = append(want, len(stream))
		}
		ends, rest := frame(drawPieces(t, stream))
		if len(ends) != len(want) || rest != "" {
			t.Fatalf("%q: got %v, %q, want %v", stream, ends, rest, want)
		}
		for i := range want {
			if ends[i] != want[i] {
				t.Fatalf("%q: got %v, want %v", stream, ends, want)
			}
		}
	})
}

// drawReply appends a reply of any type and depth.
func drawReply(t *rapid.T, dst []byte, depth int) []byte {
	kind := rapid.SampledFrom([]byte("+-:$!=_#,(*%~>|")).Draw(t, "kind")
	line := func(text string) []byte { return append(append(append(dst, kind), text...), "\r\n"...) }
	switch kind {
	case '+', '-', ',', '(':
		return line(rapid.StringMatching(`[ a-z0-9.]{0,20}`).Draw(t, "text"))
	case ':':
		return line(strconv.FormatInt(rapid.Int64().Draw(t, "integer"), 10))
	case '_':
		return line("")
	case '#':
		return line(rapid.SampledFrom([]string{"t", "f"}).Draw(t, "bool"))
	case '$', '!', '=':
		text := rapid.StringMatching(`[a\r\n]{0,30}`).Draw(t, "bulk")
		if kind == '=' {
			text = "txt:" + text
		}
		return append(append(line(strconv.Itoa(len(text))), text...), "\r\n"...)
	}
	n := 0
	if depth > 0 {
		n = rapid.IntRange(0, 4).Draw(t, "length")
	}
	dst = line(strconv.Itoa(n))
	switch kind {
	case '%':
		n *= 2
	case '|':
		n = 2*n + 1
	}
	for range n {
		dst = drawReply(t, dst, max(depth-1, 0))
	}
	return dst
}
