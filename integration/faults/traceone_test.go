package faults

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"lockproxy/integration/rig"
	"lockproxy/integration/trace"
)

// The traces of TestTraces over one Redis, which is stopped and whose connections are cut, and over a
// Sentinel group, whose replica takes over. R2 R5 R8 R14 R25 R29 R31
func TestTracesOfOneMaster(t *testing.T) {
	t.Parallel()
	t.Run("one Redis", func(t *testing.T) {
		t.Parallel()
		s := rig.StartRedis(rig.On(t, *traceServer))
		s.Link = rig.StartLink(t, s.Addr)
		two := startTraced(t, "--upstream", s.Link.Addr(), "--upstream-timeout", "2s")
		takeTraces(t, 1, append(two.faults(), []fault{
			{"SCRIPT FLUSH", 500 * time.Millisecond, 0, false,
				func(*rand.Rand, *trace.Running, *trace.Event) { s.Do(t, "SCRIPT", "FLUSH") }},
			{"Redis stopped", 2 * time.Second, time.Second, true,
				func(random *rand.Rand, _ *trace.Running, _ *trace.Event) {
					stop(s.Process, between(random, 100*time.Millisecond, 1200*time.Millisecond))
				}},
			{"connections cut", time.Second, 500 * time.Millisecond, true,
				func(random *rand.Rand, _ *trace.Running, _ *trace.Event) {
					for range 3 {
						s.Link.Cut()
						time.Sleep(between(random, time.Millisecond, 200*time.Millisecond))
					}
				}},
		}...), two.round)
	})
	t.Run("Sentinel", func(t *testing.T) {
		t.Parallel()
		g := rig.StartSentinels(rig.On(t, *traceServer))
		two := startTraced(t, "--upstream", g.Addrs(), "--upstream-timeout", "2s")
		takeTraces(t, 1, append(two.faults(), fault{"fail-over by Sentinel", liveness,
			5 * time.Second, true, func(_ *rand.Rand, r *trace.Running, e *trace.Event) {
				e.Loses = r.Keys
				g.Sentinels[0].Do(t, "SENTINEL", "FAILOVER", "mymaster")
				g.Promoted(t)
				for _, s := range g.Sentinels { // no fail-over just because the machine is busy
					s.Do(t, "SENTINEL", "SET", "mymaster", "down-after-milliseconds", "3600000")
				}
				g.Master, g.Replica = g.Replica, g.Master
				rig.Eventually(t, 2*rig.Patience, "the former master is the replica", func() bool {
					v, err := rig.Ask(g.Replica.Addr, "INFO", "replication")
					return err == nil && rig.InfoField(v.Text, "master_link_status") == "up"
				})
				rig.Eventually(t, 2*rig.Patience, "all sentinels know the new master", func() bool {
					for _, s := range g.Sentinels {
						m := s.Do(t, "SENTINEL", "MASTER", "mymaster")
						if m.Field("num-slaves").Text != "1" || m.Field("flags").Text != "master" ||
							m.Field("port").Text != strconv.Itoa(g.Master.Port) {
							return false
						}
					}
					return true
				})
			}}), two.round)
	})
}
