package server

import (
	"testing"

	"lockproxy/commands"
	"lockproxy/redlock/locks"
)

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
		ours := []infoSection{{title: "Clients"}}
		setBlockedClients(ours, parseInfo(test.upstream), test.facts)
		for _, s := range ours {
			if s.title == "Clients" && s.valueOf("blocked_clients") != test.want {
				t.Errorf("%+v: %s", test, s.valueOf("blocked_clients"))
			}
		}
	}
}
