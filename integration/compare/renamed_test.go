package compare

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"lockproxy/integration/rig"
)

// A server whose dangerous commands have other names does not tell them. Who knows these names gets no
// further with them than with any other name that means nothing, and nobody else notices.
func TestRenamedCommands(t *testing.T) {
	t.Parallel()
	var args []string
	for _, name := range []string{"CLIENT", "MULTI", "MONITOR", "CONFIG", "SUBSCRIBE", "RESET"} {
		args = append(args, "--rename-command", name, "x"+strings.ToLower(name))
	}
	s := rig.StartRedis(t, args...)
	p := rig.StartProxy(t, "--upstream", s.Addr, "--loops", "1")
	others := []func(){rig.Watch(t, p, ""), rig.Watch(t, p, ""), rig.Watch(t, p, "")}
	c, bare := rig.Connect(t, p.Addr), rig.Connect(t, rig.StartRedis(t).Addr)
	for i := range 200 {
		for _, line := range []string{
			"xclient REPLY SKIP", "XCLIENT REPLY OFF", "XMULTI", "xmonitor", "XCONFIG GET dir",
			"xsubscribe c", "XRESET", "xclient TRACKING ON BCAST",
		} {
			words := strings.Fields(line)
			want := bare.Call(t, words...)
			if got := c.Call(t, words...); !got.IsError() || got.Text != want.Text {
				t.Fatalf("%s: got %s, want %s", line, got, want)
			}
		}
		key := fmt.Sprint("own:", i)
		c.Want(t, "OK", "SET", key, fmt.Sprint(i))
		c.Want(t, fmt.Sprintf("%q", fmt.Sprint(i)), "GET", key)
	}
	for _, done := range others {
		done()
	}
}

// The proxy says of what is unknown what Redis says, byte for byte.
func TestUnknownInTheWordsOfRedis(t *testing.T) {
	t.Parallel()
	s := rig.StartRedis(t)
	p := rig.StartProxy(t, "--upstream", s.Addr)
	long := strings.Repeat("l", 300)
	var all sync.WaitGroup
	for _, args := range [][]string{
		{"NOSUCH"}, {"nosuch", "a", "b"}, {"", "x"}, {"a\r\nb", "c\nd\r"},
		{"a\x00b", "c\x00d", "e"}, {"é\xff\xfe",
			"ü\xff"}, {long, long, long},
		{"n", strings.Repeat("a", 100), strings.Repeat("b", 30), "c"},
		{"n", strings.Repeat("é", 100)}, {"n", "",
			"", "'"},
		{"OBJECT", "NOSUCH", "k"}, {"object", "a\r\nb"}, {"Xinfo", long}, {"SCRIPT", "NOSUCH"}, {"MEMORY",
			"no\x00such"}, {"ACL", ""}, {"MODULE", "x", "y"},
		{"SLOWLOG", "x"}, {"LATENCY", "x"}, {"FUNCTION", "x"}, {"PUBSUB", "x"}, {"XGROUP", "x"}, {"COMMAND",
			"é"}, {"OBJECT"},
	} {
		all.Go(func() {
			want, _ := rig.Ask(s.Addr, args...)
			got, err := rig.Ask(p.Addr, args...)
			if string(got.Raw) != string(want.Raw) || len(want.Raw) == 0 {
				t.Errorf("%q\n got %q (%v)\nwant %q", args, got.Raw, err, want.Raw)
			}
		})
	}
	all.Wait()
}
