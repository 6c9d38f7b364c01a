package integration

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// masters are redis-servers that know nothing of each other.
type masters []*server

// startMasters starts n of them that may restart at any time, since they have everything on disk
// before they answer.
func startMasters(l life, n int) masters {
	l.Helper()
	var all masters
	for range n {
		s := newRedis(l, "--appendonly", "yes", "--appendfsync", "always")
		s.dir = quickDir(l)
		s.launch(l)
		all = append(all, s)
	}
	for _, s := range all {
		s.ready(l)
	}
	return all
}

// quickDir is a directory in memory, if the system has that: a busy disk takes longer for a write
// than a node timeout.
func quickDir(l life) string {
	l.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "lockproxy-test-")
	if err != nil {
		return l.TempDir()
	}
	l.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (m masters) addrs() string {
	var all []string
	for _, s := range m {
		all = append(all, s.addr)
	}
	return strings.Join(all, ",")
}

// redlock is a proxy whose locks these masters keep, with leases of least or more. So its node timeout is a
// twentieth of that, which is long enough for a slow machine. It returns when all masters are old enough to
// vote.
func (m masters) redlock(l life, least time.Duration, args ...string) *lockproxy {
	l.Helper()
	p := startProxy(l, append([]string{"--redlock", m.addrs(), "--redlock-node-timeout", (least / 20).String()}, args...)...)
	eventually(l, time.Minute+patience, "all masters vote", func() bool {
		return p.metric(l, "lockproxy_redlock_node_votes") == float64(len(m))
	})
	return p
}

// having is how many of them have the key.
func (m masters) having(l life, key string) (n int64) {
	l.Helper()
	for _, s := range m {
		n += s.do(l, "EXISTS", key).int()
	}
	return n
}

// unfit are the transcripts of locks that say what RedLock does not, and why.
var unfit = map[string]string{
	"lock-fcfs":       "between modes nobody queues: whoever asks first when a majority is free has it",
	"lock-keys":       "the keys are on other servers than those of the proxy's upstream, and a lease of 80 ms is too short",
	"lock-keepalive":  "a lease of 400 ms is too short",
	"lock-read":       "a lease of 50 ms is too short",
	"lock-renew":      "a lease of 50 ms is too short",
	"lock-same-token": "a lease of 100 ms is too short",
	"lock-reentrant":  "a lease of 10 ms is too short",
	"lock-unlock":     "a lease of 60 ms is too short",
	"lock-wait":       "a lease of 300 ms is too short",
	"lock-tokenless":  "a lease of 50 ms is too short",
	"lock-vanished":   "the keys are on other servers than those of the proxy's upstream",
	"lockctl-break":   "the keys are on other servers than those of the proxy's upstream",
	"lock-updown":     "an upgrade that waits does not stand before others",
	"lockctl":         "nobody queues in Redis, so nobody can count who waits",
}

// The verbs mean over five masters what they mean over one: the same transcripts. R27
func TestRedlockTranscripts(t *testing.T) {
	t.Parallel()
	five := startMasters(t, 5)
	p := five.redlock(t, 5*time.Second, "--upstream", startRedis(t).addr)
	files, err := filepath.Glob("testdata/transcripts/lock*.txt")
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
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tr, err := parseTranscript(string(text))
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			steady(t, func() error {
				for _, s := range five {
					s.do(t, "FLUSHALL")
				}
				if err := tr.play(p.addr); err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
				return nil
			})
		})
	}
	if left != 0 {
		t.Errorf("%d transcripts are left out that do not exist", left)
	}
}

// The name says where a lock is kept; everything else goes to the upstream. R27
func TestRedlockByPrefix(t *testing.T) {
	t.Parallel()
	five, upstream := startMasters(t, 5), startRedis(t)
	p := five.redlock(t, 20*time.Second, "--upstream", upstream.addr, "--redlock-prefix", "pay:")
	c := connect(t, p.addr)
	for _, name := range []string{"pay:1", "job"} {
		if v := c.must(t, "LOCK", name, "TOKEN", "t", "PX", "60000"); len(v.elems) != 4 || v.elems[0].text != "t" {
			t.Fatalf("LOCK %s: %s", name, v)
		}
	}
	c.want(t, "OK", "SET", "pay:1", "value")
	eventually(t, patience, "all five have the lock", func() bool { return five.having(t, "lock:{pay:1}") == 5 })
	if n := five.having(t, "lock:{job}") + five.having(t, "pay:1"); n != 0 {
		t.Errorf("%d keys of the upstream are on the masters", n)
	}
	for key, want := range map[string]string{"lock:{pay:1}": "(integer) 0", "lock:{job}": "(integer) 1", "pay:1": "(integer) 1"} {
		if got := upstream.do(t, "EXISTS", key).String(); got != want {
			t.Errorf("upstream: EXISTS %s: %s", key, got)
		}
	}
	if got := c.must(t, "LOCKCTL", "LIST").String(); !strings.HasPrefix(got, `[["name", "job", `) || !strings.Contains(got, `], ["name", "pay:1", `) {
		t.Errorf("LIST: %s", got)
	}
	c.want(t, "(integer) 1", "UNLOCK", "pay:1", "t")
	eventually(t, patience, "none has the lock", func() bool { return five.having(t, "lock:{pay:1}") == 0 })
}

