package compare

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// bytesTarget is a proxy and what its replies are compared with.
type bytesTarget struct {
	name          string
	bare, through func(l rig.Life) (addr string)
}

// A cluster of several is compared with one Redis, which is what it looks like; that
// of one node with its like.
var bytesTargets = []bytesTarget{
	{"single",
		func(l rig.Life) string { return rig.StartRedis(l, quietRedis...).Addr },
		func(l rig.Life) string {
			return rig.StartProxy(l, "--upstream", rig.StartRedis(l, quietRedis...).Addr).Addr
		}},
	{"onenode",
		func(l rig.Life) string { return quietCluster(l, 1) },
		func(l rig.Life) string {
			return rig.StartProxy(l, "--upstream", quietCluster(l, 1), "--cluster-mode", "yes").Addr
		}},
	{"cluster",
		func(l rig.Life) string { return rig.StartRedis(l, quietRedis...).Addr },
		func(l rig.Life) string { return rig.StartProxy(l, "--upstream", quietCluster(l, 3)).Addr }},
}

// quietRedis notes no command as slow, however slow the machine is.
var quietRedis = []string{"--slowlog-log-slower-than", "-1"}

// quietCluster starts a cluster of such servers that take every command.
func quietCluster(l rig.Life, masters int) string {
	return rig.StartCluster(l, masters, 0, slices.Concat(quietRedis, rig.OpenRedis)...).Addrs()
}

// TestBytes compares what a bare Redis says with what it says through the proxy, in both
// protocols: each conversation of testdata/bytes, one command after the other and all in
// one pipeline, and every command with a wrong number of arguments. What differs stands
// in testdata/bytes-differ.txt with the reason. R7
func TestBytes(t *testing.T) {
	talks, differs := readTalks(t), readDifferences(t)
	t.Run("on", func(t *testing.T) {
		for _, target := range bytesTargets {
			t.Run(target.name, func(t *testing.T) {
				t.Parallel()
				compareBytes(t, target, talks, differs)
			})
		}
	})
	for _, wrong := range differs.stale(talks) {
		t.Error(wrong)
	}
}

func compareBytes(t *testing.T, target bytesTarget, talks []talk, differs *differences) {
	bare, through := target.bare(t), target.through(t)
	table := everyArity(rig.Connect(t, bare).Must(t, "COMMAND").Elems)
	talks = append(slices.Clone(talks), wrongArity(t, target.name, table, differs))
	covers(t, bare, table, talks)
	j := &judge{differs: differs, target: target.name}
	for _, proto := range []string{"2", "3"} {
		for _, talk := range talks {
			talk = differs.leave(target.name, talk)
			t.Run(talk.name+" RESP"+proto, func(t *testing.T) {
				wrong := j.compare(talk, talk.play(t, bare, proto), talk.play(t, through, proto))
				if talk.alone() {
					wrong = append(wrong, j.compare(talk, talk.pipeline(t, bare, proto),
						talk.pipeline(t, through, proto))...)
				}
				for _, w := range wrong {
					t.Error(w)
				}
			})
		}
	}
	for _, args := range differs.unsent(target.name) {
		if v := rig.Connect(t, through).Call(t, args...); !refusedByName(v) {
			t.Errorf("%q is no longer refused: %.200s", args, v)
		}
	}
}

// refusedByName says whether the proxy refuses the command, with the reason.
func refusedByName(v rig.Reply) bool {
	return v.IsError("ERR") && (strings.Contains(v.Text, " is not available through lockproxy") ||
		strings.HasSuffix(v.Text, "cluster support disabled"))
}

// talk is a conversation of a few connections with a server.
type talk struct {
	name  string
	lines []talkLine
}

// talkLine is a line of testdata/bytes/*.txt: `b> 2: SUBSCRIBE x y`. Connection b sends a
// command that two replies answer. Without the letter it is connection a, without the
// number one reply; without a command only replies are awaited.
type talkLine struct {
	conn    string
	replies int
	args    []string
	text    string // the command as it stands there
}

// readTalks reads all conversations. A line --- ends one and begins the next, with fresh
// connections and an empty server.
func readTalks(t *testing.T) (talks []talk) {
	t.Helper()
	files, err := filepath.Glob("testdata/bytes/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		for i, part := range strings.Split(string(text), "\n---\n") {
			talks = append(talks, readTalk(t, fmt.Sprintf("%s %d", name, i+1), part))
		}
	}
	return talks
}

func readTalk(t *testing.T, name, text string) talk {
	t.Helper()
	all := talk{name: name}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		l := talkLine{conn: "a", replies: 1, text: line}
		if m := talkStart.FindStringSubmatch(line); m != nil {
			if m[1] != "" {
				l.conn = m[1]
			}
			if m[2] != "" {
				fmt.Sscan(m[2], &l.replies)
			}
			l.text = m[3]
		}
		var err error
		if l.args, err = rig.SplitArgs(l.text); err != nil {
			t.Fatalf("%s: %s: %v", name, line, err)
		}
		all.lines = append(all.lines, l)
	}
	return all
}

// alone says whether one connection holds the whole conversation.
func (k talk) alone() bool {
	return !slices.ContainsFunc(k.lines, func(l talkLine) bool { return l.conn != "a" })
}

// play holds the conversation with an emptied server. It returns the replies to each line.
func (k talk) play(t *testing.T, addr, proto string) [][]rig.Reply {
	t.Helper()
	conns := map[string]*rig.Conn{"a": speak(t, addr, proto)}
	var replies [][]rig.Reply
	for _, l := range k.lines {
		c := conns[l.conn]
		if c == nil {
			c = rig.Connect(t, addr)
			c.Must(t, "HELLO", proto)
			conns[l.conn] = c
		}
		if len(l.args) > 0 {
			if err := c.Send(l.args...); err != nil {
				t.Fatalf("%q: %v", l.text, err)
			}
		}
		replies = append(replies, l.receive(t, c))
	}
	for _, c := range conns {
		c.Close()
	}
	return replies
}

// pipeline holds the conversation without waiting for any reply.
func (k talk) pipeline(t *testing.T, addr, proto string) [][]rig.Reply {
	t.Helper()
	c := speak(t, addr, proto)
	defer c.Close()
	go func() {
		for _, l := range k.lines {
			if len(l.args) > 0 && c.Send(l.args...) != nil {
				return
			}
		}
	}()
	var replies [][]rig.Reply
	for _, l := range k.lines {
		replies = append(replies, l.receive(t, c))
	}
	return replies
}

func (l talkLine) receive(t *testing.T, c *rig.Conn) (replies []rig.Reply) {
	t.Helper()
	for range l.replies {
		v, err := c.Receive(rig.Patience)
		if err != nil {
			t.Fatalf("%q: %v", l.text, err)
		}
		replies = append(replies, v)
	}
	return replies
}

// speak connects, empties the server and says HELLO.
func speak(t *testing.T, addr, proto string) *rig.Conn {
	t.Helper()
	c := rig.Connect(t, addr)
	c.Must(t, "FLUSHALL")
	c.Must(t, "SCRIPT", "FLUSH")
	c.Must(t, "FUNCTION", "FLUSH")
	c.Must(t, "HELLO", proto)
	return c
}
