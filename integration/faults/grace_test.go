package faults

import (
	"strings"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// The grace closes the gap of an asynchronous fail-over that TestFailoverLosesGrants shows: while
// a lease that the new master has never heard of may run, nobody else gets the lock; holds that
// it knows are renewed and freed, other shards go on. R26
func TestFailoverGrace(t *testing.T) {
	t.Parallel()
	const grace = 20 * time.Second
	c := rig.StartCluster(t, 3, 1)
	for _, m := range c.Nodes[:c.Masters] {
		follow(t, m, 1)
	}
	args := []string{"--upstream", c.Addrs(), "--lock-lease", "10s", "--lock-failover-grace", grace.String()}
	one := rig.Connect(t, rig.StartProxy(t, args...).Addr)
	two := rig.Connect(t, rig.StartProxy(t, args...).Addr)
	const lost, known = "{grace}lost", "{grace}known"
	other := "elsewhere"
	for c.MasterOf(t, other) == c.MasterOf(t, lost) {
		other += "." // on another shard
	}
	// Both proxies have met both masters, which grant nothing before they are older than any lease may be.
	for _, client := range []*rig.Conn{one, two} {
		for _, name := range []string{lost, other} {
			rig.Eventually(t, 2*grace, "the masters to be old enough", func() bool {
				return !client.Call(t, "LOCK", name, "TOKEN", "x").IsError()
			})
			client.Want(t, "(integer) 1", "UNLOCK", name, "x")
		}
	}
	lockFor(t, one, "LOCK", known, "TOKEN", "a", "PX", "60000", "SYNC", "1")
	var until time.Time
	loseWrites(t, c, lost, func() {
		began := time.Now()
		_, ttl := lockFor(t, one, "LOCK", lost, "TOKEN", "a", "PX", "10000")
		until = began.Add(ttl)
	})

	refused := func(client *rig.Conn, args ...string) {
		t.Helper()
		if v := client.Call(t, args...); !v.IsError() || !strings.HasPrefix(v.Text, "TRYAGAIN ") ||
			!strings.Contains(v.Text, " ms ") {
			t.Errorf("%v in the grace: %s", args, v)
		}
	}
	refused(two, "LOCK", lost, "TOKEN", "b")
	refused(two, "RLOCK", lost, "TOKEN", "b", "WAIT", "100")
	refused(one, "LOCK", "{grace}new", "TOKEN", "b")
	lockFor(t, two, "LOCK", other, "TOKEN", "b")
	two.Want(t, "(nil)", "LOCK", known, "TOKEN", "b")
	if v := two.Must(t, "RENEW", known, "a", "PX", "60000"); v.Int() <= 0 {
		t.Errorf("RENEW in the grace: %s", v)
	}
	two.Want(t, "(integer) 1", "UNLOCK", known, "a")

	var got time.Time
	rig.Eventually(t, 2*grace, "the grace to end", func() bool {
		v := two.Call(t, "LOCK", lost, "TOKEN", "b")
		got = time.Now()
		return !v.IsError() && len(v.Elems) == 4
	})
	if got.Before(until) {
		t.Errorf("a second holder %v before the end of the first one's ttl", until.Sub(got))
	}
	rig.Eventually(t, grace, "the grace of the other proxy to end", func() bool {
		return !one.Call(t, "LOCK", "{grace}new", "TOKEN", "b").IsError()
	})
}

// A Redis that comes back without its memory grants nothing for the grace, to nobody: neither to a proxy that
// knew it before nor to one that was started after it. R26
func TestFailoverGraceOfANewProxy(t *testing.T) {
	t.Parallel()
	const grace = 16 * time.Second
	redis := rig.StartRedis(t)
	args := []string{"--upstream", redis.Addr, "--lock-lease", "5s", "--lock-failover-grace", grace.String()}
	old := rig.Connect(t, rig.StartProxy(t, args...).Addr)
	granted := func(client *rig.Conn, token string) func() bool {
		return func() bool {
			return !client.Call(t, "LOCK", "forgotten", "TOKEN", token, "PX", "6000").IsError()
		}
	}
	rig.Eventually(t, 2*grace, "Redis to be old enough", granted(old, "a"))
	locked := time.Now()
	old.Want(t, "(integer) 1", "UNLOCK", "forgotten", "a")
	lockFor(t, old, "LOCK", "forgotten", "TOKEN", "a", "PX", "6000")

	redis.Restart(t)
	young := rig.Connect(t, rig.StartProxy(t, args...).Addr)
	for name, client := range map[string]*rig.Conn{"the old proxy": old, "the new one": young} {
		if v := client.Call(t, "LOCK", "forgotten", "TOKEN", "b"); !v.IsError() ||
			!strings.HasPrefix(v.Text, "TRYAGAIN ") {
			t.Errorf("%s: %s", name, v)
		}
	}
	rig.Eventually(t, 2*grace, "the grace to end", granted(young, "b"))
	if after := time.Since(locked); after < 6*time.Second {
		t.Errorf("a second holder %v after the first one was granted", after)
	}
}
