package faults

import (
	"fmt"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// keysOfNodes is a key at each master.
func keysOfNodes(t *testing.T, c *rig.Cluster) []string {
	keys := make([]string, 3)
	for i := range keys {
		for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "k"} {
			if c.MasterOf(t, key) == c.Nodes[i] {
				keys[i] = key
			}
		}
	}
	return keys
}

// A command whose parts go to several masters, of which one is down, does not say that it was not run; and if
// it writes it does not begin with a word by which clients send it again.
func TestSplitWritesTellThatPartsHaveRun(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	p := rig.StartProxy(t, "--upstream", c.Addrs(), "--retry-budget", "1s")
	client := rig.Connect(t, p.Addr)
	keys := keysOfNodes(t, c)
	client.Want(t, "OK", "MSET", keys[0], "1", keys[1], "1", keys[2], "1")
	c.Nodes[1].Kill()

	const part = "no node took a part of the command in time, and its other parts may have run: "
	all := func(name, value string) (words []string) {
		words = []string{name}
		for _, key := range keys {
			if words = append(words, key); value != "" {
				words = append(words, value)
			}
		}
		return words
	}
	for _, step := range []struct {
		words []string
		error string
		left  string // at the masters that are up
	}{
		{all("MSET", "2"), "ERR " + part, "2"},
		{all("MGET", ""), "CLUSTERDOWN " + part, "2"},
		{all("EXISTS", ""), "CLUSTERDOWN " + part, "2"},
		{all("DEL", ""), "ERR " + part, ""},
		{all("MSET", "3"), "ERR " + part, "3"},
		{all("UNLINK", ""), "ERR " + part, ""},
		{all("MSET", "4"), "ERR " + part, "4"},
		{[]string{"FLUSHALL"}, "ERR " + part, ""},
		{[]string{"SET", keys[1], "5"}, "CLUSTERDOWN no node took it in time: the command was not run: ", ""},
		{[]string{"MSET", keys[1], "5", "{" + keys[1] + "}x", "5"},
			"CLUSTERDOWN no node took it in time: the command was not run: ", ""},
	} {
		if v := client.Call(t, step.words...); !v.IsError() || !strings.HasPrefix(v.Text, step.error) {
			t.Errorf("%v: %s, want %s...", step.words, v, step.error)
		}
		for _, key := range []string{keys[0], keys[2]} {
			if v := client.Call(t, "GET", key); v.Text != step.left {
				t.Errorf("behind %v: %s is %s, want %q", step.words, key, v, step.left)
			}
		}
	}
	readyz(t, p, 503, c.Nodes[1].Addr)
}

// If the node of one part refuses it, the answer is its error, and says that other parts may have run; if all
// refuse it, it is as Redis says it. It does not begin with a word by which clients send the command again.
func TestSplitWritesTellWhatANodeRefuses(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 0, "--enable-debug-command", "yes", "--cluster-require-full-coverage", "no")
	p := rig.StartProxy(t, "--upstream", c.Addrs(), "--retry-budget", "1s")
	client := rig.Connect(t, p.Addr)
	keys := keysOfNodes(t, c)
	const oom = "OOM command not allowed when used memory > 'maxmemory'."
	const part = " (this is the answer to a part of the command: its other parts may have run)"
	want := func(want, left string, words ...string) {
		t.Helper()
		if v := client.Call(t, words...); v.Text != want {
			t.Errorf("%s: %s, want %s", words[0], v, want)
		}
		if v := client.Call(t, "GET", keys[0]); v.Text != left {
			t.Errorf("behind %s: %s is %s, want %q", words[0], keys[0], v, left)
		}
	}
	mset := func(value string) []string {
		return []string{"MSET", keys[0], value, keys[1], value, keys[2], value}
	}
	c.Nodes[1].Do(t, "CONFIG", "SET", "maxmemory", "1")
	want(oom+part, "1", mset("1")...)
	want(oom, "1", "MSET", keys[1], "2", "{"+keys[1]+"}x", "2")
	for _, n := range c.Nodes {
		n.Do(t, "CONFIG", "SET", "maxmemory", "1")
	}
	want(oom, "1", mset("3")...)
	for _, n := range c.Nodes {
		n.Do(t, "CONFIG", "SET", "maxmemory", "0")
	}
	want("OK", "4", mset("4")...)

	for i := range 1000 { // which takes longer to load than the command may take
		c.Nodes[1].Do(t, "SET", fmt.Sprintf("{%s}%d", keys[1], i), strings.Repeat("x", 3000))
	}
	for _, setting := range []string{"key-load-delay 40000", "loading-process-events-interval-bytes 1024"} {
		c.Nodes[1].Do(t, append([]string{"CONFIG", "SET"}, strings.Fields(setting)...)...)
	}
	loads := rig.Connect(t, c.Nodes[1].Addr)
	if err := loads.Send("DEBUG", "RELOAD"); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, rig.Patience, "the node loads its keys", func() bool {
		return rig.Connect(t, c.Nodes[1].Addr).Call(t, "GET", keys[1]).IsError("LOADING")
	})
	v := client.Call(t, mset("5")...)
	// behind it: LOADING, or, on a busy machine, that the node does not answer
	if !strings.HasPrefix(v.Text, "ERR no node took a part of the command in time, and its other parts may "+
		"have run: ") {
		t.Errorf("while a node loads its keys: %s", v)
	}
	client.Want(t, `"5"`, "GET", keys[0])
}
