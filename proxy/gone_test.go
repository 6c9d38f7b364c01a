package proxy

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Drain waits for a lock that is on its way to a client which has gone, and gives it back.
func TestDrainGivesBackWhatNobodyGets(t *testing.T) {
	inBubble(t, 1, Options{}, func(node int, command string) string {
		if strings.HasPrefix(command, "EVALSHA") {
			time.Sleep(100 * time.Millisecond)
			return nodeGrant
		}
		return echo(node, command)
	}, func(r *rig) {
		c := r.connect()
		c.send("LOCK job")
		synctest.Wait()
		r.on(func() { r.sessionOf(1).conn.Close() }) // as for a reset
		if err := r.server.Drain(r.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if n := strings.Count(r.commands(), "EVALSHA"); n != 2 {
			t.Errorf("%d scripts were run, want two: one that takes the lock, one that gives it back", n)
		}
	})
}
