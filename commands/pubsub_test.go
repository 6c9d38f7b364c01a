package commands_test

import (
	"testing"

	"lockproxy/cluster/pubsub"
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// Which names go to the session, and what does not get that far.
func TestSubscribeCommands(t *testing.T) {
	f := newSession(t)
	for line, want := range map[string]string{
		"SUBSCRIBE a b":      "+subscribe 0 [a b]\r\n",
		"PSUBSCRIBE a*":      "+subscribe 1 [a*]\r\n",
		"SSUBSCRIBE a b":     "+subscribe 2 [a b]\r\n",
		"UNSUBSCRIBE":        "+unsubscribe 0 []\r\n",
		"unsubscribe a":      "+unsubscribe 0 [a]\r\n",
		"PUNSUBSCRIBE a* b*": "+unsubscribe 1 [a* b*]\r\n",
		"SUNSUBSCRIBE a b":   "+unsubscribe 2 [a b]\r\n",
		"SUBSCRIBE":          "-ERR wrong number of arguments for 'subscribe' command\r\n",
		"SSUBSCRIBE":         "-ERR wrong number of arguments for 'ssubscribe' command\r\n",
		"PUBLISH a":          "-ERR wrong number of arguments for 'publish' command\r\n",
		"RESET":              "+RESET\r\n",
	} {
		if got := f.Do(line); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	f.Server.InCluster = true
	for line, want := range map[string]string{
		"SSUBSCRIBE {x}a {x}b": "+subscribe 2 [{x}a {x}b]\r\n",
		"SSUBSCRIBE a b":       "-CROSSSLOT Keys in request don't hash to the same slot\r\n",
		"SUNSUBSCRIBE {x}a b":  "-CROSSSLOT Keys in request don't hash to the same slot\r\n",
		"SUNSUBSCRIBE":         "+unsubscribe 2 []\r\n",
		"SUBSCRIBE a b":        "+subscribe 0 [a b]\r\n",
	} {
		if got := f.Do(line); got != want {
			t.Errorf("cluster: %s: %q, want %q", line, got, want)
		}
	}
	f.Server.Version = "6.2.0"
	for _, line := range []string{"SSUBSCRIBE a b", "SUNSUBSCRIBE a b"} {
		if got, want := f.Do(line), "-ERR unknown command '"+line[:len(line)-4]+"', with args beginning "+
			"with: 'a' 'b' \r\n"; got != want {
			t.Errorf("Redis 6: %q, want %q", got, want)
		}
	}
}

// What a subscriber of RESP2 may send.
func TestBarredToSubscribers(t *testing.T) {
	table := redis7(t,
		&commands.Command{Row: commands.Row{Name: "lock", Arity: -2, Flags: commands.LockVerb,
			Route: commands.Local}})
	for line, want := range map[string]bool{
		"PING": false, "ping x": false, "SUBSCRIBE a": false, "PSUBSCRIBE a": false, "SSUBSCRIBE a": false,
		"UNSUBSCRIBE":  false,
		"PUNSUBSCRIBE": false, "SUNSUBSCRIBE": false, "QUIT": false, "RESET": false, "NOSUCH x": false,
		"GET k": true, "GET": false, "GET a b": false, "SET k v EX 5": true, "HELLO 3": true, "AUTH x": true,
		"PUBLISH a b":     true,
		"PUBSUB CHANNELS": true, "CLIENT ID": true, "LOCK job": true, "INFO": true, "MULTI": true,
	} {
		args := wordsOf(line)
		cmd, _ := table.Resolve(args)
		if got := cmd.Barred(len(args)) != nil; got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
	cmd, _ := table.Resolve(wordsOf("CLIENT ID"))
	if got := string(cmd.Barred(2)); got != "-ERR Can't execute 'client|id': only (P|S)SUBSCRIBE / "+
		"(P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\r\n" {
		t.Error(got)
	}
}

func TestPingOfSubscribers(t *testing.T) {
	f := newSession(t)
	f.User.Topics[pubsub.Pattern] = 1
	for line, want := range map[string]string{
		"PING":     "*2\r\n$4\r\npong\r\n$0\r\n\r\n",
		"PING hi":  "*2\r\n$4\r\npong\r\n$2\r\nhi\r\n",
		"PING a b": "-ERR wrong number of arguments for 'ping' command\r\n",
	} {
		for _, f.busy = range []bool{false, true} { // with a script, too
			if got := f.Do(line); got != want {
				t.Errorf("%s: %q", line, got)
			}
		}
	}
	f.busy, f.User.Proto = false, 3
	if got := f.Do("PING"); got != "+PONG\r\n" {
		t.Errorf("RESP3: %q", got)
	}
}

// The nodes count the proxy as one subscriber, PUBSUB counts its clients instead.
func TestPubSubMerges(t *testing.T) {
	// ours is of two clients, lock of the proxy itself, lost is being subscribed again.
	answers := func(channels, numsub, numpat string) func([]string) string {
		return func(args []string) string {
			switch args[1] {
			case "CHANNELS", "SHARDCHANNELS":
				return channels
			case "NUMSUB", "SHARDNUMSUB":
				return numsub
			}
			return numpat
		}
	}
	f := newSession(t,
		answers("*3\r\n$4\r\nours\r\n$4\r\nlock\r\n$1\r\na\r\n",
			"*4\r\n$4\r\nours\r\n:3\r\n$4\r\nlock\r\n:1\r\n", ":4\r\n"),
		answers("*2\r\n$1\r\na\r\n$1\r\nb\r\n", "*4\r\n$4\r\nours\r\n:1\r\n$4\r\nlock\r\n:0\r\n", ":2\r\n"))
	f.SubscriberCounts = subscriberCounts{
		Heads: map[string]int{"ours": 2, "lost": 1, "lock": 0},
		Owned: map[string]string{"ours": "0", "lock": "0"},
	}
	for line, want := range map[string]string{
		"PUBSUB CHANNELS":      "*4\r\n$4\r\nours\r\n$1\r\na\r\n$1\r\nb\r\n$4\r\nlost\r\n",
		"PUBSUB SHARDCHANNELS": "*4\r\n$4\r\nours\r\n$1\r\na\r\n$1\r\nb\r\n$4\r\nlost\r\n",
		// the nodes choose from theirs
		"PUBSUB CHANNELS o*":           "*3\r\n$4\r\nours\r\n$1\r\na\r\n$1\r\nb\r\n",
		"PUBSUB NUMSUB ours lock":      "*4\r\n$4\r\nours\r\n:5\r\n$4\r\nlock\r\n:0\r\n",
		"PUBSUB SHARDNUMSUB ours lock": "*4\r\n$4\r\nours\r\n:5\r\n$4\r\nlock\r\n:0\r\n",
		"PUBSUB NUMPAT":                ":6\r\n", // 4 - 2 of ours, 2, and 2 that clients have
	} {
		if got := f.Do(line); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	f = newSession(t, saying("-ERR no\r\n"), saying("*0\r\n"))
	for _, line := range []string{"PUBSUB CHANNELS", "PUBSUB NUMSUB", "PUBSUB NUMPAT"} {
		if got := f.Do(line); got != "-ERR no\r\n" {
			t.Errorf("%s: %q", line, got)
		}
	}
	f = newSession(t, saying("*1\r\n:1\r\n"), saying("+OK\r\n"))
	for _, line := range []string{"PUBSUB CHANNELS", "PUBSUB NUMSUB x", "PUBSUB NUMPAT"} {
		if got := f.Do(line); got != string(resp.ErrUnexpected) {
			t.Errorf("%s: %q", line, got)
		}
	}
}
