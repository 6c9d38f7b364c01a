package faults

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// oldMasters are shared by tests that leave them as they are and use keys of their own: a proxy waits until a
// master is older than its longest lease.
var oldMasters = rig.Shared(func(l rig.Life) rig.Masters { return rig.StartMasters(l, 3) })

// startOldRedlock starts a proxy whose locks they keep, with leases of 20 s.
func startOldRedlock(t *testing.T, upstream string, args ...string) *rig.Proxy {
	t.Helper()
	return oldMasters().StartRedlock(t, 20*time.Second, append([]string{"--upstream", upstream,
		"--lock-lease", "20s", "--redlock-max-lease", "20s"}, args...)...)
}

// The name says where a lock is kept; everything else goes to the upstream. R27
func TestRedlockByPrefix(t *testing.T) {
	t.Parallel()
	masters, upstream := oldMasters(), rig.StartRedis(t)
	p := startOldRedlock(t, upstream.Addr, "--redlock-prefix", "pay:")
	c := rig.Connect(t, p.Addr)
	for _, name := range []string{"pay:1", "elsewhere"} {
		if v := c.Must(t, "LOCK", name, "TOKEN", "t", "PX", "20000"); len(v.Elems) != 4 ||
			v.Elems[0].Text != "t" {
			t.Fatalf("LOCK %s: %s", name, v)
		}
	}
	c.Want(t, "OK", "SET", "pay:1", "value")
	rig.Eventually(t, rig.Patience, "a majority has the lock",
		func() bool { return having(t, masters, "lock:{pay:1}") >= 2 })
	if n := having(t, masters, "lock:{elsewhere}") + having(t, masters, "pay:1"); n != 0 {
		t.Errorf("%d keys of the upstream are on the masters", n)
	}
	for key, want := range map[string]string{"lock:{pay:1}": "(integer) 0", "lock:{elsewhere}": "(integer) 1",
		"pay:1": "(integer) 1"} {
		if got := upstream.Do(t, "EXISTS", key).String(); got != want {
			t.Errorf("upstream: EXISTS %s: %s", key, got)
		}
	}
	if got := c.Must(t, "LOCKCTL", "LIST").String(); !strings.HasPrefix(got, `[["name", "elsewhere", `) ||
		!strings.Contains(got, `], ["name", "pay:1", `) {
		t.Errorf("LIST: %s", got)
	}
	c.Want(t, "(integer) 1", "UNLOCK", "pay:1", "t")
	rig.Eventually(t, rig.Patience, "none has the lock",
		func() bool { return having(t, masters, "lock:{pay:1}") == 0 })
}

// takeAndFree takes a lock and frees it.
func takeAndFree(t *testing.T, c *rig.Conn, name string) {
	t.Helper()
	if v := c.Must(t, "LOCK", name, "TOKEN", "t", "PX", "20000"); len(v.Elems) != 4 {
		t.Fatalf("LOCK %s: %s", name, v)
	}
	c.Want(t, "(integer) 1", "UNLOCK", name, "t")
}

