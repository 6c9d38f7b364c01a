package integration

import (
	"testing"
	"time"
)

// The harness proves itself: what it starts is what it says.
func TestTopologies(t *testing.T) {
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		s := startRedis(t)
		if got := s.info(t, "server", "redis_mode"); got != "standalone" {
			t.Errorf("redis_mode %q", got)
		}
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := startCluster(t, 3, 1)
		m := c.masterOf(t, "foo") // slot 12182
		if m != c.nodes[2] {
			t.Errorf("foo is on %s, not on the third master", m.addr)
		}
		if r := c.replicasOf(t, m); len(r) != 1 || r[0] != c.nodes[5] {
			t.Errorf("replicas of %s: %v", m.addr, r)
		}
		for _, key := range []string{"foo", "{foo}1", "{foo}2"} {
			m.do(t, "SET", key, key)
		}
		c.migrate(t, c.slotOf(t, "foo"), m, c.nodes[0], time.Millisecond)
		if got := c.nodes[0].do(t, "MGET", "foo", "{foo}1", "{foo}2").String(); got != `["foo", "{foo}1", "{foo}2"]` {
			t.Errorf("after the migration: %s", got)
		}
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		g := startSentinels(t)
		got := g.sentinels[0].do(t, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster").strings()
		if len(got) != 2 || got[0]+":"+got[1] != g.master.addr {
			t.Errorf("master %v, want %s", got, g.master.addr)
		}
	})
}
