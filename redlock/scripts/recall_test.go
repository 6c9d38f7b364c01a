package scripts_test

import (
	"fmt"
	"testing"

	"lockproxy/internal/resp"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/scripts"
)

// Two locks of a slot are released right after each other, then many more. Each of the last releases gets
// the same answer when it is sent again, and their number is bounded. R33
func TestReleasesOfASlot(t *testing.T) {
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		c := s.Connect()
		defer c.Close()
		lock := func(i int) []string { return []string{fmt.Sprintf("lock:{job}%d", i), fenceKey} }
		ask := func(script scripts.Script, keys []string, args ...string) resp.Value {
			reply, err := c.Do(evalSHA(script, keys, args...))
			if err != nil {
				t.Fatal(err)
			}
			v, _, _ := resp.Parse(reply)
			return v
		}
		release := func(i int, fence string) resp.Value {
			return ask(scripts.Release, lock(i), "t", fence, fmt.Sprintf("u%015d", i), "me", "PUBLISH")
		}
		const n = 200
		var fences [n]string
		for i := range n {
			fences[i] = textOf(ask(scripts.Acquire, lock(i), "t", "60000", "w", randomID(), "0"))
		}
		known := func(i int) {
			t.Helper()
			for j := max(0, i-31); j <= i; j++ {
				if v := release(j, fences[j]); textOf(v) != "1" {
					t.Fatalf("release %d, sent again after %d more: %s", j, i-j, textOf(v))
				}
			}
		}
		for i := range n {
			if v := release(i, fences[i]); textOf(v) != "1" {
				t.Fatalf("release %d: %s", i, textOf(v))
			}
			known(i)
		}
		if v := release(0, ""); !v.Null() {
			t.Errorf("the first one is known after %d more: %s", n, textOf(v))
		}
		if size := s.Ask("STRLEN", fenceKey).Int; size > 1200 {
			t.Errorf("%d bytes", size)
		}
		// A grant leaves the answers where they are, and no copy of a release frees it.
		granted := textOf(ask(scripts.Acquire, lock(n-1), "t", "60000", "w", randomID(), "0"))
		if granted <= fences[n-1] {
			t.Errorf("the fence %s after %s", granted, fences[n-1])
		}
		known(n - 1)
		release(n-1, "")
		if s.Ask("EXISTS", lock(n - 1)[0]).Int != 1 {
			t.Error("a release that was sent again has freed a later hold")
		}
	})
}
