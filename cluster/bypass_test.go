package cluster

import (
	"testing"
	"testing/synctest"
	"time"
)

// A script may run for longer than PipeOptions.Timeout, also one that had to wait for its node, or that another
// script kept from running.
func TestLongScripts(t *testing.T) {
	const timeout, long = 2 * time.Second, 5 * time.Second
	for name, test := range map[string]struct {
		scripts uint32
		want    []string
		loading bool // at first
	}{
		"waited":         {1, []string{`0 ":1\r\n"`}, true},
		"behind another": {2, []string{`0 ":1\r\n"`, `1 ":1\r\n"`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				a := &script{answer: func(command string) string {
					if command == "PING" {
						return "-BUSY Redis is busy running a script.\r\n"
					}
					if test.loading && time.Since(began) < 200*time.Millisecond {
						return "-LOADING Redis is loading the dataset in memory\r\n"
					}
					time.Sleep(long)
					return ":1\r\n"
				}}
				r := newRig(t, PipeOptions{Timeout: timeout}, map[string]*script{"a:1": a})
				var k keeper
				r.own(func() {
					for tag := range test.scripts {
						r.pipes.WatchScripts()
						r.pipes.Send(7, Mode{Proto: 2}, command("EVAL", "return_1", "0"), &k, tag, false)
					}
				})
				time.Sleep(3 * long)
				synctest.Wait()
				k.want(t, "scripts", test.want...)
			})
		})
	}
}
