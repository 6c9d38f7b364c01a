package rig

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Reply is one reply of a server: its bytes and what they say.
type Reply struct {
	Raw   []byte
	Kind  byte    // the type byte of RESP: + - : $ * _ # , ( = ! ~ % > |
	Text  string  // of what is no aggregate
	Null  bool    // $-1, *-1 or _
	Elems []Reply // of aggregates; a map's keys and values in turn
}

// ReadReply reads one reply, an attribute that stands before it included.
func ReadReply(r *bufio.Reader) (Reply, error) {
	var raw bytes.Buffer
	v, err := decodeReply(r, &raw)
	v.Raw = raw.Bytes()
	return v, err
}

func decodeReply(r *bufio.Reader, raw *bytes.Buffer) (Reply, error) {
	line, err := r.ReadString('\n')
	raw.WriteString(line)
	if err != nil {
		if err == io.EOF && line != "" {
			err = io.ErrUnexpectedEOF
		}
		return Reply{}, err
	}
	if len(line) < 3 || !strings.HasSuffix(line, "\r\n") {
		return Reply{}, fmt.Errorf("%q is no line of RESP", line)
	}
	v := Reply{Kind: line[0], Text: line[1 : len(line)-2]}
	switch v.Kind {
	case '+', '-', ':', '#', ',', '(':
		return v, nil
	case '_':
		v.Null = true
		return v, nil
	}
	n, err := strconv.Atoi(v.Text)
	if err != nil || n < -1 {
		return v, fmt.Errorf("%q has no length", line)
	}
	if n == -1 {
		v.Null, v.Text = true, ""
		return v, nil
	}
	switch v.Kind {
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
		v.Text = string(b[:n])
		return v, nil
	case '*', '~', '>', '%', '|':
		v.Text = ""
		if v.Kind == '%' || v.Kind == '|' {
			n *= 2
		}
		for range n {
			e, err := decodeReply(r, raw)
			if err != nil {
				return v, err
			}
			v.Elems = append(v.Elems, e)
		}
		if v.Kind == '|' { // an attribute: what it belongs to follows
			return decodeReply(r, raw)
		}
		return v, nil
	}
	return v, fmt.Errorf("%q is of no known type", line)
}

// IsError says whether the reply is an error, whose word can be given.
func (v Reply) IsError(word ...string) bool {
	if v.Kind != '-' && v.Kind != '!' {
		return false
	}
	return len(word) == 0 || v.Text == word[0] || strings.HasPrefix(v.Text, word[0]+" ")
}

// Int is the reply as an integer, -1 if it is none.
func (v Reply) Int() int64 {
	n, err := strconv.ParseInt(v.Text, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// Strings is an array's elements as text.
func (v Reply) Strings() []string {
	s := make([]string, len(v.Elems))
	for i, e := range v.Elems {
		s[i] = e.Text
	}
	return s
}

// Field is the value of a name in a map, or in an array of names and values.
func (v Reply) Field(name string) Reply {
	for i := 0; i+1 < len(v.Elems); i += 2 {
		if v.Elems[i].Text == name {
			return v.Elems[i+1]
		}
	}
	return Reply{}
}

// String is the reply on one line, in words near those of redis-cli.
func (v Reply) String() string {
	var b strings.Builder
	v.write(&b)
	return b.String()
}

func (v Reply) write(b *strings.Builder) {
	if v.Null {
		b.WriteString("(nil)")
		return
	}
	switch v.Kind {
	case '+':
		b.WriteString(v.Text)
	case '-', '!':
		b.WriteString("(error) " + v.Text)
	case ':':
		b.WriteString("(integer) " + v.Text)
	case '$':
		b.WriteString(Quote(v.Text))
	case ',':
		b.WriteString("(double) " + v.Text)
	case '(':
		b.WriteString("(big number) " + v.Text)
	case '#':
		b.WriteString(map[string]string{"t": "(true)", "f": "(false)"}[v.Text])
	case '=':
		b.WriteString("(verbatim) " + Quote(v.Text))
	case '%':
		b.WriteByte('{')
		for i, e := range v.Elems {
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
		b.WriteString(map[byte]string{'*': "[", '~': "(set) [", '>': "(push) ["}[v.Kind])
		for i, e := range v.Elems {
			if i > 0 {
				b.WriteString(", ")
			}
			e.write(b)
		}
		b.WriteByte(']')
	}
}

// Quote quotes as redis-cli does: \xHH for what cannot be printed.
func Quote(s string) string {
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

// Encode is a command as clients send it.
func Encode(args ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b
}

// SplitArgs reads a command as redis-cli reads a line: words, and strings in
// double quotes with \n, \r, \t, \xHH, \\ and \".
func SplitArgs(line string) ([]string, error) {
	var args []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] != '"' {
			word, rest, _ := strings.Cut(line, " ")
			args, line = append(args, word), rest
			continue
		}
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			return nil, fmt.Errorf("quotes of %s: %v", line, err)
		}
		arg, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, err
		}
		args, line = append(args, arg), line[len(quoted):]
	}
	return args, nil
}
