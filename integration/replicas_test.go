package integration

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// startReplica starts a replica of a server that is in sync.
func startReplica(l life, master *server) *server {
	l.Helper()
	r := startRedis(l)
	r.do(l, "REPLICAOF", "127.0.0.1", strconv.Itoa(master.port))
	eventually(l, patience, "replica in sync", func() bool { return r.info(l, "replication", "master_link_status") == "up" })
	return r
}

// gets is how many GETs a server has run.
func (s *server) gets(l life) int {
	l.Helper()
	_, calls, _ := strings.Cut(s.info(l, "commandstats", "cmdstat_get"), "calls=")
	n, _ := strconv.Atoi(strings.Split(calls, ",")[0])
	return n
}

// steadyReads reads keys that were written before, over and over until stop is called, which returns how many
// reads there were. A reply that is wrong, an error, or one that took long fails the test.
func steadyReads(t *testing.T, addr string, longest time.Duration, setup ...string) (stop func() int) {
	t.Helper()
	const keys = 50
	var reads atomic.Int64
	end := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		c := connect(t, addr)
		if len(setup) > 0 {
			c.must(t, setup...)
		}
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-end:
					return
				default:
				}
				began := time.Now()
				c.send("GET", fmt.Sprint("steady:", i%keys))
				v, err := c.receive(longest)
				if want := strconv.Quote(fmt.Sprint(i % keys)); err != nil || v.String() != want {
					t.Errorf("after %v: GET %d: %s, %v", time.Since(began), i%keys, v, err)
					return
				}
				reads.Add(1)
				time.Sleep(time.Millisecond)
			}
		})
	}
	return func() int {
		close(end)
		wg.Wait()
		return int(reads.Load())
	}
}

// fill writes the keys of steadyReads and waits until the replicas have them.
func fill(t *testing.T, p *lockproxy, replicas ...*server) {
	t.Helper()
	c := connect(t, p.addr)
	for i := range 50 {
		c.must(t, "SET", fmt.Sprint("steady:", i), strconv.Itoa(i))
	}
	for _, r := range replicas {
		eventually(t, patience, "replica has the writes", func() bool {
			master, err := ask("127.0.0.1:"+r.info(t, "replication", "master_port"), "INFO", "replication")
			return err == nil && infoField(master.text, "master_repl_offset") == r.info(t, "replication", "slave_repl_offset")
		})
	}
}

// growing waits until a server runs GETs, or with false runs none for a while.
func growing(t *testing.T, s *server, want bool) {
	t.Helper()
	eventually(t, patience, fmt.Sprintf("reads at %s: %v", s.addr, want), func() bool {
		before := s.gets(t)
		time.Sleep(300 * time.Millisecond)
		return s.gets(t) > before == want
	})
}

// TestReplicaReadsOfOneRedis proves that reads go to the replica while it is in sync, to the master when it
// is not, that nobody notices when it is lost, and that writes, scripts that may write and locks stay at the
// master.
func TestReplicaReadsOfOneRedis(t *testing.T) {
	t.Parallel()
	master := startRedis(t)
	replica := startReplica(t, master)
	p := startProxy(t, "--upstream", master.addr, "--replica-reads", "replica-preferred")
	fill(t, p, replica)
	stop := steadyReads(t, p.addr, patience)
	growing(t, replica, true)
	growing(t, master, false)

	c := connect(t, p.addr)
	c.want(t, "OK", "READWRITE")
	for i := range 20 {
		c.want(t, "OK", "SET", "own", strconv.Itoa(i))
		c.want(t, strconv.Quote(strconv.Itoa(i)), "GET", "own")
	}
	c.want(t, "OK", "READONLY")
	c.must(t, "LOCK", "job", "TOKEN", "t")
	c.want(t, "(integer) 1", "UNLOCK", "job", "t")
	c.want(t, "OK", "SELECT", "3")
	c.want(t, "(integer) 1", "EVAL", "return redis.call('INCR', KEYS[1])", "1", "n")
	eventually(t, patience, "EVAL_RO finds it at the replica", func() bool {
		v := c.call(t, "EVAL_RO", "return redis.call('GET', KEYS[1])", "1", "n")
		return v.text == "1"
	})
	if strings.Contains(replica.do(t, "INFO", "commandstats").text, "cmdstat_eval:") {
		t.Error("EVAL was run at the replica")
	}

	replica.do(t, "REPLICAOF", "127.0.0.1", "1") // its link is down
	growing(t, replica, false)
	growing(t, master, true)
	replica.do(t, "REPLICAOF", "127.0.0.1", strconv.Itoa(master.port))
	growing(t, replica, true)
	replica.kill()
	time.Sleep(time.Second)
	if n := stop(); n < 100 {
		t.Errorf("%d reads", n)
	}
}

// TestReplicaReadsOfACluster proves the same of a cluster: its replicas serve those who said READONLY,
// whatever happens to replicas and masters.
func TestReplicaReadsOfACluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, 1)
	p := startProxy(t, "--upstream", c.addrs(), "--cluster-mode")
	masters, replicas := c.nodes[:3], c.nodes[3:]
	fill(t, p, replicas...)
	atMasters := steadyReads(t, p.addr, patience)
	growing(t, masters[0], true)
	growing(t, replicas[0], false)
	atMasters()
	// While a master is lost its replica is read from; a read waits until a silent one is noticed.
	stop := steadyReads(t, p.addr, 2*patience, "READONLY")
	for _, r := range replicas {
		growing(t, r, true)
	}
	growing(t, masters[0], false)

	replicas[0].kill()
	growing(t, masters[0], true)
	growing(t, replicas[1], true)
	masters[1].kill()
	w := connect(t, p.addr)
	eventually(t, 3*patience, "fail-over", func() bool { return replicas[1].info(t, "replication", "role") == "master" })
	for i := range 50 {
		v, err := ask(p.addr, "SET", fmt.Sprint("steady:", i), strconv.Itoa(i))
		if err != nil {
			t.Errorf("a write after the fail-over: %s, %v", v, err)
		}
	}
	w.must(t, "READONLY")
	growing(t, replicas[1], true) // as the master of its slots
	growing(t, replicas[2], true)
	if n := stop(); n < 100 {
		t.Errorf("%d reads", n)
	}
}

// TestReplicaReadsOfSentinels proves that reads follow a fail-over of a Sentinel group.
func TestReplicaReadsOfSentinels(t *testing.T) {
	t.Parallel()
	g := startSentinels(t)
	// Sentinel takes its time to promote a replica on a busy machine: no read ends with an error meanwhile.
	p := startProxy(t, "--upstream", g.addrs(), "--replica-reads", "replica-preferred", "--retry-budget", "60s")
	fill(t, p, g.replica)
	stop := steadyReads(t, p.addr, time.Minute+patience)
	growing(t, g.replica, true)
	growing(t, g.master, false)
	g.master.kill()
	g.promoted(t)
	growing(t, g.replica, true)
	if _, err := ask(p.addr, "SET", "after", "1"); err != nil {
		t.Error(err)
	}
	if n := stop(); n < 100 {
		t.Errorf("%d reads", n)
	}
}
