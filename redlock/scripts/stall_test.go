//go:build !quick

package scripts_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/internal/slot"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/scripts"
)

// stalled is a script in which the server stands still for a time in front of the first occurrence of code.
// Newer servers tell a script one time from its beginning to its end, so there a number of calls ends it.
func stalled(t *testing.T, s scripts.Script, code string, d time.Duration) string {
	t.Helper()
	before, after, ok := strings.Cut(s.Source, code)
	if !ok {
		t.Fatalf("%s has no %s", s.Name, code)
	}
	return before + fmt.Sprintf(`do
  local function us() local c = redis.call('TIME') return c[1] * 1000000 + c[2] end
  local over = us() + %d
  for _ = 1, 500000 do
    if us() >= over then break end
  end
end
`, d.Microseconds()) + code + after
}

// A server may stand still in the middle of a script, on a busy machine, while a plain lock becomes one with
// a queue. It does not lose the key, and then report it as foreign; nor does it cut the lease short.
func TestServerStandsStillInAScript(t *testing.T) {
	s := rig.StartRedis(t)
	fence := "lock:fence:{" + slot.Tag(slot.Of([]byte(rig.LockKey))) + "}"
	acquire := func(source, token, lease, id string) string {
		args := plainly(lowClock,
			[]string{token, lease, "w", id, "0", "proxy", "300", "100", "PUBLISH", "", "", ""})
		return textOf(s.Ask(append([]string{"EVAL", source, "2", rig.LockKey, fence}, args...)...))
	}
	for _, code := range []string{
		"redis.call(unpack(moves and",
		"redis.call('HSET', key, 'v', '1', 'o', owner",
	} {
		source := stalled(t, scripts.Acquire, code, 150*time.Millisecond)
		s.Ask("DEL", rig.LockKey)
		acquire(scripts.Acquire.Source, "a", "60000", randomID())
		s.Ask("PEXPIRE", rig.LockKey, "50")
		if got := acquire(source, "b", "200", randomID()); strings.Contains(got, "LOCKTYPE") {
			t.Errorf("before %s: %s", code, got)
		}
	}
	source := stalled(t, scripts.Acquire, "local left = redis.call('PTTL', key)", 150*time.Millisecond)
	s.Ask("DEL", rig.LockKey)
	ends := time.Now().Add(time.Minute).Truncate(time.Millisecond)
	got := acquire(scripts.Acquire.Source, "a", "60000", randomID())
	if !strings.HasPrefix(got, "1") {
		t.Fatal(got)
	}
	acquire(source, "b", "200", randomID())
	hold, _, _ := strings.Cut(s.Ask("HGET", rig.LockKey, "w").Text(), " ")
	if e := time.UnixMilli(rig.Integer(hold)); e.Before(ends) {
		t.Errorf("the lease ends %v early", ends.Sub(e))
	}
}
