package transcripts

import (
	"testing"

	"lockproxy/integration/rig"
)

// LOCKCTL WATCH at one proxy, in front of each kind of upstream, and across proxies.
func TestLockEvents(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) string{
		"single":  func(t *testing.T) string { return rig.StartRedis(t).Addr },
		"cluster": func(t *testing.T) string { return rig.StartCluster(t, 3, 0).Addrs() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := start(t)
			p := rig.StartProxy(t, "--upstream", upstream, "--lock-events", "yes")
			playFile(t, "testdata/lockctl-watch.txt", "events", p.Addr)
			w := rig.Connect(t, p.Addr)
			w.Want(t, "OK", "LOCKCTL", "WATCH", "MATCH", "shared*")
			other := rig.StartProxy(t, "--upstream", upstream, "--lock-events", "yes")
			c := rig.Connect(t, other.Addr)
			c.Must(t, "LOCK", "shared", "TOKEN", "t")
			c.Must(t, "UNLOCK", "shared", "t")
			for _, kind := range []string{"granted", "released"} {
				v, err := w.Receive(rig.Patience)
				for err == nil && len(v.Elems) == 3 && v.Elems[1].Text == "missed" {
					v, err = w.Receive(rig.Patience) // what was before the proxy heard of events
				}
				if err != nil || len(v.Elems) != 3 || v.Elems[1].Text != kind ||
					v.Elems[2].Elems[1].Text != "shared" {
					t.Errorf("%s: %s %v", kind, v.String(), err)
				}
			}
		})
	}
	t.Run("dev", func(t *testing.T) {
		t.Parallel()
		playFile(t, "testdata/lockctl-watch.txt", "events",
			rig.StartProxy(t, "--dev", "--lock-events", "yes").Addr)
	})
}
