package pipe

import (
	"testing"
	"time"

	"lockproxy/internal/scripted"
)

// TestPrivatePausedEnd proves that replies which came before the end of a connection are passed on, although
// nothing was read of it at that time.
func TestPrivatePausedEnd(t *testing.T) {
	inOwnBubble(t, Options{}, func(t *testing.T, r *rig, node *scripted.Node) {
		var k keeper
		o := r.private(&k, setup("ONE"))
		r.own(func() { r.send(ModeOf(o), &k, 1, false, "GET") })
		k.want(t, "connected", `1 "+OK\r\n"`)
		r.own(func() {
			o.Pause(true)
			r.send(ModeOf(o), &k, 2, false, "SET")
			r.send(ModeOf(o), &k, 3, false, "CUT")
		})
		time.Sleep(time.Second)
		r.own(func() { o.Pause(false) })
		k.want(t, "ended", `2 "+OK\r\n"`, "3 unknown", "stale")
	})
}
