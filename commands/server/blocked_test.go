package server

import (
	"testing"
	"time"

	"lockproxy/cluster"
	"lockproxy/commands"
	"lockproxy/redlock/locks"
)

// server is one that does not say what it is.
type server struct{ commands.Server }

func (server) Upstream() cluster.Server { return cluster.Server{} }
func (server) ClusterMode() bool        { return false }

// TestBlockedClients: no more are said to be blocked than the nodes know of.
func TestBlockedClients(t *testing.T) {
	for _, test := range []struct {
		facts    commands.Facts
		upstream string
		want     string
	}{
		{commands.Facts{Stats: commands.Stats{Blocked: 3, Locks: locks.Stats{locks.Waiters: 2}}},
			"# Clients\r\nblocked_clients:9\r\n", "5"},
		{commands.Facts{Stats: commands.Stats{Blocked: 3, Locks: locks.Stats{locks.Waiters: 2}}},
			"# Clients\r\nblocked_clients:1\r\n", "3"},
		{commands.Facts{Stats: commands.Stats{Blocked: 3}}, "# Clients\r\nconnected_clients:1\r\n", "3"},
	} {
		test.facts.Blocked = blockedAt(parseInfo(test.upstream), test.facts.Blocked)
		for _, s := range proxyInfo(test.facts, server{}, time.Now()) {
			if s.title == "Clients" && s.valueOf("blocked_clients") != test.want {
				t.Errorf("%+v: %s", test, s.valueOf("blocked_clients"))
			}
		}
	}
}
