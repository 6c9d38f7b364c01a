package transcripts

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// startReplica starts a replica of a server that is in sync.
func startReplica(l rig.Life, master *rig.Server, args ...string) *rig.Server {
	l.Helper()
	r := rig.StartRedis(l, args...)
	r.Do(l, "REPLICAOF", "127.0.0.1", strconv.Itoa(master.Port))
	rig.Eventually(l, rig.Patience, "replica in sync",
		func() bool { return r.Info(l, "replication", "master_link_status") == "up" })
	return r
}

// gets is how many GETs a server has run.
func gets(l rig.Life, s *rig.Server) int {
	l.Helper()
	_, calls, _ := strings.Cut(s.Info(l, "commandstats", "cmdstat_get"), "calls=")
	n, _ := strconv.Atoi(strings.Split(calls, ",")[0])
	return n
}

// steadyReads reads keys that were written before, over and over until stop is called, which waits until
// there were a hundred reads. A reply that is wrong, an error, or one that took long fails the test.
func steadyReads(t *testing.T, addr string, longest time.Duration, setup ...string) (stop func()) {
	t.Helper()
	const keys = 50
	var reads atomic.Int64
	end := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		c := rig.Connect(t, addr)
		if len(setup) > 0 {
			c.Must(t, setup...)
		}
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-end:
					return
				default:
				}
				began := time.Now()
				c.Send("GET", fmt.Sprint("steady:", i%keys))
				v, err := c.Receive(longest)
				if want := strconv.Quote(fmt.Sprint(i % keys)); err != nil || v.String() != want {
					t.Errorf("after %v: GET %d: %s, %v", time.Since(began), i%keys, v, err)
					return
				}
				reads.Add(1)
				time.Sleep(time.Millisecond)
			}
		})
	}
	return func() {
		t.Helper()
		rig.Eventually(t, longest+rig.Patience, "a hundred reads", func() bool {
			return reads.Load() >= 100 || t.Failed()
		})
		close(end)
		wg.Wait()
	}
}

// fill writes the keys of steadyReads and waits until the replicas have them.
func fill(t *testing.T, p *rig.Proxy, replicas ...*rig.Server) {
	t.Helper()
	c := rig.Connect(t, p.Addr)
	for i := range 50 {
		c.Must(t, "SET", fmt.Sprint("steady:", i), strconv.Itoa(i))
	}
	for _, r := range replicas {
		rig.Eventually(t, rig.Patience, "replica has the writes", func() bool {
			master, err := rig.Ask("127.0.0.1:"+r.Info(t, "replication", "master_port"),
				"INFO", "replication")
			return err == nil && rig.InfoField(master.Text, "master_repl_offset") == r.Info(t, "replication",
				"slave_repl_offset")
		})
	}
}

// growing waits until a server runs GETs, or with false runs none for a while.
func growing(t *testing.T, s *rig.Server, want bool) {
	t.Helper()
	rig.Eventually(t, rig.Patience, fmt.Sprintf("reads at %s: %v", s.Addr, want), func() bool {
		before := gets(t, s)
		time.Sleep(300 * time.Millisecond)
		return gets(t, s) > before == want
	})
}

// TestReplicaReadsOfOneRedis proves that reads go to the replica while it is in sync, to the master when it
// is not, that nobody notices when it is lost, and that writes, scripts that may write and locks stay at the
// master.
func TestReplicaReadsOfOneRedis(t *testing.T) {
	t.Parallel()
	master := rig.StartRedis(t)
	replica := startReplica(t, master)
	p := rig.StartProxy(t, "--upstream", master.Addr, "--replica-reads", "replica-preferred")
	fill(t, p, replica)
	stop := steadyReads(t, p.Addr, rig.Patience)
	growing(t, replica, true)
	growing(t, master, false)

	c := rig.Connect(t, p.Addr)
	c.Want(t, "OK", "READWRITE")
	for i := range 20 {
		c.Want(t, "OK", "SET", "own", strconv.Itoa(i))
		c.Want(t, strconv.Quote(strconv.Itoa(i)), "GET", "own")
	}
	c.Want(t, "OK", "READONLY")
	c.Must(t, "LOCK", "job", "TOKEN", "t")
	c.Want(t, "(integer) 1", "UNLOCK", "job", "t")
	c.Want(t, "OK", "SELECT", "3")
	c.Want(t, "(integer) 1", "EVAL", "return redis.call('INCR', KEYS[1])", "1", "n")
	rig.Eventually(t, rig.Patience, "EVAL_RO finds it at the replica", func() bool {
		v := c.Call(t, "EVAL_RO", "return redis.call('GET', KEYS[1])", "1", "n")
		return v.Text == "1"
	})
	if strings.Contains(replica.Do(t, "INFO", "commandstats").Text, "cmdstat_eval:") {
		t.Error("EVAL was run at the replica")
	}

	replica.Do(t, "REPLICAOF", "127.0.0.1", "1") // its link is down
	growing(t, replica, false)
	growing(t, master, true)
	replica.Do(t, "REPLICAOF", "127.0.0.1", strconv.Itoa(master.Port))
	growing(t, replica, true)
	replica.Kill()
	growing(t, master, true)
	stop()
}

