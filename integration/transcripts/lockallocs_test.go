package transcripts

import (
	"fmt"
	"testing"

	"lockproxy/integration/rig"
)

// A LOCK that is granted at once and its UNLOCK cost the whole proxy few objects on the heap: what a program
// allocates it has to collect, which is CPU that clients do not have.
func TestLocksAllocateLittle(t *testing.T) {
	t.Parallel()
	const (
		pairs, pipeline = 20_480, 256 // long ones, for a busy machine takes turns between them
		most            = 3.5         // a pair, and what else goes on: reading the metrics, timers
	)
	p := rig.StartBinary(t, rig.LeanBinary(t), "--upstream", rig.StartRedis(t).Addr)
	c := rig.Connect(t, p.Addr)
	run := func(n int) {
		for range n / pipeline {
			for i := range pipeline {
				name := fmt.Sprint("allocs:", i)
				c.Send("LOCK", name, "TOKEN", "token-of-a-client", "PX", "60000")
				c.Send("UNLOCK", name, "TOKEN", "token-of-a-client")
			}
			for range 2 * pipeline {
				if v, err := c.Receive(rig.Patience); err != nil || v.Kind == '-' {
					t.Fatal(v, err)
				}
			}
		}
	}
	run(pairs / 10)
	before := p.Metric(t, "go_memstats_mallocs_total")
	run(pairs)
	if n := (p.Metric(t, "go_memstats_mallocs_total") - before) / pairs; n > most {
		t.Errorf("%.2f allocations a pair, want at most %.1f", n, most)
	} else {
		t.Logf("%.2f allocations a pair", n)
	}
}
