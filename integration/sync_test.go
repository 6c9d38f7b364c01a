package integration

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// startReplicas starts a Redis with that many replicas, which all follow it.
func startReplicas(l life, n int) (master *server, replicas []*server) {
	l.Helper()
	master = startRedis(l)
	for range n {
		r := startRedis(l, "--replicaof", "127.0.0.1 "+strconv.Itoa(master.port))
		replicas = append(replicas, r)
	}
	master.follow(l, n)
	return master, replicas
}

// follow waits until n replicas get what is written to s. A link that is up may carry
// nothing yet, and what a WAIT counts may have come with the first copy of all.
func (s *server) follow(l life, n int) {
	l.Helper()
	eventually(l, 2*patience, fmt.Sprintf("%d replicas follow", n), func() bool {
		c, err := dial(s.addr)
		if err != nil {
			return false
		}
		defer c.Close()
		for _, write := range [][]string{ // of no slot
			{"FUNCTION", "LOAD", "REPLACE", "#!lua name=follow\nredis.register_function('follow', function() return 1 end)"},
			{"FUNCTION", "DELETE", "follow"},
		} {
			if v, err := c.do(write...); err != nil || v.isError() {
				return false
			}
			if v, err := c.do("WAIT", strconv.Itoa(n), "100"); err != nil || v.int() != int64(n) {
				return false
			}
		}
		return true
	})
}

// loseWrites has an asynchronous fail-over lose what clients do in during: the one replica of
// the master of key hears nothing of it, the master dies, the replica takes over.
func (c *redisCluster) loseWrites(l life, key string, during func()) (old, now *server) {
	l.Helper()
	old = c.masterOf(l, key)
	now = c.replicasOf(l, old)[0]
	now.signal(syscall.SIGSTOP)
	// Stopped alone it would read what has reached its socket when it goes on.
	old.do(l, "CLIENT", "KILL", "TYPE", "replica")
	during()
	old.kill()
	now.signal(syscall.SIGCONT)
	eventually(l, patience, "the replica takes over", func() bool {
		now.do(l, "CLUSTER", "FAILOVER", "TAKEOVER")
		return now.info(l, "replication", "role") == "master"
	})
	eventually(l, 2*patience, "all know the new master", func() bool {
		for _, n := range c.nodes {
			if !n.ended() && infoField(n.do(l, "CLUSTER", "INFO").text, "cluster_state") != "ok" {
				return false
			}
		}
		return c.masterOf(l, key) == now
	})
	return old, now
}

// refusedSync checks that LOCK says NOREPLICAS got/need, neither before the timeout nor long
// after it.
func (c *conn) refusedSync(t *testing.T, got, need int, timeout time.Duration, args ...string) {
	t.Helper()
	began := time.Now()
	v := c.call(t, args...)
	took := time.Since(began)
	if want := fmt.Sprintf("NOREPLICAS %d/%d ", got, need); !v.isError() || !strings.HasPrefix(v.text, want) {
		t.Errorf("%s: %s, want -%s", strings.Join(args, " "), v, want)
	}
	if took < timeout || took > timeout+5*time.Second {
		t.Errorf("%s took %v, the timeout is %v", strings.Join(args, " "), took, timeout)
	}
}

// granted checks that LOCK is granted, and returns fence and ttl.
func (c *conn) granted(t *testing.T, args ...string) (fence int64, ttl time.Duration) {
	t.Helper()
	v := c.call(t, args...)
	if len(v.elems) != 4 {
		t.Errorf("%s: %s", strings.Join(args, " "), v)
		return 0, 0
	}
	return v.elems[1].int(), time.Duration(v.elems[2].int()) * time.Millisecond
}

