package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"lockproxy/integration/rig"
)

// crowd are connections that keep many holds alive, and wait for many locks, while a master dies.
type crowd struct {
	s       *scene
	keepers []*rig.Conn // each keeps as many holds
	holds   int         // of each
	locks   int         // of the owner; as many connections as there are keepers wait for each

	owner, listener *rig.Conn

	mu      sync.Mutex
	granted map[string]int // by waiter and lock
	failed  map[string]int // by what the message said
	last    time.Duration  // when the latest of them came
}

const connections = 100 // that keep holds, and as many that wait

// gather takes very many holds, and queues waiters.
func gather(s *scene) {
	c := &crowd{s: s, holds: 1000, locks: 100, granted: map[string]int{}, failed: map[string]int{}}
	if s.quick {
		c.holds, c.locks = 100, 10
	}
	s.crowd = c
	c.gather()
	if lost, such := c.lost(); lost > 0 {
		s.Fatalf("this machine is too slow for so many holds: %d of %d were lost before anything "+
			"happened to a node, such as %s", lost, connections*c.holds, such)
	}
}

// killUnderHolds kills a master under them. Each hold must outlive it, and each waiter must get its lock in
// the end, once.
func killUnderHolds(s *scene) {
	c := s.crowd
	s.master.Kill()
	s.promotion()
	time.Sleep(2 * time.Second)
	lost, such := c.lost()
	s.note("%d of %d kept holds were lost", lost, connections*c.holds)
	if lost > 0 {
		s.Errorf("%d of %d kept holds were lost, such as %s", lost, connections*c.holds, such)
	}
	c.drain()
}

func (c *crowd) connect(i int) *rig.Conn {
	return rig.Connect(c.s, c.s.proxies[i%len(c.s.proxies)].Addr)
}

// gather takes the holds, and queues the waiters: for locks of the owner, and told over the listener.
func (c *crowd) gather() {
	holding := func(v rig.Reply) bool { return len(v.Elems) == 4 }
	queued := func(v rig.Reply) bool { return v.Text == "QUEUED" }
	var taken sync.WaitGroup
	for i := range connections {
		keeper := c.connect(i)
		c.keepers = append(c.keepers, keeper)
		taken.Go(func() {
			c.each(keeper, c.holds, holding, func(k int) string {
				return fmt.Sprintf("LOCK kept:%d:%d TOKEN keeper KEEPALIVE", i, k)
			})
		})
	}
	taken.Wait()
	c.owner, c.listener = c.connect(0), c.connect(1)
	c.each(c.owner, c.locks, holding,
		func(k int) string { return fmt.Sprintf("LOCK wanted:%d TOKEN owner KEEPALIVE", k) })
	for i := range connections {
		c.listener.Must(c.s, "SUBSCRIBE", fmt.Sprint("crowd:", i))
		c.each(c.connect(i), c.locks, queued, func(k int) string {
			return fmt.Sprintf("LOCK wanted:%d TOKEN %d WAIT 300000 NOTIFY crowd:%d", k, i, i)
		})
	}
}

// ask sends n commands at once, and says how many replies were not good, and one of them.
func ask(conn *rig.Conn, n int, good func(rig.Reply) bool, command func(k int) string) (bad int, why string) {
	var all [][]string
	for k := range n {
		all = append(all, strings.Fields(command(k)))
	}
	heard := 0
	err := pipeline(conn, all, func(_ int, v rig.Reply) {
		if heard++; !good(v) {
			bad++
			why = v.String()
		}
	})
	if err != nil {
		return bad + n - heard, err.Error()
	}
	return bad, why
}

// each is ask, where a reply that is not good is a fault of the proxies.
func (c *crowd) each(conn *rig.Conn, n int, good func(rig.Reply) bool, command func(k int) string) {
	if bad, why := ask(conn, n, good, command); bad > 0 {
		c.s.Errorf("%s: %d of %d went wrong, such as %s", command(0), bad, n, why)
	}
}

// lost asks for every hold whether it is held still. such is what was said of one that is not.
func (c *crowd) lost() (lost int, such string) {
	var asked sync.WaitGroup
	for i, keeper := range c.keepers {
		asked.Go(func() {
			bad, why := ask(keeper, c.holds, func(v rig.Reply) bool { return len(v.Elems) == 3 },
				func(k int) string { return fmt.Sprintf("LOCKCTL CHECK kept:%d:%d keeper", i, k) })
			c.mu.Lock()
			defer c.mu.Unlock()
			if lost += bad; bad > 0 {
				such = why
			}
		})
	}
	asked.Wait()
	return lost, such
}

// drain frees what is wanted, and waits until every waiter has had its turn.
func (c *crowd) drain() {
	begun, whole := c.s.load.now(), connections*c.locks
	releasing := c.connect(0)
	go c.listen(releasing)
	go func() { // ends with its connection; what comes back says nothing more
		for err := error(nil); err == nil; _, err = releasing.Receive(time.Hour) {
		}
	}()
	for k := range c.locks {
		c.owner.Send("UNLOCK", fmt.Sprint("wanted:", k), "owner")
	}
	got := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.granted)
	}
	for end := time.Now().Add(2 * time.Minute); got() < whole && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	twice := 0
	for _, n := range c.granted {
		twice += min(n-1, 1)
	}
	c.s.note("%d of %d waiters had their turn after the fail-over, within %v; %d of them twice; %d were "+
		"told something else %v", len(c.granted), whole, (c.last - begun).Round(time.Millisecond), twice,
		len(c.failed), c.failed)
	if len(c.granted) < whole || twice > 0 {
		c.s.Errorf("%d of %d waiters had their turn, %d of them twice", len(c.granted), whole, twice)
	}
}

// listen hears who has been granted what, and frees it. It ends with its connection.
func (c *crowd) listen(releasing *rig.Conn) {
	for {
		v, err := c.listener.Receive(time.Hour)
		if err != nil {
			return
		}
		if len(v.Elems) != 3 || v.Elems[0].Text != "message" {
			continue
		}
		waiter := strings.TrimPrefix(v.Elems[1].Text, "crowd:")
		words := strings.Fields(v.Elems[2].Text)
		c.mu.Lock()
		c.last = c.s.load.now()
		if words[0] == "granted" {
			c.granted[waiter+" "+words[1]]++
			releasing.Send("UNLOCK", words[1], waiter)
		} else {
			c.failed[kindOf(v.Elems[2].Text)]++
		}
		c.mu.Unlock()
	}
}
