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

// targets start what transcripts are played against. The proxies have the race detector: nothing else has so
// much of the program meet.
var targets = map[string]func(rig.Life) string{
	"redis":  func(l rig.Life) string { return rig.StartRedis(l).Addr },
	"dev":    func(l rig.Life) string { return rig.StartRaced(l, "--dev").Addr },
	"single": func(l rig.Life) string { return rig.StartRaced(l, "--upstream", rig.StartRedis(l).Addr).Addr },
	"cluster": func(l rig.Life) string {
		return rig.StartRaced(l, "--upstream", rig.StartCluster(l, 3, 0).Addrs()).Addr
	},
}

// TestTranscripts plays each file of testdata against a proxy over a cluster, and over the Redis of --dev,
// which is another implementation; those of plain commands also against a bare Redis, to show that what they
// expect is what Redis says. Over one Redis it plays what is for no cluster, and with -long all of it: make
// matrix does so with each server.
func TestTranscripts(t *testing.T) {
	for target, start := range targets {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			var files []string
			for _, file := range transcripts(t) {
				plays := read(t, file).targets
				if slices.Contains(plays, target) &&
					(target != "single" || *rig.Long || !slices.Contains(plays, "cluster")) {
					files = append(files, file)
				}
			}
			// Those with locks come last: what a proxy notes in Redis of locks that a transcript has left
			// held would be keys too many for one that counts them.
			slices.SortStableFunc(files, func(a, b string) int { return locks(t, a) - locks(t, b) })
			servers := (len(files) + filesEach - 1) / filesEach
			for i := range servers {
				t.Run(fmt.Sprint(i), func(t *testing.T) {
					t.Parallel()
					addr := start(t)
					for n := i; n < len(files); n += servers {
						playFile(t, files[n], target, addr)
					}
				})
			}
		})
	}
}

// filesEach is about how many transcripts a server plays, most of which wait most of the time.
const filesEach = 17

// A cluster of Valkey 9 may have several databases, and SELECT works there as in front of one server. What is
// new with Valkey 9 works, too.
func TestDatabasesOfACluster(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(rig.On(t, "valkey9"), 3, 0, "--cluster-databases", "10")
	for _, mode := range []string{"no", "yes"} {
		p := rig.StartProxy(t, "--upstream", c.Addrs(), "--cluster-mode", mode)
		playFile(t, "testdata/databases.txt", "single", p.Addr)
		playFile(t, "testdata/valkey9.txt", "cluster", p.Addr)
	}
}

// transcripts are the files of all of them.
func transcripts(t *testing.T) []string {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	return files
}

// locks is 1 if a file has commands of locks, otherwise 0.
func locks(t *testing.T, file string) int {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return min(strings.Count(string(text), "LOCK"), 1)
}

func read(t *testing.T, file string) *transcript {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := parse(string(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return tr
}

func playFile(t *testing.T, file, target, addr string) {
	tr := read(t, file)
	if !slices.Contains(tr.targets, target) {
		return
	}
	if needs, err := tr.misses(addr); err != nil {
		t.Fatal(err)
	} else if needs != "" { // the file is for other servers, as other files are for other targets
		return
	}
	t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { play(t, tr, addr) })
}

// play plays a transcript from the beginning, where there are no keys.
func play(t *testing.T, tr *transcript, addr string) {
	if _, err := rig.Ask(addr, "FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	if err := tr.play(newPlayer(addr)); err != nil {
		t.Error(err)
	}
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
		tr, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		p := newPlayer(addr)
		p.blocks, p.ends = rig.Patience, rig.Patience // what is not expected comes, however late
		if err := tr.play(p); err == nil {
			t.Errorf("passed:\n%s", text)
		}
	}
}
