package rig

import (
	"strings"
	"testing"
	"time"
)

// The harness proves itself: what it starts is what it says.
func TestTopologies(t *testing.T) {
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		s := StartRedis(t)
		if got := s.Info(t, "server", "redis_mode"); got != "standalone" {
			t.Errorf("redis_mode %q", got)
		}
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := StartCluster(t, 3, 1)
		m := c.MasterOf(t, "foo") // slot 12182
		if m != c.Nodes[2] {
			t.Errorf("foo is on %s, not on the third master", m.Addr)
		}
		if r := c.ReplicasOf(t, m); len(r) != 1 || r[0] != c.Nodes[5] {
			t.Errorf("replicas of %s: %v", m.Addr, r)
		}
		for _, key := range []string{"foo", "{foo}1", "{foo}2"} {
			m.Do(t, "SET", key, key)
		}
		c.Migrate(t, c.SlotOf(t, "foo"), m, c.Nodes[0], time.Millisecond)
		if got := c.Nodes[0].Do(t, "MGET", "foo", "{foo}1",
			"{foo}2").String(); got != `["foo", "{foo}1", "{foo}2"]` {
			t.Errorf("after the migration: %s", got)
		}
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		g := StartSentinels(t)
		got := g.Sentinels[0].Do(t, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster").Strings()
		if len(got) != 2 || got[0]+":"+got[1] != g.Master.Addr {
			t.Errorf("master %v, want %s", got, g.Master.Addr)
		}
	})
}

// Each server is the one whose name it bears.
func TestProducts(t *testing.T) {
	fields := map[string]string{"redis": "redis_version", "valkey": "valkey_version"}
	for _, product := range Products {
		t.Run(product, func(t *testing.T) {
			t.Parallel()
			s := StartRedis(On(t, product))
			name, version := product[:len(product)-1], product[len(product)-1:]
			if got := s.Info(t, "server", fields[name]); product != "redis7" &&
				!strings.HasPrefix(got, version+".") {
				t.Errorf("%s %q", fields[name], got)
			}
		})
	}
}
