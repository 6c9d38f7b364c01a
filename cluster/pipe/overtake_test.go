package pipe

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/scripted"
	"lockproxy/internal/slot"
)

// A request that is redirected does not overtake an earlier one of its slot that waits, even if the node
// that both are sent to becomes known between their replies.
func TestRedirectedStayInOrder(t *testing.T) {
	of := slot.Of([]byte("k"))
	moved := fmt.Sprintf("-MOVED %d ", of)
	for name, test := range map[string]struct {
		write  []string // the first request
		reply  string   // of the old node to it
		target string   // of the redirect
	}{
		"of a node that is not known yet": {
			write: []string{"INCR", "k"}, reply: moved + "c:1\r\n", target: "c:1",
		},
		"of a node that is down": {
			write: []string{"INCR", "k"}, reply: "-CLUSTERDOWN The cluster is down\r\n", target: "c:1",
		},
		"of a script whose error is in doubt": {
			write: []string{"EVAL", "incr", "1", "k"}, reply: moved + "b:1\r\n", target: "b:1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var count atomic.Int64
				next := &scripted.Node{Answer: func(command string) string {
					if strings.HasPrefix(command, "GET") {
						return fmt.Sprintf(":%d\r\n", count.Load())
					}
					return fmt.Sprintf(":%d\r\n", count.Add(1))
				}}
				write := strings.Join(test.write, " ")
				r := newRig(t, Options{}, map[string]*scripted.Node{"b:1": next, "c:1": next, "a:1": {
					Answer: func(command string) string {
						switch command {
						case write:
							return test.reply
						case "GET k":
							time.Sleep(2 * time.Millisecond) // it reads this one later
						default: // what it is asked about the script
							time.Sleep(50 * time.Millisecond)
						}
						return moved + test.target + "\r\n"
					},
				}})
				var k keeper
				r.on(func() {
					r.pool.Send(&Request{
						Target: ToSlot(of), Mode: Mode{Proto: 2}, Bytes: command(test.write...), To: &k,
					})
					r.pool.Send(&Request{
						Target: ToSlot(of), Mode: Mode{Proto: 2}, Bytes: command("GET", "k"),
						To: &k, Tag: 1, Resend: true,
					})
				})
				time.Sleep(time.Millisecond)
				r.mu.Lock()
				r.topology = oneMaster(test.target, 2)
				r.mu.Unlock()
				r.on(r.pool.Update)
				time.Sleep(time.Second)
				synctest.Wait()
				k.want(t, "replies", `0 ":1\r\n"`, `1 ":1\r\n"`)
			})
		})
	}
}
