package rig

import "testing"

// A cluster that a test leaves as it was serves the next one, empty; one with another setting does not.
func TestClustersAreLent(t *testing.T) {
	var first, second *Cluster
	t.Run("as it was", func(t *testing.T) {
		first = StartCluster(t, 3, 0)
		first.MasterOf(t, "k").Do(t, "SET", "k", "v")
	})
	t.Run("lent again", func(t *testing.T) {
		second = StartCluster(t, 3, 0)
		if second.Nodes[0].Addr != first.Nodes[0].Addr {
			t.Errorf("another cluster: %s, then %s", first.Addrs(), second.Addrs())
		}
		if v := second.MasterOf(t, "k").Do(t, "EXISTS", "k"); v.Int() != 0 {
			t.Errorf("it has a key of the test before")
		}
		second.Nodes[1].Do(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	})
	t.Run("changed", func(t *testing.T) {
		if third := StartCluster(t, 3, 0); third.Nodes[0].Addr == second.Nodes[0].Addr {
			t.Errorf("a cluster with another setting is lent")
		}
		if !second.Nodes[0].Ended() {
			t.Errorf("nobody has ended it")
		}
	})
}
