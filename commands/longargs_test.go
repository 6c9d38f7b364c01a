package commands_test

import (
	"strings"
	"testing"

	"lockproxy/internal/resp"
)

// An error repeats the beginning of a long argument.
func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("x", 1_000_000)
	f := sessionOver(t, redis7(t, sampleVerbs()...),
		saying("-ERR No such user '"+long+"'\r\n"))
	for _, words := range [][]string{
		{"CLIENT", "LIST", "TYPE", long}, {"CLIENT", "KILL", "USER", long}, {"HELLO", "3", long},
	} {
		if got := f.Args(words...); len(got) > resp.MaxQuoted+200 ||
			!strings.Contains(got, "... (983616 more bytes)") {
			t.Errorf("%.2q: %d bytes: %.100s", words, len(got), got)
		}
	}
}
