package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"lockproxy/integration/rig"
)

// The nodes of a cluster call each other what leads nowhere from here. With upstream-map they are used all
// the same, and with a file of it as soon as that says where they are. Without, lockproxy check says what is
// missing.
func TestNodesThatAreReachedElsewhere(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 0, "--cluster-announce-hostname", "redis.invalid",
		"--cluster-preferred-endpoint-type", "hostname")
	addr := c.Nodes[0].Addr
	check(t, 1, upstream(addr),
		`fail node        redis\.invalid:\d+ cannot be used: .* Remedy: .*upstream-map `)
	check(t, 0, upstream(addr, "--upstream-map", "redis.invalid=127.0.0.1"),
		`ok   node        redis\.invalid:\d+ answers`)
	check(t, 64, upstream(addr, "--upstream-map", "redis.invalid"), `fail settings    .*is not like`)
	file := filepath.Join(t.TempDir(), "map")
	say := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	say("# nothing yet\n")
	p := &rig.Proxy{Process: rig.StartProcess(t, rig.Binary(t), "--upstream", addr,
		"--upstream-map-file", file, "--listen", "127.0.0.1:0", "--admin", "off")}
	a := rig.Connect(t, p.Logged(t, `msg="clients are told to wait for the upstream" addr=(\S+)`))
	if v := a.Call(t, "SET", "k", "v"); !v.IsError() {
		t.Errorf("no node can be reached, and SET says %s", v)
	}
	say("redis.invalid=127.0.0.1 # by a tunnel\n")
	for i := range 30 { // of all nodes
		rig.Eventually(t, rig.Patience, "it is served", func() bool {
			return !a.Call(t, "SET", fmt.Sprint("k", i), "v").IsError()
		})
	}
	a.Must(t, "LOCK", "job", "TOKEN", "t")
	a.Want(t, "(integer) 1", "UNLOCK", "job", "t")
}