// Two dead masters of five are asked nothing any more, and grants go on. Without a third there is no grant,
// and no Null either; it comes back by itself. R27
func TestRedlockDeadMasters(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]struct {
		kill, heal func(t *testing.T, s *rig.Server)
	}{
		"killed": {func(_ *testing.T, s *rig.Server) { s.Kill() },
			func(t *testing.T, s *rig.Server) { s.Restart(t) }},
		"stopped": {func(t *testing.T, s *rig.Server) { s.Stop(t) },
			func(_ *testing.T, s *rig.Server) { s.Signal(syscall.SIGCONT) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			five := rig.StartMasters(t, 5)
			p := five.StartRedlock(t, 20*time.Second, "--upstream", rig.SharedRedis().Addr,
				"--lock-lease", "20s", "--redlock-max-lease", "20s")
			c := rig.Connect(t, p.Addr)
			takeAndFree(t, c, name)
			harm.kill(t, five[0])
			harm.kill(t, five[3])
			takeAndFree(t, c, name)
			rig.Eventually(t, rig.Patience, "the metrics say who is away", func() bool {
				return p.Metric(t, "lockproxy_redlock_node_up") == 3 &&
					p.Metric(t, "lockproxy_redlock_node_votes") == 3 &&
					p.Metric(t, "lockproxy_redlock_node_up", five[3].Addr) == 0
			})
			for range 20 {
				takeAndFree(t, c, name)
			}
			if status, body, err := p.Get("/readyz?strict"); status != http.StatusOK {
				t.Errorf("/readyz: %d %s %v", status, body, err)
			}

			c.Must(t, "LOCK", "held", "TOKEN", "t", "PX", "20000", "KEEPALIVE")
			harm.kill(t, five[4])
			want := "NOQUORUM " // of how many that were still to answer at first, nobody knows
			for _, lock := range []string{"held", "free"} {
				for range 3 {
					v, err := c.Do("LOCK", lock, "TOKEN", "u", "PX", "20000")
					if err != nil || !strings.HasPrefix(v.Text, want) || v.Kind != '-' {
						t.Errorf("LOCK %s with two masters of five: %s %v", lock, v, err)
					}
					want = "NOQUORUM 2/3 "
				}
			}
			readyz(t, p, 503, "2 of 5 masters vote, and 3 are needed", five[4].Addr)
			balanced(t, p, 200, five[4].Addr)
			c.Want(t, "PONG", "PING")

			for _, i := range []int{4, 0, 3} {
				harm.heal(t, five[i])
			}
			rig.Eventually(t, rig.Patience, "all masters vote",
				func() bool { return p.Metric(t, "lockproxy_redlock_node_votes") == 5 })
			if v := c.Must(t, "LOCK", "held", "TOKEN", "u"); !v.Null {
				t.Errorf("what was held: %s", v)
			}
			c.Want(t, "(integer) 1", "UNLOCK", "held", "t")
			takeAndFree(t, c, name)
			takeAndFree(t, c, "free")
		})
	}
}

// A master that restarted without its data has no vote until the longest lease is over, and
// says so. R27 R31
func TestRedlockRestartedMaster(t *testing.T) {
	t.Parallel()
	three := append(rig.StartMasters(t, 2), rig.StartRedis(t))
	forgetful := three[2]
	p := three.StartRedlock(t, 30*time.Second, "--upstream", rig.SharedRedis().Addr, "--lock-lease", "30s",
		"--lock-max-lease", "30s")
	votes := func() float64 { return p.Metric(t, "lockproxy_redlock_node_votes", forgetful.Addr) }
	rig.Eventually(t, 2*rig.Patience, "it is old enough to vote", func() bool { return votes() == 1 })
	c := rig.Connect(t, p.Addr)
	asked := time.Now()
	v := granted(t, c, "LOCK", "job", "TOKEN", "t", "PX", "30000")
	until := asked.Add(time.Duration(v.Elems[2].Int()) * time.Millisecond)
	forgetful.Restart(t)
	three[0].Kill()
	// Two answer, one of which has forgotten the holder.
	for range 50 {
		v, err := c.Do("LOCK", "job", "TOKEN", "u", "PX", "30000")
		if err != nil || len(v.Elems) > 0 && time.Now().Before(until) {
			t.Fatalf("LOCK of what is held: %s %v", v, err)
		}
	}
	p.Logged(t, `msg="master does not vote" node=`+forgetful.Addr+` err="it restarted`)
	says := fmt.Sprintf(`["addr", %q, "up", (integer) 1, "votes", (integer) 0, "why", "it restarted`,
		forgetful.Addr)
	rig.Eventually(t, rig.Patience, "STATS says why it does not vote", func() bool {
		return strings.Contains(c.Must(t, "LOCKCTL", "STATS").String(), says)
	})
	rig.Eventually(t, 2*rig.Patience, "it votes again", func() bool { return votes() == 1 })
	p.Logged(t, `msg="master votes again" node=`+forgetful.Addr)
	rig.Eventually(t, rig.Patience, "the lock can be had", func() bool {
		return len(c.Call(t, "LOCK", "job", "TOKEN", "t", "PX", "30000").Elems) == 4
	})
}

