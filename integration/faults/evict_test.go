package faults

import (
	"strings"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// beginsToEvict are settings of a server that may delete locks that are held: volatile-* too, for these have
// a TTL.
var beginsToEvict = []string{"CONFIG SET maxmemory 100mb", "CONFIG SET maxmemory-policy volatile-lru"}

// A proxy does not start before a server that may evict locks, and says what to do, unless
// lock-allow-eviction is set, or RedLock has all locks. A server without maxmemory never evicts. R10
func TestStartBeforeEvictingServers(t *testing.T) {
	t.Parallel()
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		s := rig.StartRedis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
		refused(t, "--upstream", s.Addr)
		p := rig.StartProxy(t, "--upstream", s.Addr, "--lock-allow-eviction", "yes")
		evicting(t, p, 1)
		readyz(t, p, 200, "ready")
		if v := rig.Connect(t, p.Addr).Must(t, "LOCK", "job"); len(v.Elems) != 4 {
			t.Errorf("LOCK with lock-allow-eviction: %s", v)
		}
		s.Do(t, "CONFIG", "SET", "maxmemory", "0")
		evicting(t, rig.StartProxy(t, "--upstream", s.Addr), 0)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := rig.StartCluster(t, 3, 0)
		each(t, c.Nodes[1], beginsToEvict)
		refused(t, "--upstream", c.Addrs())
	})
	t.Run("redlock", func(t *testing.T) {
		t.Parallel()
		three := rig.StartMasters(t, 3)
		cache := rig.StartRedis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
		startOldRedlock(t, cache.Addr)
		each(t, three[2], beginsToEvict)
		var addrs []string
		for _, s := range three {
			addrs = append(addrs, s.Addr)
		}
		refused(t, "--upstream", cache.Addr, "--redlock", strings.Join(addrs, ","))
	})
}

// refused starts a proxy that is to end by itself and say why.
func refused(t *testing.T, args ...string) {
	t.Helper()
	p := rig.StartProcess(t, rig.Binary(t),
		append([]string{"--listen", "127.0.0.1:0", "--admin", "off"}, args...)...)
	if code := p.Wait(rig.Patience); code != 1 {
		t.Errorf("it ended with %d", code)
	}
	log := p.Log.String()
	for _, part := range []string{
		"level=ERROR", "127.0.0.1:", "it evicts", "maxmemory-policy noeviction", "lock-allow-eviction yes",
	} {
		if !strings.Contains(log, part) {
			t.Errorf("it does not say %q:\n%s", part, log)
		}
	}
}

// each has s run the commands, which are given as lines.
func each(t *testing.T, s *rig.Server, lines []string) {
	t.Helper()
	for _, line := range lines {
		s.Do(t, strings.Fields(line)...)
	}
}

// evicting waits until so many masters count as evicting in the metrics of p.
func evicting(t *testing.T, p *rig.Proxy, masters int) {
	t.Helper()
	rig.Eventually(t, rig.Patience, "the metric of nodes that evict", func() bool {
		return p.Metric(t, "lockproxy_node_evicts") == float64(masters)
	})
}

// A master that begins to evict while the proxy runs gets no new locks, until it has ended. What is held
// there goes on, and so does everything else. R10
func TestEvictionWhileRunning(t *testing.T) {
	t.Parallel()
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		s := rig.StartRedis(t)
		getsNoNewLocks(t, rig.StartProxy(t, "--upstream", s.Addr), s)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := rig.StartCluster(t, 3, 0)
		p := rig.StartProxy(t, "--upstream", c.Addrs())
		getsNoNewLocks(t, p, c.MasterOf(t, "{x}"))
		other := ""
		for _, name := range []string{"a", "b", "c", "d"} {
			if c.MasterOf(t, "{"+name+"}") != c.MasterOf(t, "{x}") {
				other = name
			}
		}
		each(t, c.MasterOf(t, "{x}"), beginsToEvict)
		evicting(t, p, 1)
		client := rig.Connect(t, p.Addr)
		if v := client.Must(t, "LOCK", "{"+other+"}job"); len(v.Elems) != 4 {
			t.Errorf("LOCK at another master: %s", v)
		}
		if v := client.Call(t, "LOCK", "{x}job"); !v.IsError("MISCONF") {
			t.Errorf("LOCK at the one that evicts: %s", v)
		}
	})
}

