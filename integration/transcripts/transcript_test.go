package transcripts

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// TestTranscripts plays each file of testdata/transcripts against a proxy over
// each kind of upstream; those of plain commands also against a bare Redis, to
// show that what they expect is what Redis says.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	targets := map[string]func(*testing.T) string{
		"redis":  func(t *testing.T) string { return rig.StartRedis(t).Addr },
		"dev":    func(t *testing.T) string { return rig.StartProxy(t, "--dev").Addr },
		"single": func(t *testing.T) string { return rig.StartProxy(t, "--upstream", rig.StartRedis(t).Addr).Addr },
		"cluster": func(t *testing.T) string {
			return rig.StartProxy(t, "--upstream", rig.StartCluster(t, 3, 0).Nodes[0].Addr).Addr
		},
	}
	for target, start := range targets {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			addr := start(t)
			for _, file := range files {
				playFile(t, file, target, addr)
			}
		})
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
	t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
		rig.Steady(t, func() error {
			if _, err := rig.Ask(addr, "FLUSHALL"); err != nil {
				return err
			}
			if err := tr.Play(addr); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			return nil
		})
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
