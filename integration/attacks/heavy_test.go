package attacks

import (
	"strings"
	"testing"
	"time"

	"lockproxy/integration/heavy"
	"lockproxy/integration/rig"
	"lockproxy/internal/resp"
)

// Nothing that one client sends ends the proxy or leaves another client of the same loop without
// an answer: commands of many arguments, of many bytes, and with much longer answers.
func TestHeavyCommands(t *testing.T) {
	cluster := rig.StartCluster(t, 3, 0, "--enable-debug-command", "yes")
	proxy := rig.StartProxy(t, "--upstream", cluster.Addrs(), "--loops", "1")
	for _, c := range heavy.Commands {
		const n = 10_000
		r, err := heavy.Run(proxy.Addr, c, n, 5*time.Minute)
		if err != nil {
			t.Fatalf("%s, %d bytes: %v", c.Name, r.Sent, err)
		}
		t.Logf("%s: %d bytes, %d came back in %v, PING took %v at most", c.Name, r.Sent, r.Got,
			r.Took, r.Waited)
	}
}

// Patterns of half a million stars meet channels that are as long, either way round.
func TestHeavyPatterns(t *testing.T) {
	proxy := rig.StartProxy(t, "--upstream", rig.StartRedis(t).Addr, "--loops", "1")
	const n = 500_000 // names may not be much longer
	pattern, channel := strings.Repeat("*a", n)+"b", strings.Repeat("a", n)
	listener := rig.Connect(t, proxy.Addr)
	for _, words := range [][]string{{"SUBSCRIBE", channel}, {"PSUBSCRIBE", pattern}} {
		listener.Must(t, words...)
	}
	for _, words := range [][]string{{"PUBSUB", "CHANNELS", pattern}, {"PUBLISH", channel, "x"}} {
		request := func(int) []byte { return resp.AppendCommandStrings(nil, words...) }
		r, err := heavy.Run(proxy.Addr, heavy.Command{Name: words[0], Request: request}, 1, 5*time.Minute)
		if err != nil || strings.HasPrefix(r.First, "-") {
			t.Fatalf("%s: %v, %q", words[0], err, r.First)
		}
	}
}
