package rig

import (
	"bufio"
	"strings"
	"testing"
)

func TestReadReply(t *testing.T) {
	for _, tt := range []struct{ raw, want string }{
		{"+OK\r\n", `OK`},
		{"-ERR no\r\n", `(error) ERR no`},
		{":-7\r\n", `(integer) -7`},
		{"$-1\r\n", `(nil)`},
		{"*-1\r\n", `(nil)`},
		{"$4\r\na\"\r\n\r\n", `"a\"\r\n"`},
		{"*2\r\n%1\r\n+k\r\n,1.5\r\n~2\r\n_\r\n#t\r\n", `[{k => (double) 1.5}, (set) [(nil), (true)]]`},
		{"|1\r\n+ttl\r\n:9\r\n=5\r\ntxt:a\r\n", `(verbatim) "txt:a"`},
		{">2\r\n+message\r\n(12345678901234567890\r\n",
			`(push) [message, (big number) 12345678901234567890]`},
		{"!7\r\nERR bad\r\n", `(error) ERR bad`},
	} {
		v, err := ReadReply(bufio.NewReader(strings.NewReader(tt.raw + "+next\r\n")))
		if err != nil || v.String() != tt.want || string(v.Raw) != tt.raw {
			t.Errorf("%q: %s, raw %q, %v; want %s", tt.raw, v, v.Raw, err, tt.want)
		}
	}
	for _, raw := range []string{"", "+OK", "$3\r\nab", "$3\r\nabcde", "*1\r\n", "OK\r\n",
		"$x\r\n", "*-2\r\n",
		"\r\n"} {
		if v, err := ReadReply(bufio.NewReader(strings.NewReader(raw))); err == nil {
			t.Errorf("%q passed as %s", raw, v)
		}
	}
}
