package commands_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/cluster/pubsub"
	"lockproxy/commands"
)

func TestClientKillFilters(t *testing.T) {
	now := time.Now()
	peer := func(id int64, addr, local string, age time.Duration) *commands.Peer {
		return &commands.Peer{Client: &commands.Client{ID: id, Addr: addr, LocalAddr: local,
			Created: now.Add(-age)}}
	}
	for _, test := range []struct{ line, answer, closed string }{
		{"CLIENT KILL a:2", "+OK\r\n", "2"},
		{"CLIENT KILL 127.0.0.1:1234", "+OK\r\n", "7"},
		{"CLIENT KILL a:4", "-ERR No such client\r\n", ""},
		{"CLIENT KILL ID 7", ":0\r\n", ""},
		{"CLIENT KILL ID 7 SKIPME no", ":1\r\n", "7"},
		{"CLIENT KILL ID 2", ":1\r\n", "2"},
		{"CLIENT KILL ID 2 ADDR a:9", ":0\r\n", ""},
		{"CLIENT KILL SKIPME yes", ":3\r\n", "2 9 11"},
		{"CLIENT KILL skipme NO", ":4\r\n", "2 7 9 11"},
		{"CLIENT KILL LADDR l:1", ":2\r\n", "2 11"},
		{"CLIENT KILL TYPE pubsub", ":1\r\n", "9"},
		{"CLIENT KILL TYPE master", ":0\r\n", ""},
		{"CLIENT KILL USER default TYPE normal", ":1\r\n", "2"},
		{"CLIENT KILL MAXAGE 60", ":2\r\n", "9 11"},
		{"CLIENT KILL MAXAGE 9223372036854775807", ":0\r\n", ""},
		{"CLIENT KILL MAXAGE 0", "-ERR maxage should be greater than 0\r\n", ""},
		{"CLIENT KILL MAXAGE x", "-ERR maxage is not an integer or out of range\r\n", ""},
	} {
		f := newSession(t)
		f.Peers.Others = []*commands.Peer{peer(2, "a:2", "l:1", 0), peer(9, "a:9", "l:2", time.Hour),
			peer(11, "a:11", "l:1", time.Minute)}
		f.Peers.Others[1].Topics[pubsub.Classic] = 1
		f.Peers.Others[2].User = "other"
		answer := f.Do(test.line)
		if closed := strings.Trim(fmt.Sprint(f.Peers.Closed), "[]"); answer != test.answer ||
			closed != test.closed {
			t.Errorf("%s: %q, closed %s; want %q, %s", test.line, answer, closed, test.answer, test.closed)
		}
	}
}

// A client may name the same ids again and again, but not for a reply of gigabytes.
func TestClientListRepeats(t *testing.T) {
	f := newSession(t)
	f.Peers.Others = []*commands.Peer{{Client: &commands.Client{ID: 9, Name: strings.Repeat("n", 1<<20)}}}
	if got := f.Do("CLIENT LIST ID 9 9 9"); strings.Count(got, "id=9 ") != 3 {
		t.Errorf("%d lines", strings.Count(got, "id=9 "))
	}
	want := "-ERR the same ids are named too often for one reply\r\n"
	if got := f.Do("CLIENT LIST ID" + strings.Repeat(" 9", 100)); got != want {
		t.Errorf("%.80q, %d bytes", got, len(got))
	}
}