// grant takes and frees a lock, and says how long the grant took.
func (c *conn) grant(l life, name, lease string) time.Duration {
	l.Helper()
	began := time.Now()
	v := c.must(l, "LOCK", name, "TOKEN", "t", "PX", lease)
	took := time.Since(began)
	if len(v.elems) != 4 {
		l.Fatalf("LOCK %s: %s", name, v)
	}
	if v := c.must(l, "UNLOCK", name, "t"); v.text != "1" {
		l.Fatalf("UNLOCK %s: %s", name, v)
	}
	return took
}

// Two dead masters of five cost one time-out, and then nothing. Without a third there is no
// grant, and no Null either; it comes back by itself. R27
func TestRedlockDeadMasters(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]struct{ kill, heal func(t *testing.T, s *server) }{
		"killed":  {func(_ *testing.T, s *server) { s.kill() }, func(t *testing.T, s *server) { s.restart(t) }},
		"stopped": {func(_ *testing.T, s *server) { s.signal(syscall.SIGSTOP) }, func(_ *testing.T, s *server) { s.signal(syscall.SIGCONT) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			five := startMasters(t, 5)
			p := five.redlock(t, 20*time.Second, "--upstream", sharedRedis().addr)
			c := connect(t, p.addr)
			c.grant(t, name, "20000")
			harm.kill(t, five[0])
			harm.kill(t, five[3])
			c.grant(t, name, "20000")
			var all []time.Duration
			for range 21 {
				all = append(all, c.grant(t, name, "20000"))
			}
			if slices.Sort(all); all[10] > 500*time.Millisecond {
				t.Errorf("half of the grants took over %v while two masters were known to be away", all[10])
			}
			eventually(t, patience, "the metrics say who is away", func() bool {
				return p.metric(t, "lockproxy_redlock_node_up") == 3 && p.metric(t, "lockproxy_redlock_node_votes") == 3 &&
					p.metric(t, "lockproxy_redlock_node_up", five[3].addr) == 0
			})
			if status, body, err := p.get("/readyz"); status != http.StatusOK {
				t.Errorf("/readyz: %d %s %v", status, body, err)
			}

			c.must(t, "LOCK", "held", "TOKEN", "t", "PX", "60000")
			harm.kill(t, five[4])
			want := "NOQUORUM " // of how many that were still to answer at first, nobody knows
			for _, lock := range []string{"held", "free"} {
				for range 3 {
					v, err := c.do("LOCK", lock, "TOKEN", "u", "PX", "20000")
					if err != nil || !strings.HasPrefix(v.text, want) || v.kind != '-' {
						t.Errorf("LOCK %s with two masters of five: %s %v", lock, v, err)
					}
					want = "NOQUORUM 2/3 "
				}
			}
			eventually(t, patience, "/readyz says why", func() bool {
				status, body, _ := p.get("/readyz")
				return status == http.StatusServiceUnavailable && strings.Contains(body, "2 of 5 masters vote, and 3 are needed") && strings.Contains(body, five[4].addr)
			})
			c.want(t, "PONG", "PING")

			for _, i := range []int{4, 0, 3} {
				harm.heal(t, five[i])
			}
			eventually(t, patience, "all masters vote", func() bool { return p.metric(t, "lockproxy_redlock_node_votes") == 5 })
			if v := c.must(t, "LOCK", "held", "TOKEN", "u"); !v.null {
				t.Errorf("what was held: %s", v)
			}
			c.want(t, "(integer) 1", "UNLOCK", "held", "t")
			c.grant(t, name, "20000")
			c.grant(t, "free", "20000")
		})
	}
}

// A master that restarted without its data has no vote until the longest lease is over, and
// says so. R27 R31
func TestRedlockRestartedMaster(t *testing.T) {
	t.Parallel()
	three := startMasters(t, 2)
	three = append(three, startRedis(t))
	forgetful := three[2]
	p := three.redlock(t, 5*time.Second, "--upstream", sharedRedis().addr, "--lock-lease", "5s", "--lock-max-lease", "5s")
	votes := func() float64 { return p.metric(t, "lockproxy_redlock_node_votes", forgetful.addr) }
	eventually(t, patience, "it is old enough to vote", func() bool { return votes() == 1 })
	c := connect(t, p.addr)
	v := c.must(t, "LOCK", "job", "TOKEN", "t", "PX", "5000")
	if len(v.elems) != 4 {
		t.Fatal(v)
	}
	forgetful.restart(t)
	three[0].kill()
	// Two answer, one of which has forgotten the holder.
	for began := time.Now(); time.Since(began) < time.Second; {
		v, err := c.do("LOCK", "job", "TOKEN", "u", "PX", "5000")
		if err != nil || len(v.elems) > 0 {
			t.Fatalf("LOCK of what is held: %s %v", v, err)
		}
	}
	p.logged(t, `msg="master does not vote" node=`+forgetful.addr+` err="it restarted`)
	stats := c.must(t, "LOCKCTL", "STATS").String()
	if want := fmt.Sprintf(`["addr", %q, "up", (integer) 1, "votes", (integer) 0, "why", "it restarted`, forgetful.addr); !strings.Contains(stats, want) {
		t.Errorf("STATS lacks %s: %s", want, stats)
	}
	eventually(t, patience, "it votes again", func() bool { return votes() == 1 })
	p.logged(t, `msg="master votes again" node=`+forgetful.addr)
	c.grant(t, "job", "5000")
}