// Two proxies contend for one lock over five masters, of which one comes and goes: at most one
// holds it, and fences rise. Who asks at the very moment in which a master goes may hear that
// there was no majority. R27
func TestRedlockTwoProxies(t *testing.T) {
	t.Parallel()
	five := rig.StartMasters(t, 5)
	var proxies []*rig.Proxy
	for range 2 {
		proxies = append(proxies, five.StartRedlock(t, 20*time.Second, "--upstream", rig.SharedRedis().Addr,
			"--lock-lease", "20s", "--redlock-max-lease", "20s"))
	}
	const clients = 10
	w, end := &witness{}, make(chan struct{})
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			for {
				err := contend(proxies[client%2], client%2, client, "contended", 20*time.Second, 0, end, w)
				if err == nil {
					return
				}
				if !strings.Contains(err.Error(), "NOQUORUM ") {
					t.Errorf("client %d: %v", client, err)
					return
				}
				// Whatever it has, it is done with it.
				for v, err := rig.Ask(proxies[client%2].Addr, "UNLOCK", "contended",
					fmt.Sprintf("client%d", client)); err != nil || v.Kind == '-'; {
					v, err = rig.Ask(proxies[client%2].Addr, "UNLOCK", "contended",
						fmt.Sprintf("client%d", client))
				}
			}
		})
	}
	for range rig.Dose(3, 30) {
		time.Sleep(300 * time.Millisecond)
		five[1].Kill()
		time.Sleep(300 * time.Millisecond)
		five[1].Restart(t)
	}
	w.await(20, time.Now())
	close(end)
	group.Wait()
	w.check(t, 20)
}

// A proxy that ends answers its waiters, and leaves nothing of theirs on the masters. R27
func TestRedlockDrains(t *testing.T) {
	t.Parallel()
	redis := rig.SharedRedis().Addr
	p, other := startOldRedlock(t, redis), startOldRedlock(t, redis)
	holder := rig.Connect(t, other.Addr)
	holder.Must(t, "LOCK", "drained", "TOKEN", "t", "PX", "20000", "KEEPALIVE")
	c := rig.Connect(t, p.Addr)
	c.Send("LOCK", "drained", "TOKEN", "u", "PX", "20000", "WAIT", "600000")
	rig.Eventually(t, rig.Patience, "it waits", func() bool {
		return p.Metric(t,
			"lockproxy_lock_waiters") == 1
	})
	p.Signal(syscall.SIGTERM)
	if v, err := c.Receive(rig.Patience); err != nil || !strings.HasPrefix(v.Text, "TRYAGAIN ") {
		t.Errorf("the waiter got %s %v", v, err)
	}
	if code := p.Wait(rig.Patience); code != 0 {
		t.Errorf("exit %d", code)
	}
	holder.Want(t, "(integer) 1", "UNLOCK", "drained", "t")
	takeAndFree(t, holder, "drained")
}

// What cannot serve is refused at start, with the reason. R32
func TestRedlockRefusedAtStart(t *testing.T) {
	t.Parallel()
	a, b := rig.StartRedis(t), rig.StartRedis(t)
	replica := rig.StartRedis(t, "--replicaof", "127.0.0.1", fmt.Sprint(a.Port))
	for third, why := range map[string]string{
		replica.Addr:                        "it is a replica",
		rig.SharedCluster().Nodes[0].Addr:   "it is a node of a Redis Cluster",
		fmt.Sprintf("localhost:%d", a.Port): "it is the same server as",
	} {
		p := rig.StartProcess(t, rig.Binary(t), "--listen", "127.0.0.1:0", "--admin", "off",
			"--dev", "--redlock",
			a.Addr+","+b.Addr+","+third)
		if code := p.Wait(rig.Patience); code != 1 || !strings.Contains(p.Log.String(), why) {
			t.Errorf("%s: exit %d, want 1 and %q:\n%s", third, code, why, p.Log.Tail())
		}
	}
}

// having is how many of the masters have the key.
func having(t *testing.T, masters rig.Masters, key string) (n int64) {
	t.Helper()
	for _, s := range masters {
		n += s.Do(t, "EXISTS", key).Int()
	}
	return n
}
