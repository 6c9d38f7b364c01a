package proxy

import (
	"testing"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
)

// No command ends the proxy while no master is known: its client is told, or waits for one.
func TestCommandsWithoutAnyMaster(t *testing.T) {
	o := Options{Pipes: pipe.Options{Budget: time.Second}}
	inBubble(t, 2, o, trackingNode(echo), func(r *rig) {
		r.on(func() {
			r.topology = &cluster.Topology{Version: r.topology.Version + 1, Kind: cluster.Cluster}
			r.server.workers[0].pool.Update()
		})
		for _, line := range []string{
			"CONFIG GET maxmemory", "CONFIG SET maxmemory 1", "SLOWLOG GET", "RANDOMKEY", "SCAN 0", "DBSIZE",
			"WAIT 1 0", "BLPOP b 1", "EXEC",
			"PUBSUB NUMSUB a", "PUBSUB NUMPAT", "CLIENT TRACKING ON BCAST", "PUBLISH a b", "INFO",
			"FUNCTION STATS", "SCRIPT LOAD x", "MEMORY DOCTOR",
			"LATENCY RESET", "LOCK job", "LOCKCTL LIST", "LOCKCTL STATS", "SUBSCRIBE x", "MGET a b",
			"EVAL x 0", "CLUSTER SLOTS", "COMMAND GETKEYS get x",
		} {
			c := r.connect()
			c.send(line)
			c.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := c.r.ReadString('\n'); err != nil {
				t.Errorf("%s: %v", line, err)
			}
			c.Close()
		}
	})
}
