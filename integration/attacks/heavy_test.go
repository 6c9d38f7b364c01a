package attacks

import (
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// Nothing that one client sends ends the proxy or leaves another client of the same loop without
// an answer: commands of many arguments, of many bytes, and with much longer answers.
func TestHeavyCommands(t *testing.T) {
	cluster := rig.StartCluster(t, 3, 0, "--enable-debug-command", "yes")
	proxy := rig.StartProxy(t, "--upstream", cluster.Addrs(), "--loops", "1")
	other := rig.Watch(t, proxy, "")
	for _, c := range heavyCommands {
		c.send(t, proxy.Addr, 10_000)
	}
	other()
}

// Patterns of thousands of stars, or of as many letters behind one, meet channels that are as long, either
// way round. Longer ones are refused, inside MULTI and GUARD, too.
func TestHeavyPatterns(t *testing.T) {
	proxy := rig.StartProxy(t, "--upstream", rig.StartRedis(t).Addr, "--loops", "1")
	channel := strings.Repeat("a", 64<<10)
	pattern, literal := strings.Repeat("*a", len(channel)/2-1)+"b", "*"+channel[2:]+"b"
	other := rig.Watch(t, proxy, "")
	listener := rig.Connect(t, proxy.Addr)
	for _, words := range [][]string{{"SUBSCRIBE", channel}, {"PSUBSCRIBE", pattern}} {
		listener.Must(t, words...)
	}
	for _, words := range [][]string{{"PUBSUB", "CHANNELS", pattern}, {"PUBSUB", "CHANNELS", literal},
		{"PUBLISH", channel, "x"}} {
		if v := rig.Connect(t, proxy.Addr).Call(t, words...); v.IsError() {
			t.Fatalf("%s: %s", words[0], v)
		}
	}
	other()
	c := rig.Connect(t, proxy.Addr)
	long := strings.Repeat("x", 1_040_000)
	c.Must(t, "LOCK", "job", "TOKEN", "t")
	c.Must(t, "MULTI")
	for _, words := range [][]string{{"SUBSCRIBE", long}, {"PSUBSCRIBE", long}, {"PSUBSCRIBE", literal},
		{"SSUBSCRIBE", long}, {"PUBSUB", "CHANNELS", "*" + long[:520_000]}, {"PUBLISH", long, "x"},
		{"SPUBLISH", long, "x"}, {"GUARD", "job", "t", "PUBLISH", long, "x"}, {"KEYS", literal},
		{"SCAN", "0", "MATCH", literal}, {"HSCAN", "h", "0", "MATCH", literal},
		{"GUARD", "job", "t", "SSCAN", "s", "0", "MATCH", literal}, {"LOCKCTL", "LIST", "MATCH", literal},
		{"FUNCTION", "LIST", "LIBRARYNAME", literal}} {
		inside := c.Call(t, words...)
		outside := rig.Connect(t, proxy.Addr).Call(t, words...)
		if !inside.IsError("ERR") || !outside.IsError("ERR") || !strings.Contains(outside.Text, "at most") {
			t.Errorf("%.40q: %.200s, inside MULTI %.200s", words, outside, inside)
		}
	}
}