// getsNoNewLocks has s, the master of {x}, begin to evict and end it again, behind p.
func getsNoNewLocks(t *testing.T, p *rig.Proxy, s *rig.Server) {
	c, waiter := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	for _, name := range []string{"{x}plain", "{x}again", "{x}waited", "{x}broken"} {
		c.Must(t, "LOCK", name, "TOKEN", "t", "PX", "60000")
	}
	c.Must(t, "RLOCK", "{x}read", "TOKEN", "t", "PX", "60000")
	waiter.Send("LOCK", "{x}waited", "TOKEN", "w", "PX", "60000", "WAIT", "60000")
	rig.WaitersOf(t, p.Addr, "{x}waited", 1)
	readyz(t, p, 200, "ready")

	each(t, s, beginsToEvict)
	evicting(t, p, 1)
	readyz(t, p, 503, "node "+s.Addr+": it evicts", "volatile-lru", "CONFIG SET maxmemory-policy noeviction")
	balanced(t, p, 200, "node "+s.Addr+": it evicts")
	for _, args := range [][]string{
		{"LOCK", "{x}new"}, {"RLOCK", "{x}new"}, {"LOCK", "{x}new", "META", "a note"},
		{"LOCK", "{x}new", "KEEPALIVE"},
		{"LOCK", "{x}new", "WAIT", "1000"}, {"LOCK", "{x}new", "TRIES", "2", "EVERY", "10"},
		{"RLOCK", "{x}read", "TOKEN", "another"},
	} {
		if v := c.Call(t, args...); !v.IsError("MISCONF") || !strings.Contains(v.String(), s.Addr) ||
			!strings.Contains(v.String(), "what is held can be renewed and released") {
			t.Errorf("%q: %s", args, v)
		}
	}
	if v := c.Must(t, "LOCK", "{x}again", "TOKEN", "t", "PX", "60000", "REENTRANT"); len(v.Elems) != 4 {
		t.Errorf("LOCK of a holder: %s", v)
	}
	c.Want(t, "(nil)", "LOCK", "{x}plain")
	if left := c.Must(t, "RENEW", "{x}plain", "t", "PX", "70000").Int(); left <= 60000 {
		t.Errorf("RENEW: %d ms", left)
	}
	if v := c.Must(t, "LOCKCTL", "CHECK", "{x}plain", "t"); len(v.Elems) != 3 {
		t.Errorf("CHECK: %s", v)
	}
	c.Want(t, "(integer) 1", "UNLOCK", "{x}waited", "t")
	if v, err := waiter.Receive(rig.Patience); err != nil || !v.IsError("MISCONF") {
		t.Errorf("the one that waited: %s %v", v, err)
	}
	c.Want(t, "(integer) 0", "UNLOCK", "{x}again", "t")
	for _, name := range []string{"{x}again", "{x}plain", "{x}read"} {
		c.Want(t, "(integer) 1", "UNLOCK", name, "t")
	}
	c.Want(t, "(integer) 1", "LOCKCTL", "BREAK", "{x}broken")
	c.Want(t, "OK", "SET", "{x}key", "value")

	s.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	evicting(t, p, 0)
	readyz(t, p, 200, "ready")
	if v := c.Must(t, "LOCK", "{x}new", "TOKEN", "t"); len(v.Elems) != 4 {
		t.Errorf("LOCK when it evicts no more: %s", v)
	}
	c.Want(t, "(integer) 1", "UNLOCK", "{x}new", "t")
	for _, line := range []string{"node may evict locks", "node evicts no locks any more"} {
		if n := strings.Count(p.Log.String(), line); n != 1 {
			t.Errorf("%q is logged %d times:\n%s", line, n, p.Log.Tail())
		}
	}
}

// A master of RedLock that evicts does not vote, nor afterwards until the longest lease is over: it may have
// lost locks. R27
func TestEvictingMasters(t *testing.T) {
	t.Parallel()
	three := rig.StartMasters(t, 3)
	p := three.StartRedlock(t, 10*time.Second, "--upstream", rig.StartRedis(t).Addr,
		"--lock-lease", "10s", "--redlock-max-lease", "10s")
	c := rig.Connect(t, p.Addr)
	each(t, three[0], beginsToEvict)
	evicting(t, p, 1)
	granted(t, c, "LOCK", "job", "TOKEN", "t") // one of three evicts
	each(t, three[1], beginsToEvict)
	evicting(t, p, 2)
	if v := c.Call(t, "LOCK", "other"); !v.IsError("NOQUORUM") ||
		!strings.Contains(v.String(), "it evicts: with maxmemory-policy volatile-lru") {
		t.Errorf("two of three evict: %s", v)
	}
	readyz(t, p, 503, three[0].Addr+": it evicts", three[1].Addr+": it evicts")
	three[1].Do(t, "CONFIG", "SET", "maxmemory", "0")
	evicting(t, p, 1)
	if v := c.Call(t, "LOCK", "other"); !v.IsError("NOQUORUM") ||
		!strings.Contains(v.String(), "it may have evicted keys") {
		t.Errorf("right after that: %s", v)
	}
	readyz(t, p, 200, "ready")
	granted(t, c, "LOCK", "other") // a lease later
}
