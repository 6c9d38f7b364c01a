package connection

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/commands"
)

// The filters of Valkey select what their names say, and their opposites all others.
func TestFilters(t *testing.T) {
	now := time.Now()
	all := []*commands.Peer{
		{Client: &commands.Client{ID: 1, Addr: "10.0.0.1:5", LocalAddr: "l:1", Created: now}},
		{Client: &commands.Client{ID: 2, Addr: "10.0.0.2:5", LocalAddr: "l:2"}},
		{Client: &commands.Client{ID: 3, Addr: "[::1]:5", LocalAddr: "l:1"}},
	}
	all[0].Redirectable = true
	all[1].Created, all[2].Created = now.Add(-time.Minute), now.Add(-time.Hour)
	all[1].Name, all[1].LibName, all[1].LibVersion, all[1].DB, all[1].User = "me", "lib", "2", 4, "ann"
	all[2].Idle, all[2].Transaction.Open, all[2].NoTouch = time.Minute, true, true
	all[2].Topics[0] = 1
	for _, test := range []struct{ args, want string }{
		{"", "1 2 3"},
		{"id 1 3", "1 3"}, {"not-id 1 3", "2"}, {"id 1 2 not-id 2", "1"}, {"id skipme no", ""},
		{"id", "-ERR syntax error"}, {"id 3 id 2 2", "2 3"}, {"not-id 3 not-id 2", "1"},
		{"addr 10.0.0.2:5", "2"}, {"not-addr 10.0.0.2:5", "1 3"},
		{"laddr l:1", "1 3"}, {"not-laddr l:1", "2"},
		{"ip ::1", "3"}, {"not-ip ::1", "1 2"},
		{"type pubsub", "3"}, {"not-type pubsub", "1 2"}, {"type master", ""},
		{"user ann", "2"}, {"not-user ann", "1 3"},
		{"name me", "2"}, {"not-name me", "1 3"},
		{"lib-name lib lib-ver 2", "2"}, {"not-lib-name lib", "1 3"}, {"not-lib-ver 2", "1 3"},
		{"db 4", "2"}, {"not-db 4", "1 3"}, {"db 0 db 4", "2"},
		{"maxage 60", "2 3"}, {"idle 60", "3"}, {"idle 61", ""},
		{"flags N", "1 2"}, {"flags xT", "3"}, {"flags xN", ""}, {"not-flags N", "3"},
		{"capa rr", "1"}, {"not-capa r", "2 3"},
		{"skipme yes", "2 3"}, {"skipme yes skipme no", "1 2 3"},
		{"id 0", "-ERR client-id should be greater than 0"},
		{"id 1 x", "-ERR syntax error"}, {"addr", "-ERR syntax error"}, {"skipme x", "-ERR syntax error"},
		{"not-maxage 1", "-ERR syntax error"}, {"not-idle 1", "-ERR syntax error"},
		{"not-skipme no", "-ERR syntax error"},
		{"idle 0", "-ERR idle should be greater than 0"},
		{"maxage x", "-ERR maxage is not an integer or out of range"},
		{"db x", "-ERR DB is not an integer or out of range"},
		{"not-db -1", "-ERR NOT-DB is not an integer or out of range"},
		{"flags xz", "-ERR Unknown flags found in the provided filter: xz"},
		{"not-flags z", "-ERR Unknown flags found in the NOT-FLAGS filter: z"},
		{"capa z", "-ERR Unknown capa found in the provided filter: z"},
		{"type nobody", "-ERR Unknown client type 'nobody'"},
	} {
		f := filter{}
		var args [][]byte
		for _, word := range strings.Fields(test.args) {
			args = append(args, []byte(word))
		}
		got := strings.TrimSpace(string(f.parseFilters(dialect{ids: true, all: true}, args, 1)))
		if got == "" {
			var ids []int64
			for _, p := range all {
				if (f.ids == nil || slices.Contains(f.ids, p.ID)) && f.selectsPeer(p, now) {
					ids = append(ids, p.ID)
				}
			}
			got = strings.Trim(fmt.Sprint(ids), "[]")
		}
		if got != test.want {
			t.Errorf("%q: %s, want %s", test.args, got, test.want)
		}
	}
}

// What a filter costs for a client does not grow with its value: it asks for each letter once.
func TestLongFlags(t *testing.T) {
	for value, want := range map[string]string{"": "", "N": "N", strings.Repeat("NxN", 1<<18): "Nx",
		knownFlags + knownFlags: string(slices.Sorted(slices.Values([]byte(knownFlags))))} {
		if got := string(letters([]byte(value))); got != want {
			t.Errorf("of %d letters %q are asked for, want %q", len(value), got, want)
		}
	}
}
