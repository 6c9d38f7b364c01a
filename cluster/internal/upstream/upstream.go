// Package upstream finds what real servers are, for the tests of the packages below cluster.
package upstream

import (
	"context"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"lockproxy/cluster/discovery"
	"lockproxy/cluster/internal/servers"
)

// Find is the upstream at o, which runs until the test ends and leaves nothing behind. A test that cannot
// find it ends. It logs to the test.
func Find(t *testing.T, o discovery.Options) *discovery.Upstream {
	t.Helper()
	before := goleak.IgnoreCurrent()
	o.Log = servers.Log(t)
	ctx, cancel := context.WithTimeout(t.Context(), servers.Patience)
	defer cancel()
	u, err := discovery.Find(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { u.Run(running) })
	t.Cleanup(func() {
		stop()
		wg.Wait()
		servers.GoroutinesEnd(t, before)
	})
	return u
}
