package scripts_test

import (
	"fmt"
	"testing"

	"lockproxy/internal/resp"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/scripts"
)

// A lock is released right after each grant, many times. Each of the last releases gets the same answer when
// it is sent again, and their number is bounded. R33
func TestReleasesOfALock(t *testing.T) {
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		c := s.Connect()
		defer c.Close()
		both := []string{rig.LockKey, rig.FenceKey}
		ask := func(script scripts.Script, args ...string) resp.Value {
			reply, err := c.Do(rig.EvalSHA(script, both, args...))
			if err != nil {
				t.Fatal(err)
			}
			v, _, _ := resp.Parse(reply)
			return v
		}
		const n = 100
		var fences [n]string
		release := func(i int, fence string) resp.Value {
			return ask(scripts.Release, "t", fence, fmt.Sprintf("u%015d", i), "me", "PUBLISH")
		}
		known := func(i int) {
			t.Helper()
			for j := max(0, i-31); j <= i; j++ {
				if v := release(j, fences[j]); rig.Text(v) != "1" {
					t.Fatalf("release %d, sent again after %d more: %s", j, i-j, rig.Text(v))
				}
			}
		}
		for i := range n {
			v := ask(scripts.Acquire, rig.Plainly(0, []string{"t", "60000", "w", rig.RandomID(), "0"})...)
			if fences[i] = fmt.Sprint(v.Int); v.Kind == '*' {
				fences[i] = fmt.Sprint(v.Elems[1].Int)
			}
			if v := release(i, fences[i]); rig.Text(v) != "1" {
				t.Fatalf("release %d: %s", i, rig.Text(v))
			}
			known(i)
		}
		if v := release(0, ""); !v.Null() {
			t.Errorf("the first one is known after %d more: %s", n, rig.Text(v))
		}
		if size := s.Ask("HSTRLEN", rig.LockKey, "a").Int; size > 640 {
			t.Errorf("%d bytes", size)
		}
		// A grant leaves the answers where they are, and no copy of a release frees it.
		ask(scripts.Acquire, rig.Plainly(0, []string{"t", "60000", "w", rig.RandomID(), "0"})...)
		known(n - 1)
		release(n-1, "")
		if s.Ask("HEXISTS", rig.LockKey, "w").Int != 1 {
			t.Error("a release that was sent again has freed a later hold")
		}
	})
}
