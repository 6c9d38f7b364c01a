package commands_test

import (
	"fmt"
	"strings"
	"testing"
)

// slowEntry is an entry of a node's log.
func slowEntry(id, second int, words ...string) string {
	var args strings.Builder
	for _, word := range words {
		fmt.Fprintf(&args, "$%d\r\n%s\r\n", len(word), word)
	}
	return fmt.Sprintf("*6\r\n:%d\r\n:%d\r\n:20000\r\n*%d\r\n%s$3\r\na:1\r\n$9\r\nlockproxy\r\n", id, second,
		len(words), args.String())
}

// TestSlowlogOfAllMasters proves that the logs of the masters are one: by time, with numbers of their own,
// cut to what was asked for, and without secrets. Whatever else a server tells of an entry stays.
func TestSlowlogOfAllMasters(t *testing.T) {
	const setter = "masterauth"
	one := "*2\r\n" + slowEntry(9, 30, "GET", "a") + slowEntry(8, 10, "CONFIG", "SET", setter, "SECRET")
	two := "*2\r\n" + slowEntry(4, 20, "GET", "b") + slowEntry(3, 10, "GET", "c")
	a, b := slowEntry(18, 30, "GET", "a"), slowEntry(9, 20, "GET", "b")
	secret, c := slowEntry(16, 10, "CONFIG", "SET", setter, "(redacted)"), slowEntry(7, 10, "GET", "c")
	for line, want := range map[string]string{
		"SLOWLOG GET": "*4\r\n" + a + b + secret + c, "SLOWLOG GET -1": "*4\r\n" + a + b + secret + c,
		"SLOWLOG GET 2": "*2\r\n" + a + b, "SLOWLOG GET 0": "*0\r\n",
	} {
		f := newSession(t, saying(one), saying(two))
		if got := f.Do(line); got != want || len(f.Sent) != 2 {
			t.Errorf("%s after %q:\n%q, want\n%q", line, f.Sent, got, want)
		}
	}
	for line, replies := range map[string][3]string{
		"SLOWLOG LEN":   {":3\r\n", ":4\r\n", ":7\r\n"},
		"SLOWLOG RESET": {"+OK\r\n", "+OK\r\n", "+OK\r\n"},
		"SLOWLOG GET x": {"-ERR no integer\r\n", "-ERR no integer\r\n", "-ERR no integer\r\n"},
	} {
		f := newSession(t, saying(replies[0]), saying(replies[1]))
		if got := f.Do(line); got != replies[2] {
			t.Errorf("%s: %q", line, got)
		}
	}
}
