package faults

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// outages are how a Redis is away for a while, and comes back with what is on its disk.
var outages = map[string]func(t *testing.T, s *rig.Server, d time.Duration){
	"restarted": func(t *testing.T, s *rig.Server, d time.Duration) {
		s.Kill()
		time.Sleep(d)
		s.Restart(t)
	},
	"stopped": func(t *testing.T, s *rig.Server, d time.Duration) {
		s.Signal(syscall.SIGSTOP)
		time.Sleep(d)
		s.Signal(syscall.SIGCONT)
	},
}

// Ten waiters of two proxies, and a Redis that is away for longer than a proxy that is not heard counts as
// alive otherwise: while they wait, while the lease that they wait for ends, or in the middle of their
// hand-overs. They are served in the order in which they came. R25
func TestQueueOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	for how, away := range outages {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := rig.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
			proxies := []*rig.Proxy{
				rig.StartProxy(t, "--upstream", s.Addr, "--retry-budget", "60s"),
				rig.StartProxy(t, "--upstream", s.Addr, "--retry-budget", "60s"),
			}
			for round := range rig.Dose(2, 20) {
				var group sync.WaitGroup
				queues := map[string]func(){}
				for _, when := range []string{"held", "lease over", "handed over"} {
					queues[when] = queued(t, proxies, fmt.Sprintf("%s %d", when, round), when, &group)
				}
				queues["handed over"]()
				time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
				away(t, s, 3500*time.Millisecond+time.Duration(rand.IntN(1500))*time.Millisecond)
				back := time.Now()
				queues["held"]()
				group.Wait()
				t.Logf("all served %v after it is back", time.Since(back))
			}
		})
	}
}

// queued makes a queue of ten waiters, who are served once free is called, or once the lease of the holder is
// over. Each of them notes when it is served; group is done when all are, and that was in order.
func queued(t *testing.T, proxies []*rig.Proxy, lock, when string, group *sync.WaitGroup) (free func()) {
	const waiters = 10
	holder, lease := rig.Connect(t, proxies[0].Addr), "60000"
	if when == "lease over" {
		lease = "4000"
	}
	holder.Must(t, "LOCK", lock, "TOKEN", "h", "PX", lease)
	var mu sync.Mutex
	var order []int
	var each sync.WaitGroup
	for i := range waiters {
		p := proxies[i%len(proxies)]
		c := rig.Connect(t, p.Addr)
		c.Send("LOCK", lock, "TOKEN", fmt.Sprint(i), "PX", "30000", "WAIT", "60000")
		rig.WaitersOf(t, proxies[0].Addr, lock, int64(i)+1)
		each.Go(func() {
			v, err := c.Receive(time.Minute)
			if err != nil || len(v.Elems) != 4 {
				t.Errorf("%s: waiter %d: %s %v", lock, i, v, err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			if v, err := c.Do("UNLOCK", lock, fmt.Sprint(i)); err != nil || v.Text != "1" {
				t.Errorf("%s: UNLOCK of %d: %s %v", lock, i, v, err)
			}
		})
	}
	group.Go(func() {
		each.Wait()
		for n, i := range order {
			if n != i {
				t.Errorf("%s: served in the order %v", lock, order)
				return
			}
		}
	})
	return func() { holder.Want(t, "(integer) 1", "UNLOCK", lock, "h") }
}