// TestReplicaReadsOfAZone proves that the nodes of the proxy's own availability zone serve its reads: a
// replica, or the master if it is there, or if no replica is.
func TestReplicaReadsOfAZone(t *testing.T) {
	t.Parallel()
	l := rig.On(t, "valkey9")
	master := rig.StartRedis(l, "--availability-zone", "east")
	west := startReplica(l, master, "--availability-zone", "west")
	north := startReplica(l, master, "--availability-zone", "north")
	master.Do(t, "SET", "k", "v")
	all := map[string]*rig.Server{"east": master, "west": west, "north": north}
	for zone, serves := range map[string]string{"east": "east", "west": "west", "south": "east"} {
		p := rig.StartProxy(t, "--upstream", master.Addr, "--replica-reads", "same-zone",
			"--availability-zone", zone)
		c := rig.Connect(t, p.Addr)
		if serves != "east" {
			rig.Eventually(t, rig.Patience, "a read at the replica in "+serves, func() bool {
				c.Want(t, `"v"`, "GET", "k")
				return gets(t, all[serves]) > 0
			})
		}
		before := map[string]int{}
		for name, s := range all {
			before[name] = gets(t, s)
		}
		const reads = 100
		for range reads {
			c.Want(t, `"v"`, "GET", "k")
		}
		for name, s := range all {
			want := 0
			if name == serves {
				want = reads
			}
			if got := gets(t, s) - before[name]; got != want {
				t.Errorf("a proxy in %s: the node in %s served %d reads, want %d", zone, name, got, want)
			}
		}
	}
}

// TestReplicaReadsOfACluster proves the same of a cluster: its replicas serve those who said READONLY,
// whatever happens to replicas and masters.
func TestReplicaReadsOfACluster(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 1)
	// A busy machine takes its time to promote a replica: no read ends with an error meanwhile.
	p := rig.StartProxy(t, "--upstream", c.Addrs(), "--cluster-mode", "--retry-budget", "60s")
	masters, replicas := c.Nodes[:3], c.Nodes[3:]
	fill(t, p, replicas...)
	atMasters := steadyReads(t, p.Addr, rig.Patience)
	growing(t, masters[0], true)
	growing(t, replicas[0], false)
	atMasters()
	// While a master is lost its replica is read from; a read waits until a silent one is noticed.
	stop := steadyReads(t, p.Addr, time.Minute+rig.Patience, "READONLY")
	for _, r := range replicas {
		growing(t, r, true)
	}
	growing(t, masters[0], false)

	replicas[0].Kill()
	growing(t, masters[0], true)
	growing(t, replicas[1], true)
	masters[1].Kill()
	c.DeadAfter("2000")
	w := rig.Connect(t, p.Addr)
	rig.Eventually(t, 3*rig.Patience, "fail-over",
		func() bool { return replicas[1].Info(t, "replication", "role") == "master" })
	for i := range 50 {
		v, err := rig.Ask(p.Addr, "SET", fmt.Sprint("steady:", i), strconv.Itoa(i))
		if err != nil {
			t.Errorf("a write after the fail-over: %s, %v", v, err)
		}
	}
	w.Must(t, "READONLY")
	growing(t, replicas[1], true) // as the master of its slots
	growing(t, replicas[2], true)
	stop()
}

// TestReplicaReadsOfSentinels proves that reads follow a fail-over of a Sentinel group.
func TestReplicaReadsOfSentinels(t *testing.T) {
	t.Parallel()
	g := rig.StartSentinels(t)
	// Sentinel takes its time to promote a replica on a busy machine: no read ends with an error meanwhile.
	p := rig.StartProxy(t, "--upstream", g.Addrs(), "--replica-reads", "replica-preferred", "--retry-budget",
		"60s")
	fill(t, p, g.Replica)
	stop := steadyReads(t, p.Addr, time.Minute+rig.Patience)
	growing(t, g.Replica, true)
	growing(t, g.Master, false)
	g.Master.Kill()
	g.Promoted(t)
	growing(t, g.Replica, true)
	if _, err := rig.Ask(p.Addr, "SET", "after", "1"); err != nil {
		t.Error(err)
	}
	stop()
}
