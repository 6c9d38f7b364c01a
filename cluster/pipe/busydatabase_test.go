package pipe

import (
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/scripted"
)

// A script in another database than 0 may run for longer than Options.Timeout, too. Meanwhile the node
// refuses SELECT on a new connection, with BUSY, and others get that.
func TestLongScriptInDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const busy = "BUSY Redis is busy running a script."
		a := &scripted.Node{Answer: func(command string) string {
			time.Sleep(20 * time.Second)
			return ":1\r\n"
		}}
		r := newRig(t, Options{Timeout: 2 * time.Second}, map[string]*scripted.Node{"a:1": a})
		var script, other keeper
		mode := Mode{Proto: 2, DB: 3}
		r.own(func() {
			r.pool.WatchScripts()
			r.send(mode, &script, 1, false, "EVAL", "return_1", "0")
		})
		r.mu.Lock()
		r.refusal = cluster.NodeError{Addr: "a:1", Err: &cluster.ModeError{Text: busy}}
		r.mu.Unlock()
		time.Sleep(time.Second)
		mode.Second = true
		r.own(func() { r.send(mode, &other, 2, true, "GET", "k") })
		time.Sleep(30 * time.Second)
		synctest.Wait()
		script.want(t, "script", `1 ":1\r\n"`)
		other.want(t, "beside it", `2 "-`+busy+`\r\n"`)
	})
}
