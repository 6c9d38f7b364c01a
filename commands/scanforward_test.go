package commands_test

import (
	"strings"
	"testing"
)

// The cursors of a node pass through when there is one only, and its errors
// always.
func TestScanForwards(t *testing.T) {
	f := newSession(t, saying("*2\r\n$20\r\n18446744073709551615\r\n*0\r\n"))
	if got := f.Do("SCAN 18446744073709551615"); got != "*2\r\n$20\r\n18446744073709551615\r\n*0\r\n" {
		t.Errorf("%q", got)
	}
	f = newSession(t, saying("-ERR syntax error\r\n"), saying(""))
	if got := f.Do("SCAN 0 MATCH"); got != "-ERR syntax error\r\n" {
		t.Errorf("%q, %q", got, f.Sent)
	}
	f = newSession(t, func(args []string) string {
		if args[0] == "INFO" {
			return "$9\r\nrun_id:x\n\r\n"
		}
		return "*2\r\n$20\r\n18446744073709551615\r\n*0\r\n"
	}, saying(""))
	if got := f.Do("SCAN 0"); !strings.HasPrefix(got, "-ERR ") {
		t.Errorf("%q", got)
	}
	for _, cursor := range []string{"x", "-1", "9223372036854775808", "18446744073709551616", "7", ""} {
		if got := f.Args("SCAN", cursor); got != "-ERR invalid cursor\r\n" {
			t.Errorf("%s: %q", cursor, got)
		}
	}
}
