package tool

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"lockproxy/integration/rig"
)

// benched is the JSON of lockproxy bench.
type benched struct {
	Interrupted bool
	Measured    []struct {
		Name  string
		Count int64
		Rate  float64 `json:"per_second"`
		P50   int64   `json:"p50_us"`
		P99   int64   `json:"p99_us"`
		Max   int64   `json:"max_us"`
	}
}

func readBench(t *testing.T, text string) (b benched) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		t.Errorf("%v: %s", err, text)
	}
	return b
}

// nothingLeft waits until no lock of a bench is held, and sees that there is no key of one.
func nothingLeft(t *testing.T, p *rig.Proxy) {
	t.Helper()
	for _, question := range [][]string{
		{"KEYS", "lockproxy-bench:*"}, {"KEYS", "lock:lockproxy-bench:*"},
		{"LOCKCTL", "LIST", "MATCH", "lockproxy-bench:*", "SCAN"},
	} {
		if v := ask(t, p, question...); len(v.Elems) > 0 {
			t.Errorf("%v: %s", question, v.Raw)
		}
	}
}

func TestBench(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]*rig.Proxy{
		"dev": rig.StartProxy(t, "--dev"), "cluster": rig.StartProxy(t, "--upstream",
			rig.SharedCluster().Addrs()),
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, "bench", "--proxy", p.Addr, "--time", "400ms", "--clients", "6", "--locks", "60",
				"--json")
			b := readBench(t, r.stdout)
			if r.code != 0 || b.Interrupted || len(b.Measured) != 6 {
				t.Fatalf("exit code %d: %s%s", r.code, r.stdout, r.stderr)
			}
			for _, m := range b.Measured {
				if m.Name == "hand-over" && m.Count == 0 {
					continue // on a machine so busy that no two of them have met
				}
				if m.Count == 0 || m.Rate <= 0 || m.P50 <= 0 || m.P50 > m.P99 || m.P99 > m.Max*102/100 {
					t.Errorf("%+v", m)
				}
			}
			nothingLeft(t, p)
			if n := len(ask(t, p, "KEYS", "lock:fence:*").Elems); name == "dev" && n > 48 {
				t.Errorf("%d fences stay behind", n)
			}
		})
	}
}

// Whoever ends a bench leaves nothing behind, whatever it was about to do.
func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--dev")
	for phase, only := range map[string][]string{"lock: ": nil, "contend: ": {"--only", "contend"},
		"set: ": {"--only", "set"}} {
		b := start(t, p.Addr, append([]string{"bench", "--time", "1h", "--clients", "6"}, only...)...)
		says(t, b, phase)
		b.Signal(syscall.SIGINT)
		if code := b.Wait(rig.Patience); code != 130 || !strings.Contains(b.Log.String(), "interrupted: "+
			"the last phase") {
			t.Errorf("%s exit code %d\n%s", phase, code, b.Log)
		}
		nothingLeft(t, p)
	}
}

func TestBenchWithoutAProxy(t *testing.T) {
	t.Parallel()
	if r := run(t, "bench", "--proxy", rig.SharedRedis().Addr, "--time", "1s"); r.code != 76 {
		t.Errorf("a Redis is no lockproxy: %+v", r)
	}
	p := rig.StartProxy(t, "--dev")
	b := start(t, p.Addr, "bench", "--time", "1h", "--clients", "3")
	says(t, b, "lock: ")
	p.Kill()
	if code := b.Wait(rig.Patience); code != 69 || !strings.Contains(b.Log.String(), p.Addr) {
		t.Errorf("exit code %d\n%s", code, b.Log)
	}
	if r := run(t, "bench", "--proxy", p.Addr, "--time", "1s"); r.code != 69 {
		t.Errorf("%+v", r)
	}
}