// A grant counts when as many replicas have it as were asked for; else it is given back. R26
func TestSync(t *testing.T) {
	t.Parallel()
	master, replicas := startReplicas(t, 2)
	const timeout = 400 * time.Millisecond
	p := startProxy(t, "--upstream", master.addr, "--lock-sync-timeout", "400ms")
	c := connect(t, p.addr)

	for n := range 3 {
		key, sync := fmt.Sprint("sync:", n), strconv.Itoa(n)
		if _, ttl := c.granted(t, "LOCK", key, "TOKEN", "a", "PX", "20000", "SYNC", sync); ttl > 20*time.Second || ttl < 10*time.Second {
			t.Errorf("SYNC %d: %v remain of 20 s", n, ttl)
		}
		have := 0
		for _, r := range replicas {
			have += int(r.do(t, "EXISTS", "lock:{"+key+"}").int())
		}
		if have < n {
			t.Errorf("SYNC %d: granted, and %d replicas have it", n, have)
		}
		c.want(t, "(integer) 1", "UNLOCK", key, "a")
	}
	if n := master.info(t, "commandstats", "cmdstat_pexpireat"); !strings.HasPrefix(n, "calls=2,") {
		t.Errorf("what was asked before WAIT, twice, wrote %q: Redis 7.2 counts nothing else", n)
	}
	c.granted(t, "RLOCK", "shared", "TOKEN", "a", "SYNC", "2")
	c.granted(t, "RLOCK", "shared", "TOKEN", "b", "SYNC", "2")
	if v := c.call(t, "WLOCK", "shared", "TOKEN", "c", "SYNC", "2"); !v.null {
		t.Errorf("held by others, and yet %s", v)
	}

	replicas[1].signal(syscall.SIGSTOP)
	c.refusedSync(t, 1, 2, timeout, "LOCK", "job", "TOKEN", "a", "SYNC", "2")
	fence, _ := c.granted(t, "LOCK", "job", "TOKEN", "b", "SYNC", "1")
	// The same token again, counted: only that is taken back.
	c.refusedSync(t, 1, 2, timeout, "LOCK", "job", "TOKEN", "b", "REENTRANT", "SYNC", "2")
	if v := c.must(t, "LOCKCTL", "CHECK", "job", "b"); len(v.elems) != 3 || v.elems[1].int() != fence || v.elems[2].int() != 1 {
		t.Errorf("the hold after a re-entry that was refused: %s", v)
	}
	// Who waits gets the lock and cannot keep it; the one behind gets it then.
	waiter, next := connect(t, p.addr), connect(t, p.addr)
	waiter.send("LOCK", "job", "TOKEN", "w", "WAIT", "20000", "SYNC", "2")
	waitersOf(t, p.addr, "job", 1)
	next.send("LOCK", "job", "TOKEN", "n", "WAIT", "20000", "SYNC", "1")
	waitersOf(t, p.addr, "job", 2)
	c.want(t, "(integer) 1", "UNLOCK", "job", "b")
	if v, err := waiter.receive(patience); err != nil || !v.isError("NOREPLICAS") {
		t.Errorf("the waiter: %s %v", v, err)
	}
	if v, err := next.receive(patience); err != nil || len(v.elems) != 4 {
		t.Errorf("the waiter behind it: %s %v", v, err)
	}
	c.want(t, "(integer) 1", "UNLOCK", "job", "n")

	// A client that does not wait for the answer leaves nothing behind.
	leaving := connect(t, p.addr)
	leaving.send("LOCK", "job", "TOKEN", "l", "SYNC", "2")
	eventually(t, patience, "the lock is taken", func() bool { state, _ := lockInfo(t, p.addr, "job"); return state == "write" })
	leaving.Close()
	eventually(t, patience, "the lock is free", func() bool { state, _ := lockInfo(t, p.addr, "job"); return state == "free" })

	replicas[0].signal(syscall.SIGSTOP)
	c.refusedSync(t, 0, 1, timeout, "LOCK", "job", "TOKEN", "a", "SYNC", "1", "WAIT", "1000")
	c.granted(t, "LOCK", "job", "TOKEN", "b")
	c.want(t, "(integer) 1", "UNLOCK", "job", "b")
	for _, r := range replicas {
		r.signal(syscall.SIGCONT)
	}
	eventually(t, 2*patience, "granted when the replicas are back", func() bool {
		return len(c.call(t, "LOCK", "job", "TOKEN", "a", "SYNC", "2").elems) == 4
	})
}

// Where there are no replicas SYNC is refused, and nothing else is; --lock-sync is the
// default that SYNC overrides. R26
func TestSyncWithoutReplicas(t *testing.T) {
	t.Parallel()
	for name, upstream := range map[string][]string{"single": {"--upstream", sharedRedis().addr}, "dev": {"--dev"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startProxy(t, append(upstream, "--lock-sync", "1", "--lock-sync-timeout", "50ms")...)
			c := connect(t, p.addr)
			key := "unsynced:" + t.Name()
			for _, args := range [][]string{{"LOCK", key}, {"LOCK", key, "SYNC", "1"}, {"LOCK", key, "TOKEN", "t", "WAIT", "1000"}, {"RLOCK", key, "SYNC", "3"}} {
				need := 1
				if args[0] == "RLOCK" {
					need = 3
				}
				c.refusedSync(t, 0, need, 0, args...)
				if state, waiters := lockInfo(t, p.addr, key); state != "free" || waiters != 0 {
					t.Errorf("after %v the lock is %s with %d waiters", args, state, waiters)
				}
			}
			c.granted(t, "LOCK", key, "TOKEN", "t", "SYNC", "0")
			c.want(t, "(integer) 1", "UNLOCK", key, "t")
		})
	}
}

