package proxy

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Clients that ask for many long replies at once hold up nobody else: nobody knows how long a reply is before
// it comes, but from then on others go round the connection. R33
func TestLongRepliesOfSomeHoldUpNobody(t *testing.T) {
	long := "$1000000\r\n" + strings.Repeat("x", 1_000_000) + "\r\n"
	var mu sync.Mutex
	served := 0 // long replies
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return served
	}
	inBubble(t, 1, Options{}, func(_ int, command string) string {
		if command != "GET long" {
			return "+" + command + "\r\n"
		}
		time.Sleep(time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		served++
		return long
	}, func(r *rig) {
		const greedy, each = 10, 16
		for range greedy {
			c := r.connect()
			c.send(slices.Repeat([]string{"GET long"}, each)...)
			go func() { // ends with the connection
				for buf := make([]byte, 1<<20); ; {
					if _, err := c.Read(buf); err != nil {
						return
					}
				}
			}()
		}
		time.Sleep(10 * time.Millisecond)
		c := r.connect()
		for i := range 20 {
			line := fmt.Sprintf("GET key%d", i)
			c.send(line)
			c.expect("+" + line + "\r\n")
		}
		if n := count(); n > greedy*each/4 {
			r.Errorf("20 short reads had to wait for %d of %d long ones", n, greedy*each)
		}
		// What was round the connection comes back to it, and nothing is left over.
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := r.server.workers[0].pool.StuckEpoch(); n != 0 || count() != greedy*each {
			r.Errorf("%d long replies of %d, epoch %d", count(), greedy*each, n)
		}
	})
}