// Two proxies contend for one lock over five masters, of which one comes and goes: at most one
// holds it, and fences rise. Who asks at the very moment in which a master goes may hear that
// there was no majority. R27
func TestRedlockTwoProxies(t *testing.T) {
	t.Parallel()
	five := startMasters(t, 5)
	var proxies []*lockproxy
	for range 2 {
		proxies = append(proxies, five.redlock(t, 20*time.Second, "--upstream", sharedRedis().addr, "--lock-lease", "20s", "--redlock-max-lease", "20s"))
	}
	const clients = 10
	w, end := &witness{}, make(chan struct{})
	var unlucky atomic.Int32
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			for {
				err := contend(proxies[client%2], client%2, client, "contended", 20*time.Second, 0, end, w)
				if err == nil {
					return
				}
				if unlucky.Add(1); !strings.Contains(err.Error(), "NOQUORUM ") {
					t.Errorf("client %d: %v", client, err)
					return
				}
				// Whatever it has, it is done with it.
				for v, err := ask(proxies[client%2].addr, "UNLOCK", "contended", fmt.Sprintf("client%d", client)); err != nil || v.kind == '-'; {
					v, err = ask(proxies[client%2].addr, "UNLOCK", "contended", fmt.Sprintf("client%d", client))
				}
			}
		})
	}
	faults := dose(3, 30)
	for range faults {
		time.Sleep(300 * time.Millisecond)
		five[1].kill()
		time.Sleep(300 * time.Millisecond)
		five[1].restart(t)
	}
	w.await(20, time.Time{})
	close(end)
	group.Wait()
	w.check(t, 20)
	if n := int(unlucky.Load()); n > 2*clients*faults {
		t.Errorf("%d times no majority in %d grants and %d faults", n, len(w.grants), faults)
	}
}

// A proxy that ends answers its waiters, and leaves nothing of theirs on the masters. R27
func TestRedlockDrains(t *testing.T) {
	t.Parallel()
	three := startMasters(t, 3)
	redis := sharedRedis().addr
	args := []string{"--upstream", redis, "--lock-lease", "20s", "--redlock-max-lease", "20s"}
	p, other := three.redlock(t, 20*time.Second, args...), three.redlock(t, 20*time.Second, args...)
	connect(t, other.addr).must(t, "LOCK", "job", "TOKEN", "t", "PX", "20000")
	c := connect(t, p.addr)
	c.send("LOCK", "job", "TOKEN", "u", "PX", "20000", "WAIT", "60000")
	eventually(t, patience, "it waits", func() bool { return p.metric(t, "lockproxy_lock_waiters") == 1 })
	p.signal(syscall.SIGTERM)
	if v, err := c.receive(patience); err != nil || !strings.HasPrefix(v.text, "TRYAGAIN ") {
		t.Errorf("the waiter got %s %v", v, err)
	}
	if code := p.wait(patience); code != 0 {
		t.Errorf("exit %d", code)
	}
	last := connect(t, other.addr)
	last.want(t, "(integer) 1", "UNLOCK", "job", "t")
	last.grant(t, "job", "20000")
}

// What cannot serve is refused at start, with the reason. R32
func TestRedlockRefusedAtStart(t *testing.T) {
	t.Parallel()
	a, b := startRedis(t), startRedis(t)
	replica := startRedis(t, "--replicaof", "127.0.0.1", fmt.Sprint(a.port))
	for third, why := range map[string]string{
		replica.addr:                        "it is a replica",
		sharedCluster().nodes[0].addr:       "it is a node of a Redis Cluster",
		fmt.Sprintf("localhost:%d", a.port): "it is the same server as",
	} {
		p := startProcess(t, binary(t), "--listen", "127.0.0.1:0", "--admin", "off", "--dev", "--redlock", a.addr+","+b.addr+","+third)
		if code := p.wait(patience); code != 1 || !strings.Contains(p.log.String(), why) {
			t.Errorf("%s: exit %d, want 1 and %q:\n%s", third, code, why, p.log.tail())
		}
	}
}
