//go:build !quick

package scripts_test

import (
	"fmt"
	"testing"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/scripts"
)

// The fence of a LOCK is what the clock of its proxy shows, unless that is more than ten seconds ahead of the
// last fence of the slot, or not ahead of it. Then it is what the clock of Redis shows. For the slot was not
// used for a while; or its last fences are lost, and may have come from a faster clock; or the clock of the
// proxy is wrong. However wrong it is, fences rise. R8
func TestClockOfTheProxy(t *testing.T) {
	s := rig.StartRedis(t)
	c := s.Connect()
	defer c.Close()
	keys := []string{rig.LockKey, fenceKey}
	ask := func(script scripts.Script, args ...string) resp.Value {
		reply, err := c.Do(evalSHA(script, keys, args...))
		if err != nil {
			t.Fatal(err)
		}
		v, _, _ := resp.Parse(reply)
		return v
	}
	for _, script := range []scripts.Script{scripts.Acquire, scripts.Release} {
		s.Ask("SCRIPT", "LOAD", script.Source)
	}
	for _, idle := range []time.Duration{0, 20 * time.Second, time.Hour, 1e5 * time.Hour} {
		for _, ahead := range []time.Duration{-2 * time.Hour, -time.Minute, -5 * time.Second,
			time.Millisecond, 5 * time.Second, time.Minute, 2 * time.Hour, 1e5 * time.Hour} {
			now := time.Now()
			last := now.Add(-idle).UnixMicro()
			s.Ask("SET", fenceKey, fmt.Sprintf("%016d", last))
			wanted := now.Add(ahead).UnixMicro()
			args := plainly(wanted, []string{"t", "60000", "w", randomID(), "0"})
			v := ask(scripts.Acquire, args...)
			fence, by := v.Int, "Redis"
			if v.Kind != ':' {
				t.Fatalf("LOCK: %s", textOf(v))
			}
			if fence == 1 {
				fence, by = wanted, "the proxy"
			}
			want := "Redis"
			if wanted > last && wanted-last <= 1e7 {
				want = "the proxy"
			}
			if by != want {
				t.Errorf("idle for %v, a clock %v ahead: the fence is that of %s", idle, ahead, by)
			}
			if stored := s.Ask("GETRANGE", fenceKey, "0", "15").Text(); fence <= last ||
				stored != fmt.Sprintf("%016d", fence) {
				t.Errorf("idle for %v, a clock %v ahead: the fence %d after %d, %s is stored",
					idle, ahead, fence, last, stored)
			}
			if by == "Redis" && (fence < now.UnixMicro() || fence > time.Now().UnixMicro()+1) {
				t.Errorf("idle for %v, a clock %v ahead: the fence is %d", idle, ahead, fence)
			}
			if v := ask(scripts.Release, "t", "", randomID(), "me", "PUBLISH", "grant"); v.Int != 1 {
				t.Fatalf("UNLOCK: %s", textOf(v))
			}
		}
	}
}

// A LOCK whose slot was not used for a while costs no more than the look at the clock of Redis.
func TestLockInAnIdleSlot(t *testing.T) {
	s := rig.StartRedis(t)
	c := s.Connect()
	defer c.Close()
	s.Ask("SCRIPT", "LOAD", scripts.Acquire.Source)
	s.Ask("CONFIG", "RESETSTAT")
	args := plainly(time.Now().UnixMicro(), []string{"t", "60000", "w", randomID(), "0"})
	keys := []string{rig.LockKey, fenceKey}
	if _, err := c.Do(evalSHA(scripts.Acquire, keys, args...)); err != nil {
		t.Fatal(err)
	}
	calls, _ := spent(t, s)
	want := map[string]float64{"evalsha": 1, "getrange": 1, "time": 1, "set": 1, "setrange": 1}
	if fmt.Sprint(calls) != fmt.Sprint(want) {
		t.Errorf("it calls %v, want %v", calls, want)
	}
}
