package discovery_test

import (
	"testing"

	"github.com/alicebob/miniredis/v2"

	"lockproxy/cluster"
	"lockproxy/cluster/discovery"
	"lockproxy/cluster/internal/upstream"
)

// The Redis in the process does not answer INFO server.
func TestDiscoverMiniredis(t *testing.T) {
	m := miniredis.RunT(t)
	u := upstream.Find(t, discovery.Options{Addrs: []string{m.Addr()}})
	if top := u.Topology(); top.Kind != cluster.Single || top.Slots[1].Addr != m.Addr() ||
		top.Server.ShardChannels {
		t.Errorf("%v at %+v, sharded %v", top.Kind, top.Slots[1], top.Server.ShardChannels)
	}
	command, err := u.Command(t.Context())
	if err != nil || len(command) == 0 {
		t.Errorf("%d bytes, %v", len(command), err)
	}
}
