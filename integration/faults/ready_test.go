package faults

import (
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// readyz waits until /readyz?strict has that status and says all of words, and lockproxy_ready agrees.
func readyz(t *testing.T, p *rig.Proxy, status int, words ...string) {
	t.Helper()
	got, body := 0, ""
	defer func() { t.Logf("/readyz?strict: %d %s", got, strings.TrimSpace(body)) }()
	ready := map[bool]float64{true: 1}[status == 200]
	rig.Eventually(t, rig.Patience, "/readyz tells the truth", func() bool {
		got, body, _ = p.Get("/readyz?strict")
		for _, word := range words {
			if !strings.Contains(body, word) {
				return false
			}
		}
		return got == status && p.Metric(t, "lockproxy_ready") == ready
	})
}

// balanced waits until /readyz, which balancers ask, has that status, and says word.
func balanced(t *testing.T, p *rig.Proxy, status int, word string) {
	t.Helper()
	rig.Eventually(t, rig.Patience, "/readyz has its status", func() bool {
		got, body, _ := p.Get("/readyz")
		return got == status && strings.Contains(body, word)
	})
}

// All is served while each slot has a master that answers, whatever the other nodes say; else the proxy tells
// which slots have none, and why. Clients may be sent to it as long as it serves any.
func TestReadyOnlyIfAllSlotsAreServed(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	p := rig.StartProxy(t, "--upstream", c.Addrs(), "--retry-budget", "1s")
	readyz(t, p, 200, "ready")

	// The others go on, and list it: it has no replica.
	c.Nodes[2].Stop(t)
	readyz(t, p, 503, "node "+c.Nodes[2].Addr+": ", "no answer", "slots 10922-16383 ")
	balanced(t, p, 200, "slots 10922-16383 ")
	c.Nodes[2].Signal(syscall.SIGCONT)
	readyz(t, p, 200, "ready")

	// Two answer, and do not serve: the cluster wants all of its slots.
	c.Each(t, "CONFIG", "SET", "cluster-require-full-coverage", "yes", "cluster-node-timeout", "2000")
	c.Nodes[0].Kill()
	readyz(t, p, 503, "node "+c.Nodes[0].Addr+": ", "slots 0-5460 cannot be served", "connection refused",
		"is Redis running there", "node "+c.Nodes[1].Addr+": its cluster_state is fail",
		"slots 5461-10921 cannot be served")
	balanced(t, p, 503, "slots 5461-10921 cannot be served")
	c.Nodes[0].Restart(t)
	readyz(t, p, 200, "ready")

	// What their master has said of them before may come to another node behind its DELSLOTS.
	rig.Eventually(t, rig.Patience, "no node knows a master of four slots", func() bool {
		left := 0
		for _, n := range c.Nodes {
			if !strings.Contains(n.Do(t, "CLUSTER", "INFO").Text, "cluster_slots_assigned:16380") {
				for _, slot := range []string{"0", "1", "2", "5"} {
					rig.Ask(n.Addr, "CLUSTER", "DELSLOTS", slot)
				}
				left++
			}
		}
		return left == 0
	})
	readyz(t, p, 503, "slots 0-2,5 have no master")
	balanced(t, p, 200, "slots 0-2,5 have no master")
}

// While a master is away commands end in an error that says so, and the first that can be served is.
func TestKnownOutage(t *testing.T) {
	t.Parallel()
	s := rig.StartRedis(t)
	p := rig.StartProxy(t, "--upstream", s.Addr, "--retry-budget", "100ms", "--max-wait", "1s")
	c := rig.Connect(t, p.Addr)
	c.Want(t, "OK", "SET", "k", "v")
	s.Kill()
	readyz(t, p, 503, s.Addr)
	for _, words := range outageCommands {
		if v := c.Call(t, words...); !v.IsError("CLUSTERDOWN") {
			t.Errorf("%v: %s", words, v)
		}
	}
	s.Restart(t)
	c.Want(t, "OK", "SET", "k", "v")
}

var outageCommands = [][]string{{"GET", "k"}, {"SET", "k", "w"}, {"LOCK", "l"}, {"BLPOP", "q", "0"},
	{"WATCH", "k"}}

// A fail-over is a line when the master is lost and one when its slots have a new one, which says what
// commands felt of it; more only if the cluster was down as a whole.
func TestFailoverIsToldOnce(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 1)
	p := rig.StartProxy(t, "--upstream", c.Addrs(), "--loops", "2")
	dying := c.MasterOf(t, "k")
	var served atomic.Int64
	for range 4 {
		client := rig.Connect(t, p.Addr)
		go func() { // ends with the proxy
			for {
				v, err := client.Do("SET", "k", "v")
				if err != nil {
					return
				}
				if !v.IsError() {
					served.Add(1)
				}
				time.Sleep(time.Millisecond)
			}
		}()
	}
	dying.Kill()
	c.DeadAfter("2000")
	p.Logged(t,
		`level=WARN msg="node lost" node=(`+dying.Addr+`) for=.* slots=[0-9-]+ err=.*connection refused`)
	p.Logged(t, `level=INFO msg="slots have a new master" node=(\S+) after=\S+ delayed=[1-9]\d* failed=\d+ `+
		`replaces=`+dying.Addr+` slots=[0-9-]+\n`)
	warnings := 0
	for line := range strings.Lines(p.Log.String()) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "new master") {
			t.Log(strings.TrimSpace(line))
			warnings++
		}
	}
	if warnings > 4 {
		t.Errorf("%d lines for one fail-over", warnings)
	}

	// One that is the only master of a slot is lost until it is back. What has waited since the fail-over was
	// counted with that.
	successor, before := c.MasterOf(t, "k"), served.Load()
	rig.Eventually(t, rig.Patience, "the commands are served again", func() bool {
		return served.Load() > before+4
	})
	successor.Kill()
	p.Logged(t, `level=WARN msg="node lost" node=(`+successor.Addr+`) `)
	successor.Restart(t)
	p.Logged(t, `level=INFO msg="node is back" node=(`+successor.Addr+`) after=\S+ delayed=[1-9]\d* `)
}
