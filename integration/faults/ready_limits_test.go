//go:build limits

package faults

import (
	"fmt"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// Once a master has been away for longer than max-wait a command waits for it briefly; the first that can
// be served is.
func TestLimitKnownOutageIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	const most = 4 * time.Second
	s := rig.StartRedis(t)
	p := rig.StartProxy(t, "--upstream", s.Addr, "--retry-budget", "1s", "--max-wait", most.String())
	c := rig.Connect(t, p.Addr)
	c.Want(t, "OK", "SET", "k", "v")
	s.Kill()
	readyz(t, p, 503, s.Addr)
	time.Sleep(most + time.Second)
	for _, words := range outageCommands {
		rig.Eventually(t, 2*rig.Patience, fmt.Sprint(words, " does not wait"), func() bool {
			began := time.Now()
			v := c.Call(t, words...)
			took := time.Since(began)
			t.Logf("%v: %s after %v", words, v, took)
			if !v.IsError("CLUSTERDOWN") {
				t.Errorf("%v: %s", words, v)
			}
			return took < most/2
		})
	}
}
