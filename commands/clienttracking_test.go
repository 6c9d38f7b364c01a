package commands_test

import (
	"strings"
	"testing"
)

// A conversation about tracking: each command with its answer and what a node is sent for it.
func TestTracking(t *testing.T) {
	f := newSession(t)
	for _, tt := range []struct{ line, want, sent string }{
		{"CLIENT GETREDIR", ":-1\r\n", ""},
		{"CLIENT TRACKINGINFO", "*6\r\n$5\r\nflags\r\n*1\r\n$3\r\noff\r\n$8\r\nredirect\r\n:-1\r\n$8\r\n" +
			"prefixes\r\n*0\r\n", ""},
		{"CLIENT CACHING YES", "-ERR CLIENT CACHING can be called only when the client is in tracking " +
			"mode with OPTIN or OPTOUT mode enabled\r\n", ""},
		{"CLIENT TRACKING", "-ERR wrong number of arguments for 'client|tracking' command\r\n", ""},
		{"CLIENT TRACKING maybe", "-ERR syntax error\r\n", ""},
		{"CLIENT TRACKING on REDIRECT", "-ERR syntax error\r\n", ""},
		{"CLIENT TRACKING on REDIRECT x", "-ERR value is not an integer or out of range\r\n", ""},
		{"CLIENT TRACKING on REDIRECT 100", "-ERR The client ID you want redirect to does not exist\r\n", ""},
		{"CLIENT TRACKING off REDIRECT 100", "-ERR The client ID you want redirect to does not exist\r\n",
			""},
		{"CLIENT TRACKING on REDIRECT 9 REDIRECT 9",
			"-ERR A client can only redirect to a single other client\r\n", ""},
		{"CLIENT TRACKING on PREFIX a", "-ERR PREFIX option requires BCAST mode to be enabled\r\n", ""},
		{"CLIENT TRACKING on BCAST OPTIN", "-ERR OPTIN and OPTOUT are not compatible with BCAST\r\n", ""},
		{"CLIENT TRACKING on OPTIN OPTOUT", "-ERR You can't specify both OPTIN mode and OPTOUT mode\r\n", ""},
		{"CLIENT TRACKING on BCAST PREFIX foobar PREFIX foo",
			"-ERR Prefix 'foobar' overlaps with another provided prefix 'foo'. Prefixes for a single " +
				"client must not overlap.\r\n", ""},
		{"CLIENT TRACKING off", "+OK\r\n", ""},
		{"CLIENT TRACKING on REDIRECT 9 optin noloop", "+OK\r\n",
			"0: CLIENT TRACKING ON OPTIN NOLOOP REDIRECT 42"},
		{"CLIENT GETREDIR", ":9\r\n", ""},
		{"CLIENT TRACKING on BCAST",
			"-ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then " +
				"re-enabling it with a different mode.\r\n", ""},
		{"CLIENT TRACKING on OPTOUT",
			"-ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then " +
				"re-enabling it with a different mode.\r\n", ""},
		{"CLIENT CACHING NO", "-ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT " +
			"mode.\r\n", ""},
		{"CLIENT CACHING x", "-ERR syntax error\r\n", ""},
		{"CLIENT CACHING yes", "+OK\r\n", ""},
		{"CLIENT TRACKINGINFO", "*6\r\n$5\r\nflags\r\n*4\r\n$2\r\non\r\n$5\r\noptin\r\n$11\r\n" +
			"caching-yes\r\n$6\r\nnoloop\r\n$8\r\nredirect\r\n:9\r\n$8\r\nprefixes\r\n*0\r\n", ""},
		{"CLIENT TRACKING on", "+OK\r\n", "0: CLIENT TRACKING ON"},
		{"CLIENT CACHING YES", "-ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN " +
			"mode.\r\n", ""},
		{"CLIENT GETREDIR", ":0\r\n", ""},
		{"CLIENT TRACKING off", "+OK\r\n", ""},
		{"CLIENT TRACKING on PREFIX foo BCAST PREFIX bar", "+OK\r\n",
			"0: CLIENT TRACKING ON BCAST PREFIX foo PREFIX bar"},
		{"CLIENT TRACKING on BCAST PREFIX fo",
			"-ERR Prefix 'fo' overlaps with an existing prefix 'foo'. Prefixes for a single client must " +
				"not overlap.\r\n", ""},
		{"CLIENT TRACKING on BCAST PREFIX barb",
			"-ERR Prefix 'barb' overlaps with an existing prefix 'bar'. Prefixes for a single client must " +
				"not overlap.\r\n", ""},
		{"CLIENT TRACKING on BCAST PREFIX c", "+OK\r\n", "0: CLIENT TRACKING ON BCAST PREFIX c"},
		{"CLIENT TRACKING on BCAST NOLOOP", "+OK\r\n", "0: CLIENT TRACKING ON BCAST NOLOOP"},
		{"CLIENT TRACKING on BCAST", "+OK\r\n", "0: CLIENT TRACKING ON BCAST"},
		{"CLIENT TRACKINGINFO", "*6\r\n$5\r\nflags\r\n*2\r\n$2\r\non\r\n$5\r\nbcast\r\n$8\r\nredirect\r\n" +
			":0\r\n$8\r\nprefixes\r\n*4\r\n$0\r\n\r\n$3\r\nbar\r\n$1\r\nc\r\n$3\r\nfoo\r\n", ""},
	} {
		if got := f.Do(tt.line); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.line, got, tt.want)
		}
		if sent := strings.Join(f.Sent, ", "); sent != tt.sent {
			t.Errorf("%s: sent %s, want %s", tt.line, sent, tt.sent)
		}
	}
	// A new connection is put into the same state at once.
	now := &f.User.Tracking
	var got []string
	for _, req := range now.Requests(now.Prefixes, 0) {
		f.Sent = nil
		f.Request(0, req)
		got = append(got, f.Sent...)
	}
	want := "0: CLIENT TRACKING ON BCAST PREFIX bar PREFIX c PREFIX foo, 0: CLIENT TRACKING ON BCAST"
	if strings.Join(got, ", ") != want {
		t.Errorf("a new connection is sent %q", got)
	}
	f.User.Proto = 3
	f.Do("CLIENT TRACKING on BCAST REDIRECT 9")
	f.User.Tracking.Broken = true
	if got := f.Do("CLIENT TRACKINGINFO"); !strings.HasPrefix(got,
		"%3\r\n$5\r\nflags\r\n~3\r\n$2\r\non\r\n$5\r\nbcast\r\n$15\r\nbroken_redirect\r\n") {
		t.Errorf("in RESP3: %q", got)
	}
	if redir := now.Redir(); redir != 9 {
		t.Errorf("redir %d", redir)
	}
}
