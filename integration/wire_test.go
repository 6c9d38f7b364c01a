package integration

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// reply is one reply of a server: its bytes and what they say.
type reply struct {
	raw   []byte
	kind  byte    // the type byte of RESP: + - : $ * _ # , ( = ! ~ % > |
	text  string  // of what is no aggregate
	null  bool    // $-1, *-1 or _
	elems []reply // of aggregates; a map's keys and values in turn
}

// readReply reads one reply, an attribute that stands before it included.
func readReply(r *bufio.Reader) (reply, error) {
	var raw bytes.Buffer
	v, err := decodeReply(r, &raw)
	v.raw = raw.Bytes()
	return v, err
}

func decodeReply(r *bufio.Reader, raw *bytes.Buffer) (reply, error) {
	line, err := r.ReadString('\n')
	raw.WriteString(line)
	if err != nil {
		if err == io.EOF && line != "" {
			err = io.ErrUnexpectedEOF
		}
		return reply{}, err
	}
	if len(line) < 3 || !strings.HasSuffix(line, "\r\n") {
		return reply{}, fmt.Errorf("%q is no line of RESP", line)
	}
	v := reply{kind: line[0], text: line[1 : len(line)-2]}
	switch v.kind {
	case '+', '-', ':', '#', ',', '(':
		return v, nil
	case '_':
		v.null = true
		return v, nil
	}
	n, err := strconv.Atoi(v.text)
	if err != nil || n < -1 {
		return v, fmt.Errorf("%q has no length", line)
	}
	if n == -1 {
		v.null, v.text = true, ""
		return v, nil
	}
	switch v.kind {
	case '$', '=', '!':
		b := make([]byte, n+2)
		m, err := io.ReadFull(r, b)
		raw.Write(b[:m])
		if err != nil {
			return v, io.ErrUnexpectedEOF
		}
		if string(b[n:]) != "\r\n" {
			return v, fmt.Errorf("%q does not end after %d bytes", b, n)
		}
		v.text = string(b[:n])
		return v, nil
	case '*', '~', '>', '%', '|':
		v.text = ""
		if v.kind == '%' || v.kind == '|' {
			n *= 2
		}
		for range n {
			e, err := decodeReply(r, raw)
			if err != nil {
				return v, err
			}
			v.elems = append(v.elems, e)
		}
		if v.kind == '|' { // an attribute: what it belongs to follows
			return decodeReply(r, raw)
		}
		return v, nil
	}
	return v, fmt.Errorf("%q is of no known type", line)
}

// isError says whether the reply is an error, whose word can be given.
func (v reply) isError(word ...string) bool {
	if v.kind != '-' && v.kind != '!' {
		return false
	}
	return len(word) == 0 || v.text == word[0] || strings.HasPrefix(v.text, word[0]+" ")
}

// int is the reply as an integer, -1 if it is none.
func (v reply) int() int64 {
	n, err := strconv.ParseInt(v.text, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// strings is an array's elements as text.
func (v reply) strings() []string {
	s := make([]string, len(v.elems))
	for i, e := range v.elems {
		s[i] = e.text
	}
	return s
}

// field is the value of a name in a map, or in an array of names and values.
func (v reply) field(name string) reply {
	for i := 0; i+1 < len(v.elems); i += 2 {
		if v.elems[i].text == name {
			return v.elems[i+1]
		}
	}
	return reply{}
}

// String is the reply on one line, in words near those of redis-cli.
func (v reply) String() string {
	var b strings.Builder
	v.write(&b)
	return b.String()
}

func (v reply) write(b *strings.Builder) {
	if v.null {
		b.WriteString("(nil)")
		return
	}
	switch v.kind {
	case '+':
		b.WriteString(v.text)
	case '-', '!':
		b.WriteString("(error) " + v.text)
	case ':':
		b.WriteString("(integer) " + v.text)
	case '$':
		b.WriteString(quote(v.text))
	case ',':
		b.WriteString("(double) " + v.text)
	case '(':
		b.WriteString("(big number) " + v.text)
	case '#':
		b.WriteString(map[string]string{"t": "(true)", "f": "(false)"}[v.text])
	case '=':
		b.WriteString("(verbatim) " + quote(v.text))
	case '%':
		b.WriteByte('{')
		for i, e := range v.elems {
			switch {
			case i%2 == 1:
				b.WriteString(" => ")
			case i > 0:
				b.WriteString(", ")
			}
			e.write(b)
		}
		b.WriteByte('}')
	default:
		b.WriteString(map[byte]string{'*': "[", '~': "(set) [", '>': "(push) ["}[v.kind])
		for i, e := range v.elems {
			if i > 0 {
				b.WriteString(", ")
			}
			e.write(b)
		}
		b.WriteByte(']')
	}
}

// quote quotes as redis-cli does: \xHH for what cannot be printed.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// encode is a command as clients send it.
func encode(args ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b
}
