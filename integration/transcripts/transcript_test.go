package transcripts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// targets start what transcripts are played against.
var targets = map[string]func(rig.Life) string{
	"redis":  func(l rig.Life) string { return rig.StartRedis(l).Addr },
	"dev":    func(l rig.Life) string { return rig.StartProxy(l, "--dev").Addr },
	"single": func(l rig.Life) string { return rig.StartProxy(l, "--upstream", rig.StartRedis(l).Addr).Addr },
	"cluster": func(l rig.Life) string {
		return rig.StartProxy(l, "--upstream", rig.StartCluster(l, 3, 0).Nodes[0].Addr).Addr
	},
}

// TestTranscripts plays each file of testdata/transcripts against a proxy over
// each kind of upstream; those of plain commands also against a bare Redis, to
// show that what they expect is what Redis says.
func TestTranscripts(t *testing.T) {
	for target, start := range targets {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			playAll(t, target, start(t))
		})
	}
}

// TestServers plays them in front of other servers, a part of what make matrix does.
func TestServers(t *testing.T) {
	for _, on := range [][2]string{{"valkey9", "redis"}, {"valkey9", "cluster"}, {"redis8", "single"},
		{"redis6", "single"}} {
		t.Run(on[0]+" "+on[1], func(t *testing.T) {
			t.Parallel()
			playAll(t, on[1], targets[on[1]](rig.On(t, on[0])))
		})
	}
}

// A cluster of Valkey 9 may have several databases, and SELECT works there as in front of one server.
func TestDatabasesOfACluster(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(rig.On(t, "valkey9"), 3, 0, "--cluster-databases", "10")
	for _, mode := range []string{"no", "yes"} {
		playFile(t, "testdata/databases.txt", "single",
			rig.StartProxy(t, "--upstream", c.Addrs(), "--cluster-mode", mode).Addr)
	}
}

func playAll(t *testing.T, target, addr string) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		playFile(t, file, target, addr)
	}
}

func playFile(t *testing.T, file, target, addr string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := rig.ParseTranscript(string(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if !slices.Contains(tr.Targets, target) {
		return
	}
	if needs, err := tr.Misses(addr); err != nil {
		t.Fatal(err)
	} else if needs != "" { // the file is for other servers, as other files are for other targets
		return
	}
	t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { play(t, tr, addr) })
}

// play plays a transcript from the beginning, where there are no keys.
func play(t *testing.T, tr *rig.Transcript, addr string) {
	rig.Steady(t, func() error {
		if _, err := rig.Ask(addr, "FLUSHALL"); err != nil {
			return err
		}
		return tr.Play(addr)
	})
}

// A runner that accepts everything would prove nothing.
func TestTranscriptRunnerFails(t *testing.T) {
	addr := rig.StartRedis(t).Addr
	for _, text := range []string{
		"a> SET k v\na< \"OK\"",
		"a> PING\na< (blocks)",
		"a> PING",
		"a> INCR n\na< (integer) <n>\na> INCR n\na< (integer) <n>",
		"a> SET n 5\na< OK\na> INCR n\na< (integer) <7..9>",
		"a> SET x 5\na< OK\na> INCR x\na< (integer) <f1>\na> DECR x\na< (integer) <f2 > f1>",
		"a> NOSUCH\na< (error) ERR",
	} {
		tr, err := rig.ParseTranscript(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.Play(addr); err == nil {
			t.Errorf("passed:\n%s", text)
		}
	}
}
