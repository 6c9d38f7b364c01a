package pipe

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/scripted"
)

// A script may run for longer than Options.Timeout, also one that had to wait for its node, or for another
// script.
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
				a := &scripted.Node{Answer: func(command string) string {
					if command == "PING" {
						return "-BUSY Redis is busy running a script.\r\n"
					}
					if test.loading && time.Since(began) < 200*time.Millisecond {
						return "-LOADING Redis is loading the dataset in memory\r\n"
					}
					time.Sleep(long)
					return ":1\r\n"
				}}
				r := newRig(t, Options{Timeout: timeout}, map[string]*scripted.Node{"a:1": a})
				var k keeper
				r.own(func() {
					for tag := range test.scripts {
						r.pool.WatchScripts()
						r.send(Mode{Proto: 2}, &k, tag, false, "EVAL", "return_1", "0")
					}
				})
				time.Sleep(3 * long)
				synctest.Wait()
				k.want(t, "scripts", test.want...)
			})
		})
	}
}

// Requests over a second pipe, past a script, stay in their order if they are redirected, also if another
// script keeps their new node busy between two of them: the later one does not go past that script.
func TestRedirectedApartStaysInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var count atomic.Int64
		r := newRig(t, Options{Timeout: time.Minute}, map[string]*scripted.Node{
			"a:1": {Answer: func(command string) string {
				switch command {
				case "EVAL script 0":
					time.Sleep(10 * time.Second)
					return ":1\r\n"
				case "GET k":
					time.Sleep(500 * time.Millisecond)
				}
				return "-MOVED 7 b:1\r\n"
			}},
			"b:1": {Answer: func(command string) string {
				switch command {
				case "INCR k":
					time.Sleep(time.Second) // it reads this connection late
					return fmt.Sprintf(":%d\r\n", count.Add(1))
				case "GET k":
					return fmt.Sprintf(":%d\r\n", count.Load())
				}
				return ":1\r\n"
			}},
		})
		var k keeper
		r.on(func() {
			r.pool.WatchScripts()
			r.send(Mode{Proto: 2}, &k, 0, false, "EVAL", "script", "0")
		})
		time.Sleep(200 * time.Millisecond)
		r.on(func() {
			if r.pool.StuckEpoch() == 0 {
				t.Error("the script keeps nobody waiting")
			}
			r.send(Mode{Proto: 2, Second: true}, &k, 1, false, "INCR", "k")
			r.send(Mode{Proto: 2, Second: true}, &k, 2, true, "GET", "k")
		})
		time.Sleep(100 * time.Millisecond)
		r.on(func() {
			r.pool.Send(&Request{
				Target: ToNode("b:1"), Mode: Mode{Proto: 2}, Bytes: command("EVAL", "script", "0"),
				To: &k, Tag: 3,
			})
		})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		k.want(t, "replies", `1 ":1\r\n"`, `3 ":1\r\n"`, `2 ":1\r\n"`, `0 ":1\r\n"`)
	})
}
