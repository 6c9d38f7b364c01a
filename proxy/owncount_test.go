package proxy

import "testing"

// What no node was asked for stands in the statistics of the proxy; MULTI, which a node gets too, does not.
func TestOwnCount(t *testing.T) {
	inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
		c := r.connect()
		c.send("MULTI", "SET foo 1", "CLIENT UNPAUSE", "EXEC", "CLIENT UNPAUSE", "CLIENT KILL ID 99")
		c.expect(ok + queuedOK + queuedOK + "*2\r\n+OK\r\n+OK\r\n" + ok + ":0\r\n")
		calls := map[string]uint64{}
		for _, o := range (commandsServer{r.server}).OwnStats().Commands() {
			calls[o.Name] = o.Calls
		}
		for name, want := range map[string]uint64{"multi": 0, "set": 0, "exec": 0, "client|unpause": 1,
			"client|kill": 1} {
			if calls[name] != want {
				t.Errorf("%s: %d calls, want %d", name, calls[name], want)
			}
		}
	})
}
