package proxy

import (
	"testing"
	"testing/synctest"

	"lockproxy/commands"
)

// TestWhose proves that slow commands find their clients: by what they are and how long they took, and of
// those that are alike the newest first.
func TestWhose(t *testing.T) {
	var l slowLog
	for _, s := range []slowSeenAs{
		{"debug", "a", "old", 1000, 200_000},
		{"debug", "b", "long", 1001, 900_000},
		{"config|set", "c", "set", 1001, 300_000},
		{"debug", "d", "new", 1001, 200_900},
		{"debug", "e", "other day", 2000, 200_100},
	} {
		l.seen[l.next%slowSeen] = s
		l.next++
	}
	entry := func(took int64, words ...string) commands.SlowEntry {
		e := commands.SlowEntry{Time: 1001, Took: took, Name: upstreamName}
		for _, word := range words {
			e.Args = append(e.Args, []byte(word))
		}
		return e
	}
	for range 2 { // each time from the start
		whose := l.Whose()
		for _, test := range []struct {
			e    commands.SlowEntry
			name string
		}{
			{entry(199_000, "CONFIG", "SET"), "set"},
			{entry(199_000, "debug", "sleep"), "new"},
			{entry(198_000, "DEBUG", "SLEEP"), "old"},
			{entry(197_000, "DEBUG"), "long"},
			{entry(196_000, "DEBUG"), ""},
			{entry(1, "GET", "k"), ""},
		} {
			if _, name, ok := whose(test.e); name != test.name || ok != (name != "") {
				t.Errorf("%q of %d µs is that of %q", test.e.Args, test.e.Took, name)
			}
		}
	}
}

// TestSlowlogResetInTransaction proves that SLOWLOG RESET behind MULTI empties the proxy's log, too, once it
// runs.
func TestSlowlogResetInTransaction(t *testing.T) {
	inTxBubble(t, 1, Options{}, func(r *rig, n *txNodes) {
		c := r.connect()
		left := func() int {
			synctest.Wait()
			return len(r.server.slow.Own())
		}
		r.server.slow.own = []commands.SlowEntry{{}}
		c.send("MULTI", "SLOWLOG RESET", "DISCARD")
		c.expect(ok + queuedOK + ok)
		if left() != 1 {
			t.Error("DISCARD has emptied the log")
		}
		c.send("MULTI", "SLOWLOG RESET", "EXEC")
		c.expect(ok + queuedOK + "*1\r\n")
		if left() != 0 {
			t.Error("EXEC has not emptied the log")
		}
	})
}
