package redlock

import (
	"fmt"
	"testing"

	"lockproxy/internal/resp"
	"lockproxy/redlock/scripts"
)

// Two locks of a slot are released one right after the other, and many more: each of the last releases is
// answered the same when it is sent again, and what is known of them has a bound. R33
func TestReleasesOfASlot(t *testing.T) {
	everywhere(t, func(t *testing.T, s *server) {
		c := s.connect()
		defer c.Close()
		lock := func(i int) []string { return []string{fmt.Sprintf("lock:{job}%d", i), fenceKey} }
		ask := func(script scripts.Script, keys []string, args ...string) resp.Value {
			reply, err := c.do(eval(script, keys, args...))
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
			fences[i] = text(ask(scripts.Acquire, lock(i), "t", "60000", "w", newID(), "0"))
		}
		known := func(i int) {
			t.Helper()
			for j := max(0, i-31); j <= i; j++ {
				if v := release(j, fences[j]); text(v) != "1" {
					t.Fatalf("release %d, sent again after %d more: %s", j, i-j, text(v))
				}
			}
		}
		for i := range n {
			if v := release(i, fences[i]); text(v) != "1" {
				t.Fatalf("release %d: %s", i, text(v))
			}
			known(i)
		}
		if v := release(0, ""); !v.Null() {
			t.Errorf("the first one is known after %d more: %s", n, text(v))
		}
		if size := s.ask("STRLEN", fenceKey).Int; size > 1200 {
			t.Errorf("%d bytes", size)
		}
		// A grant leaves them where they are, and none of them frees it.
		granted := text(ask(scripts.Acquire, lock(n-1), "t", "60000", "w", newID(), "0"))
		if granted <= fences[n-1] {
			t.Errorf("the fence %s after %s", granted, fences[n-1])
		}
		known(n - 1)
		release(n-1, "")
		if s.ask("EXISTS", lock(n - 1)[0]).Int != 1 {
			t.Error("a release that was sent again has freed a later hold")
		}
	})
}
