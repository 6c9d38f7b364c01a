package transcripts

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// unfit are the transcripts of locks that say what RedLock does not, and why.
var unfit = map[string]string{
	"lock-fcfs": "between modes nobody queues: whoever asks first when a majority is free has it",
	"lock-keys": "the keys are on other servers than those of the proxy's upstream, " +
		"and a lease of 80 ms is too short",
	"lock-keepalive":       "a lease of 400 ms is too short",
	"lock-read":            "a lease of 50 ms is too short",
	"lock-renew":           "a lease of 50 ms is too short",
	"lock-same-token":      "a lease of 100 ms is too short",
	"lock-reentrant":       "a lease of 10 ms is too short",
	"lock-unlock":          "a lease of 60 ms is too short",
	"lock-wait":            "a lease of 300 ms is too short",
	"lock-tokenless":       "a lease of 50 ms is too short",
	"lock-mlock-keys":      "the keys are on other servers than those of the proxy's upstream",
	"lock-mlock-keepalive": "a lease of 1 s is too short",
	"lock-vanished":        "the keys are on other servers than those of the proxy's upstream",
	"lockctl-break":        "the keys are on other servers than those of the proxy's upstream",
	"lock-updown":          "an upgrade that waits does not stand before others",
	"lockctl":              "nobody queues in Redis, so nobody can count who waits",

	"lockctl-watch": "the proxy has no lock-events",

	"lock-guard":          noGuard,
	"lock-guard-cluster":  noGuard,
	"lock-guard-database": noGuard,
	"lock-guard-multi":    noGuard,
	"lock-guard-resp3":    noGuard,

	"lock-semaphore":         noSemaphore,
	"lock-semaphore-atleast": noSemaphore,
}

const (
	noGuard     = "no single Redis knows who holds such a lock, so GUARD is refused"
	noSemaphore = "the masters do not agree on who of many holds a permit, so SEMLOCK is refused"
)

// The verbs mean over five masters what they mean over one: the same transcripts. R27
func TestRedlockTranscripts(t *testing.T) {
	t.Parallel()
	five := rig.StartMasters(t, 5)
	p := five.StartRedlock(t, 5*time.Second, "--upstream", rig.StartRedis(t).Addr)
	files, err := filepath.Glob("testdata/lock*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	own, err := filepath.Glob("testdata/redlock/*.txt")
	if err != nil || len(own) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	left := len(unfit)
	for _, file := range slices.Concat(files, own) {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		if unfit[name] != "" {
			left--
			continue
		}
		t.Run(name, func(t *testing.T) {
			for _, s := range five {
				s.Do(t, "FLUSHALL")
			}
			if err := read(t, file).play(newPlayer(p.Addr)); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		})
	}
	if left != 0 {
		t.Errorf("%d transcripts are left out that do not exist", left)
	}
}
