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
		s.Stop(t)
		time.Sleep(d)
		s.Signal(syscall.SIGCONT)
	},
}

// Ten waiters of two proxies, and a Redis that is away for longer than a proxy that is not heard counts as
// alive otherwise: while they wait, while the lease that they wait for ends, or in the middle of their
// hand-overs. Each of them is served, one at a time, and fences rise. R25
func TestQueueOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	queuesOutliveOutages(t, 1)
}

// queuesOutliveOutages has three queues outlive each outage some times, and returns the orders in which their
// waiters were served, by the names of the locks.
func queuesOutliveOutages(t *testing.T, rounds int) map[string][]int {
	t.Helper()
	orders := &servedOrders{all: make(map[string][]int)}
	for how, away := range outages {
		t.Run(how, func(t *testing.T) {
			s := rig.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
			proxies := []*rig.Proxy{
				rig.StartProxy(t, "--upstream", s.Addr, "--retry-budget", "60s"),
				rig.StartProxy(t, "--upstream", s.Addr, "--retry-budget", "60s"),
			}
			for round := range rounds {
				var group sync.WaitGroup
				queues := map[string]func(){}
				for _, when := range []string{"held", "lease over", "handed over"} {
					queues[when] = queued(t, proxies, fmt.Sprintf("%s %s %d", how, when, round), when, orders,
						&group)
				}
				queues["handed over"]()
				time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
				away(t, s, 3500*time.Millisecond+time.Duration(rand.IntN(1500))*time.Millisecond)
				queues["held"]()
				group.Wait()
			}
		})
	}
	return orders.all
}

// servedOrders are the waiters of locks in the order in which they were served.
type servedOrders struct {
	mu  sync.Mutex
	all map[string][]int
}

func (o *servedOrders) add(lock string, waiter int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all[lock] = append(o.all[lock], waiter)
}

// served is how many waiters of a lock were served.
func (o *servedOrders) served(lock string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.all[lock])
}

// queued makes a queue of ten waiters, who are served once free is called, or once the lease of the holder is
// over. group is done when all are.
func queued(t *testing.T, proxies []*rig.Proxy, lock, when string, orders *servedOrders,
	group *sync.WaitGroup) (free func()) {
	t.Helper()
	const waiters = 10
	holder, lease := rig.Connect(t, proxies[0].Addr), "600000"
	if when == "lease over" {
		lease = "4000"
	}
	holder.Must(t, "LOCK", lock, "TOKEN", "h", "PX", lease)
	w := &witness{}
	var each sync.WaitGroup
	for i := range waiters {
		p := proxies[i%len(proxies)]
		c := rig.Connect(t, p.Addr)
		c.Send("LOCK", lock, "TOKEN", fmt.Sprint(i), "PX", "600000", "WAIT", "600000")
		rig.Eventually(t, rig.Patience, fmt.Sprintf("%d wait for %s", i+1, lock), func() bool {
			_, n := rig.LockInfo(t, proxies[0].Addr, lock)
			return n == int64(i)+1 || orders.served(lock) > 0 // or the lease was over before all came
		})
		each.Go(func() {
			v, err := c.Receive(4 * rig.Patience)
			if err != nil || len(v.Elems) != 4 {
				t.Errorf("%s: waiter %d: %s %v", lock, i, v, err)
				return
			}
			w.enter(grant{client: i, fence: v.Elems[1].Int()})
			orders.add(lock, i)
			time.Sleep(10 * time.Millisecond)
			if v, err := c.Do("UNLOCK", lock, fmt.Sprint(i)); err != nil || v.Text != "1" {
				t.Errorf("%s: UNLOCK of %d: %s %v", lock, i, v, err)
			}
		})
	}
	group.Go(func() {
		each.Wait()
		w.check(t, waiters)
	})
	return func() { holder.Want(t, "(integer) 1", "UNLOCK", lock, "h") }
}
