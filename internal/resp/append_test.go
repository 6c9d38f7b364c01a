package resp

import (
	"testing"
)

func TestAppend(t *testing.T) {
	for _, c := range []struct {
		name         string
		append       func(dst []byte, proto int) []byte
		resp2, resp3 string
	}{
		{"map", func(d []byte, p int) []byte { return AppendMap(d, p, 2) }, "*4\r\n", "%2\r\n"},
		{"set", func(d []byte, p int) []byte { return AppendSet(d, p, 12) }, "*12\r\n", "~12\r\n"},
		{"push", func(d []byte, p int) []byte { return AppendPush(d, p, 3) }, "*3\r\n", ">3\r\n"},
		{"null", AppendNull, "$-1\r\n", "_\r\n"},
		{"null array", AppendNullArray, "*-1\r\n", "_\r\n"},
		{"verbatim", func(d []byte, p int) []byte { return AppendVerbatim(d, p, "ab\r\n") },
			"$4\r\nab\r\n\r\n", "=8\r\ntxt:ab\r\n\r\n"},
	} {
		if got := c.append([]byte("x"), 2); string(got) != "x"+c.resp2 {
			t.Errorf("%s: RESP2: %q, want %q", c.name, got, c.resp2)
		}
		if got := c.append([]byte("x"), 3); string(got) != "x"+c.resp3 {
			t.Errorf("%s: RESP3: %q, want %q", c.name, got, c.resp3)
		}
	}
}

func TestAppendCommand(t *testing.T) {
	const want = "*3\r\n$4\r\nECHO\r\n$0\r\n\r\n$3\r\n\r\n\x00\r\n"
	if got := AppendCommand(nil, []byte("ECHO"), nil, []byte("\r\n\x00")); string(got) != want {
		t.Errorf("%q", got)
	}
	if got := AppendCommandStrings(nil, "ECHO", "", "\r\n\x00"); string(got) != want {
		t.Errorf("%q", got)
	}
}

// An error repeats what was given byte for byte, also what is no UTF-8; only line breaks, which would end it,
// become blanks.
func TestErrorLineKeepsBytes(t *testing.T) {
	const want = "-ERR no 'é\xff\x00\xfe  ' (\xe9)\r\n"
	if got := ErrorLine("ERR no '%s' (%s)", []byte("é\xff\x00\xfe\r\n"), "\xe9"); string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}
