package faults

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// renewed waits until a hold that is kept alive is renewed, and returns its fence. What is left of its lease
// grows then.
func renewed(t *testing.T, c *rig.Conn, name, token string) (fence int64) {
	t.Helper()
	left := int64(math.MaxInt64)
	rig.Eventually(t, rig.Patience, name+" is renewed", func() bool {
		v := c.Must(t, "LOCKCTL", "CHECK", name, token)
		if len(v.Elems) != 3 {
			t.Fatalf("what was kept alive: %s is %s", name, v)
		}
		before := left
		left, fence = v.Elems[0].Int(), v.Elems[1].Int()
		return left > before
	})
	return fence
}

// keepMany takes so many locks over so many connections, each of which keeps its own alive. The locks are
// name and a number, their tokens "kept". It returns the connections, and the fences by number.
func keepMany(
	t *testing.T, p *rig.Proxy, name string, conns, holds int, lease time.Duration,
) ([]*rig.Conn, []int64) {
	t.Helper()
	all, fences := make([]*rig.Conn, conns), make([]int64, holds)
	var group sync.WaitGroup
	for i := range all {
		all[i] = rig.Connect(t, p.Addr)
		group.Go(func() {
			const batch = 100
			for at := i; at < holds; at += conns * batch {
				stop := min(holds, at+conns*batch)
				for h := at; h < stop; h += conns {
					all[i].Send("LOCK", fmt.Sprint(name, h), "TOKEN", "kept",
						"PX", fmt.Sprint(lease.Milliseconds()), "KEEPALIVE")
				}
				for h := at; h < stop; h += conns {
					v, err := all[i].Receive(rig.Patience)
					if err != nil || len(v.Elems) != 4 {
						t.Errorf("LOCK %s%d: %s %v", name, h, v, err)
						return
					}
					fences[h] = v.Elems[1].Int()
				}
			}
		})
	}
	group.Wait()
	return all, fences
}

// The connections of a hundred clients that keep locks alive are closed at once: the locks are free, though
// their leases last for longer than the test. R18
func TestKeptHoldsAreFreedAtOnce(t *testing.T) {
	t.Parallel()
	holds := rig.Dose(2_000, 100_000)
	redis := rig.StartRedis(t)
	p := rig.StartProxy(t, "--upstream", redis.Addr, "--lock-max-keepalive", "100000")
	conns, _ := keepMany(t, p, "kept ", 100, holds, time.Hour)
	// What has a time to live is a lock; the keys of the fences have none.
	held := func() (n int) {
		keys := redis.Info(t, "keyspace", "db0")
		fmt.Sscanf(keys, "keys=%d,expires=%d", new(int), &n)
		return n
	}
	const indexed = 2 // keys of the index, which have a time to live too
	if n := held(); n < holds {
		t.Fatalf("%d locks are held, not %d", n, holds)
	}
	for _, c := range conns {
		c.Close()
	}
	rig.Eventually(t, rig.Patience, "all holds are free", func() bool { return held() <= indexed })
}

// Many holds that are kept alive, and clients that wait, when a master dies whose replica has all
// of it: none is lost. Each hold goes on with its fence, and each client gets its lock. R18 R25
func TestHoldsAndWaitersThroughAFailover(t *testing.T) {
	t.Parallel()
	const locks = 10
	holds, waiters := rig.Dose(1_000, 100_000), rig.Dose(100, 10_000)
	c := rig.StartCluster(t, 3, 1)
	var proxies []*rig.Proxy
	for range 2 {
		proxies = append(proxies, rig.StartProxy(t, "--upstream", c.Addrs(), "--retry-budget", "2m"))
	}
	conns, fences := keepMany(t, proxies[0], "kept ", 100, holds, tenMinutes)
	holder := rig.Connect(t, proxies[0].Addr)
	name := func(i int) string { return fmt.Sprint("waited for ", i%locks) }
	for i := range locks {
		holder.Must(t, "LOCK", name(i), "TOKEN", "holder", "PX", "600000")
	}
	var served atomic.Int32
	var group sync.WaitGroup
	for i := range waiters {
		w := rig.Connect(t, proxies[i%2].Addr)
		w.Send("LOCK", name(i/2), "TOKEN", fmt.Sprint(i), "PX", "600000", "WAIT", "600000")
		group.Go(func() {
			v, err := w.Receive(10 * time.Minute)
			if err != nil || len(v.Elems) != 4 {
				t.Errorf("waiter %d: %s %v", i, v, err)
				return
			}
			served.Add(1)
			if v, err := w.Do("UNLOCK", name(i/2), fmt.Sprint(i)); err != nil || v.Text != "1" {
				t.Errorf("UNLOCK of waiter %d: %s %v", i, v, err)
			}
		})
	}
	rig.Eventually(t, 4*rig.Patience, "all wait", func() bool {
		n := int64(0)
		for i := range locks {
			_, w := rig.LockInfo(t, proxies[0].Addr, name(i))
			n += w
		}
		return n == int64(waiters)
	})
	master := c.MasterOf(t, "lock:{"+name(0)+"}")
	replica := c.ReplicasOf(t, master)[0]
	offset := func(s *rig.Server, field string) (n int64) {
		fmt.Sscan(s.Info(t, "replication", field), &n)
		return n
	}
	all := offset(master, "master_repl_offset")
	rig.Eventually(t, rig.Patience, "the replica has all", func() bool {
		return offset(replica, "slave_repl_offset") >= all
	})
	master.Kill()
	killed := time.Now()
	replica.Promote(t, "TAKEOVER")
	promoted := time.Now()
	for i := range locks {
		holder.Want(t, "(integer) 1", "UNLOCK", name(i), "holder")
	}
	group.Wait()
	t.Logf("promoted after %v; %d of %d waiters served %v later", promoted.Sub(killed), served.Load(),
		waiters, time.Since(promoted))
	lost := 0
	for at := 0; at < holds; at += 100 {
		stop := min(holds, at+100)
		for h := at; h < stop; h++ {
			holder.Send("LOCKCTL", "CHECK", fmt.Sprint("kept ", h), "kept")
		}
		for h := at; h < stop; h++ {
			v, err := holder.Receive(rig.Patience)
			if err != nil || len(v.Elems) != 3 || v.Elems[1].Int() != fences[h] {
				if lost++; lost < 10 {
					t.Errorf("CHECK of hold %d with fence %d: %s %v", h, fences[h], v, err)
				}
			}
		}
	}
	t.Logf("%d of %d holds are lost", lost, holds)
	for _, c := range conns {
		c.Close()
	}
	rig.Eventually(t, 2*rig.Patience, "what was kept is free", func() bool {
		state, _ := rig.LockInfo(t, proxies[1].Addr, fmt.Sprint("kept ", holds-1))
		return state == "free"
	})
}