// An asynchronous fail-over loses grants that only the master knew: the exception of what
// is promised. It is really seen without SYNC, and gone with it. R26
func TestFailoverLosesGrants(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, 1)
	p := startProxy(t, "--upstream", c.addrs())
	for _, m := range c.nodes[:c.masters] {
		m.follow(t, 1)
	}
	one, two := connect(t, p.addr), connect(t, p.addr)
	// All of these lie in one slot.
	const early, plain, synced = "{lossy}:early", "{lossy}:plain", "{lossy}:synced"
	for i := range 12 { // of every master
		key := fmt.Sprint("everywhere:", i)
		one.granted(t, "LOCK", key, "TOKEN", "a", "SYNC", "1")
		if v := two.call(t, "LOCK", key, "TOKEN", "b", "SYNC", "1"); !v.null {
			t.Errorf("%s is held, and yet %s", key, v)
		}
	}
	earlyFence, _ := one.granted(t, "LOCK", early, "TOKEN", "a", "PX", "120000", "SYNC", "1")

	var fence int64
	var until time.Time
	c.loseWrites(t, plain, func() {
		began := time.Now()
		f, ttl := one.granted(t, "LOCK", plain, "TOKEN", "a", "PX", "120000")
		fence, until = f, began.Add(ttl)
		one.refusedSync(t, 0, 1, time.Second, "LOCK", synced, "TOKEN", "a", "PX", "120000", "SYNC", "1")
	})

	// Without SYNC: a second holder while the first one's ttl runs. Its fence is higher.
	again, _ := two.granted(t, "LOCK", plain, "TOKEN", "b", "PX", "120000")
	if left := time.Until(until); left < 10*time.Second {
		t.Fatalf("the first grant has %v left: the machine is too slow for this test", left)
	}
	if again <= fence {
		t.Errorf("the fence before the fail-over was %d, after it %d", fence, again)
	}
	one.want(t, "(integer) 0", "RENEW", plain, "a")
	one.want(t, "(nil)", "UNLOCK", plain, "a")

	// With SYNC: what was granted is still there, what was refused is free.
	if v := two.call(t, "LOCK", early, "TOKEN", "b"); !v.null {
		t.Errorf("a grant that a replica had was lost: %s", v)
	}
	if v := one.must(t, "LOCKCTL", "CHECK", early, "a"); len(v.elems) != 3 || v.elems[1].int() != earlyFence {
		t.Errorf("LOCKCTL CHECK after the fail-over: %s", v)
	}
	one.want(t, "(integer) 1", "UNLOCK", early, "a")
	two.granted(t, "LOCK", synced, "TOKEN", "b")
	// The new master has no replica yet: nothing can be promised there.
	two.refusedSync(t, 0, 1, time.Second, "LOCK", early, "TOKEN", "b", "SYNC", "1")
}

// Grants with SYNC while their master dies: each that was told is still there afterwards,
// and no client hangs. R26
func TestSyncWhileTheMasterDies(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, 1)
	for _, m := range c.nodes[:c.masters] {
		m.follow(t, 1)
	}
	p := startProxy(t, "--upstream", c.addrs())
	old := c.masterOf(t, "{dies}")
	type outcome struct {
		key string
		v   reply
		err error
	}
	results := make(chan []outcome)
	end := make(chan struct{})
	var answers atomic.Int64
	const clients = 6
	for i := range clients {
		go func() {
			var all []outcome
			defer func() { results <- all }()
			conn, err := dial(p.addr)
			if err != nil {
				all = append(all, outcome{err: err})
				return
			}
			defer conn.Close()
			for n := 0; ; n++ {
				select {
				case <-end:
					return
				default:
				}
				key := fmt.Sprintf("{dies}:%d:%d", i, n)
				conn.send("LOCK", key, "TOKEN", "a", "PX", "120000", "SYNC", "1")
				v, err := conn.receive(time.Minute)
				all = append(all, outcome{key, v, err})
				answers.Add(1)
				if err != nil {
					return
				}
			}
		}()
	}
	eventually(t, 2*patience, "locks are granted", func() bool { return answers.Load() > 100 })
	old.kill()
	eventually(t, 2*patience, "a replica has taken over", func() bool {
		v, err := ask(p.addr, "SET", "{dies}", "1")
		return err == nil && v.text == "OK"
	})
	time.Sleep(200 * time.Millisecond)
	close(end)
	client := connect(t, p.addr)
	granted, refused := 0, map[string]int{}
	for range clients {
		for _, o := range <-results {
			switch {
			case o.err != nil:
				t.Error(o.err)
			case o.v.isError():
				word, _, _ := strings.Cut(o.v.text, " ")
				refused[word]++
			case len(o.v.elems) != 4:
				t.Errorf("%s: %s", o.key, o.v)
			default:
				granted++
				if v := client.must(t, "LOCKCTL", "CHECK", o.key, "a"); len(v.elems) != 3 || v.elems[1].int() != o.v.elems[1].int() {
					t.Errorf("%s was granted with SYNC 1 and is lost: %s, now %s", o.key, o.v, v)
				}
			}
		}
	}
	t.Logf("%d granted, refused: %v", granted, refused)
	if granted < 50 || len(refused) == 0 {
		t.Errorf("%d granted, refused: %v: the test did not test", granted, refused)
	}
}
