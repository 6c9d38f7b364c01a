//go:build limits

package attacks

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// However clients try to take memory, the process stays near maxmemory-clients. With -long the doses are
// those of an attack in earnest.
func TestLimitMemory(t *testing.T) {
	const (
		budget = 64 << 20
		// what it may take up beside twice the budget, for garbage grows as large as what is in use: the
		// program and its tables, buffers of loops, what is read before somebody is closed, and up to two
		// replies more
		slack = 192 << 20
		each  = 16 << 10 // of a connection, for a moment before anything can be done about it
	)
	upstream := startBig(t, 8<<20)
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			clients, size := budget/(8<<20)*a.clients, a.size
			if *rig.Long {
				clients, size = a.long, a.longer
			}
			p, end := a.begin(t, upstream, budget, clients, size)
			defer end()
			most := 2*budget + slack + clients*each
			peak := settled(t, p, a.closes, most)
			t.Logf("%d clients: peak %d MB, %.0f clients closed", clients, peak>>20,
				p.Metric(t, "lockproxy_clients_evicted_total"))
			if peak > most {
				t.Errorf("%d MB of memory, more than %d MB", peak>>20, most>>20)
			}
			a.serves(t, p)
		})
	}
}

// settled is the peak once it has not grown by a megabyte for a while, and once a client was closed if one
// must be; or more than limit.
func settled(t *testing.T, p *rig.Proxy, closes bool, limit int) (most int) {
	t.Helper()
	for since := time.Now(); most <= limit; time.Sleep(50 * time.Millisecond) {
		if now := peak(t, p); now > most+1<<20 {
			most, since = now, time.Now()
		}
		silent := time.Since(since)
		if silent > 2*time.Second && (!closes || p.Metric(t, "lockproxy_clients_evicted_total") > 0) {
			break
		}
		if silent > 2*rig.Patience {
			t.Error("nobody was closed")
			break
		}
	}
	return max(most, peak(t, p))
}

// peak is the most memory that the process has had, in bytes.
func peak(t *testing.T, p *rig.Proxy) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("no VmHWM in %s", text)
	}
	n, _ := strconv.Atoi(string(found[1]))
	return n << 10
}

// Half commands of thousands of connections take little memory.
func TestLimitHalfOpenCommands(t *testing.T) {
	p := rig.StartProxy(t, "--upstream", rig.SharedRedis().Addr)
	before := p.RSS(t)
	conns := openHalves(t, p, rig.Dose(2000, 8000))
	if each := (p.RSS(t) - before) / int64(len(conns)); each > 80<<10 {
		t.Errorf("%d half-open commands: %d kB of memory each", len(conns), each>>10)
	}
}

// A byte that drips costs the proxy one read: less than the PING of a client that waits for its answer.
func TestLimitDrippedBytes(t *testing.T) {
	p := rig.StartProxy(t, "--upstream", rig.SharedRedis().Addr)
	drips := rig.Dose(100_000, 1_000_000)
	c := rig.Connect(t, p.Addr)
	cost := func(work func()) time.Duration {
		before := p.CPU(t)
		work()
		return p.CPU(t) - before
	}
	pings := cost(func() {
		for range drips {
			c.Must(t, "PING")
		}
	})
	dripped := cost(func() { drip(t, p, drips) })
	t.Logf("%d dripped bytes: %v of CPU, as many PINGs: %v", drips, dripped, pings)
	if dripped > 2*pings+time.Second { // ps counts whole seconds
		t.Errorf("%d dripped bytes: %v of CPU, as many PINGs: %v", drips, dripped, pings)
	}
}
