package commands_test

import (
	"testing"
)

func TestAllNodes(t *testing.T) {
	type masters = []string
	for _, test := range []struct {
		line    string
		replies masters
		want    string
	}{
		{"DBSIZE", masters{":1\r\n", ":20\r\n", ":300\r\n"}, ":321\r\n"},
		{"DBSIZE", masters{":1\r\n", "-LOADING x\r\n", "-ERR y\r\n"}, "-LOADING x\r\n"},
		{"KEYS *", masters{"*1\r\n$1\r\na\r\n", "*0\r\n", "*2\r\n$1\r\nb\r\n$1\r\nc\r\n"},
			"*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"},
		{"KEYS *", masters{"*0\r\n", "*0\r\n"}, "*0\r\n"},
		{"FLUSHALL", masters{"+OK\r\n", "+OK\r\n"}, "+OK\r\n"},
		{"FLUSHDB ASYNC", masters{"+OK\r\n", "-ERR x\r\n"}, "-ERR x\r\n"},
		{"SCRIPT EXISTS a b c", masters{"*3\r\n:1\r\n:0\r\n:1\r\n", "*3\r\n:1\r\n:1\r\n:0\r\n"},
			"*3\r\n:1\r\n:0\r\n:0\r\n"},
		{"SCRIPT LOAD x", masters{"$3\r\nsha\r\n", "$3\r\nsha\r\n"}, "$3\r\nsha\r\n"},
		{"SCRIPT FLUSH", masters{"+OK\r\n", "+OK\r\n"}, "+OK\r\n"},
		{"FUNCTION LOAD x", masters{"$1\r\nl\r\n", "-ERR x\r\n"}, "-ERR x\r\n"},
		{"LASTSAVE", masters{":1\r\n"}, ":1\r\n"},
		{"LASTSAVE", masters{":1\r\n", ":2\r\n"}, ":1\r\n"},
	} {
		f := newSession(t)
		f.Masters = nil
		for _, reply := range test.replies {
			f.Masters = append(f.Masters, saying(reply))
		}
		if got := f.Do(test.line); got != test.want {
			t.Errorf("%s of %q: %q", test.line, test.replies, got)
		}
	}
}

func TestRandomKey(t *testing.T) {
	for range 20 {
		f := newSession(t, saying("$-1\r\n"), saying("$1\r\nk\r\n"),
			saying("$-1\r\n"))
		if got := f.Do("RANDOMKEY"); got != "$1\r\nk\r\n" {
			t.Fatalf("%q", got)
		}
	}
	f := newSession(t, saying("_\r\n"), saying("_\r\n"))
	if got := f.Do("RANDOMKEY"); got != "_\r\n" || len(f.Sent) != 2 {
		t.Errorf("%q after %q", got, f.Sent)
	}
	f = newSession(t, saying("-ERR x\r\n"), saying("-ERR x\r\n"))
	if got := f.Do("RANDOMKEY"); got != "-ERR x\r\n" {
		t.Errorf("%q", got)
	}
}
