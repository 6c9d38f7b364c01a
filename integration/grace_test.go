package integration

import (
	"strings"
	"testing"
	"time"
)

// The grace closes the gap of an asynchronous fail-over that TestFailoverLosesGrants shows: while
// a lease that the new master has never heard of may run, nobody else gets the lock; holds that
// it knows are renewed and freed, other shards go on. R26
func TestFailoverGrace(t *testing.T) {
	t.Parallel()
	const grace = 12 * time.Second
	c := startCluster(t, 3, 1)
	for _, m := range c.nodes[:c.masters] {
		m.follow(t, 1)
	}
	args := []string{"--upstream", c.addrs(), "--lock-lease", "10s", "--lock-failover-grace", grace.String()}
	one, two := connect(t, startProxy(t, args...).addr), connect(t, startProxy(t, args...).addr)
	const lost, known = "{grace}lost", "{grace}known"
	other := "elsewhere"
	for c.masterOf(t, other) == c.masterOf(t, lost) {
		other += "." // on another shard
	}
	// Both proxies have met both masters, which grant nothing before they are older than any lease may be.
	for _, client := range []*conn{one, two} {
		for _, name := range []string{lost, other} {
			eventually(t, 2*grace, "the masters to be old enough", func() bool {
				return !client.call(t, "LOCK", name, "TOKEN", "x").isError()
			})
			client.want(t, "(integer) 1", "UNLOCK", name, "x")
		}
	}
	one.granted(t, "LOCK", known, "TOKEN", "a", "PX", "60000", "SYNC", "1")
	var until time.Time
	c.loseWrites(t, lost, func() {
		began := time.Now()
		_, ttl := one.granted(t, "LOCK", lost, "TOKEN", "a", "PX", "10000")
		until = began.Add(ttl)
	})

	refused := func(client *conn, args ...string) {
		t.Helper()
		if v := client.call(t, args...); !v.isError() || !strings.HasPrefix(v.text, "TRYAGAIN ") || !strings.Contains(v.text, " ms ") {
			t.Errorf("%v in the grace: %s", args, v)
		}
	}
	refused(two, "LOCK", lost, "TOKEN", "b")
	refused(two, "RLOCK", lost, "TOKEN", "b", "WAIT", "100")
	refused(one, "LOCK", "{grace}new", "TOKEN", "b")
	two.granted(t, "LOCK", other, "TOKEN", "b")
	two.want(t, "(nil)", "LOCK", known, "TOKEN", "b")
	if v := two.must(t, "RENEW", known, "a", "PX", "60000"); v.int() <= 0 {
		t.Errorf("RENEW in the grace: %s", v)
	}
	two.want(t, "(integer) 1", "UNLOCK", known, "a")

	var got time.Time
	eventually(t, 2*grace, "the grace to end", func() bool {
		v := two.call(t, "LOCK", lost, "TOKEN", "b")
		got = time.Now()
		return !v.isError() && len(v.elems) == 4
	})
	if got.Before(until) {
		t.Errorf("a second holder %v before the end of the first one's ttl", until.Sub(got))
	}
	eventually(t, grace, "the grace of the other proxy to end", func() bool {
		return !one.call(t, "LOCK", "{grace}new", "TOKEN", "b").isError()
	})
}

// A Redis that comes back without its memory grants nothing for the grace, to nobody: neither to a proxy that knew it
// before nor to one that was started after it. R26
func TestFailoverGraceOfANewProxy(t *testing.T) {
	t.Parallel()
	const grace = 8 * time.Second
	redis := startRedis(t)
	args := []string{"--upstream", redis.addr, "--lock-lease", "5s", "--lock-failover-grace", grace.String()}
	old := connect(t, startProxy(t, args...).addr)
	granted := func(client *conn, token string) func() bool {
		return func() bool { return !client.call(t, "LOCK", "forgotten", "TOKEN", token, "PX", "6000").isError() }
	}
	eventually(t, 2*grace, "Redis to be old enough", granted(old, "a"))
	locked := time.Now()
	old.want(t, "(integer) 1", "UNLOCK", "forgotten", "a")
	old.granted(t, "LOCK", "forgotten", "TOKEN", "a", "PX", "6000")

	redis.restart(t)
	young := connect(t, startProxy(t, args...).addr)
	for name, client := range map[string]*conn{"the old proxy": old, "the new one": young} {
		if v := client.call(t, "LOCK", "forgotten", "TOKEN", "b"); !v.isError() || !strings.HasPrefix(v.text, "TRYAGAIN ") {
			t.Errorf("%s: %s", name, v)
		}
	}
	eventually(t, 2*grace, "the grace to end", granted(young, "b"))
	if after := time.Since(locked); after < 6*time.Second {
		t.Errorf("a second holder %v after the first one was granted", after)
	}
}
