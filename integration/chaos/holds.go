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
	s         *scene
	keepers   []*rig.Conn // each keeps as many holds
	holds     int         // of each
	waiters   []*rig.Conn // each waits for every one of the locks that the owner holds
	locks     int
	owner     *rig.Conn
	listener  *rig.Conn
	releasing *rig.Conn

	mu      sync.Mutex
	granted map[string]int // by waiter and lock
	failed  map[string]int // by what the message said
	last    time.Duration  // when the latest of them came
}

const connections = 100 // that keep holds, and as many that wait

// killUnderHolds kills a master under very many holds and waiters. Each hold must outlive it, and each waiter
// must get its lock in the end, once.
func killUnderHolds(s *scene) {
	c := &crowd{s: s, holds: 1000, locks: 100, granted: map[string]int{}, failed: map[string]int{}}
	if s.quick {
		c.holds, c.locks = 100, 10
	}
	c.gather()
	if lost, such := c.lost(); lost > 0 {
		s.Fatalf("this machine is too slow for so many holds: %d of %d were lost before anything happened "+
			"to a "+
			"node, such as %s", lost, connections*c.holds, such)
	}
	s.watch(s.replica())
	s.strike()
	s.master.Kill()
	s.promotion()
	time.Sleep(2 * time.Second)
	c.checkHolds()
	c.drain()
}

// gather takes the holds, and queues the waiters.
func (c *crowd) gather() {
	s := c.s
	at := func(i int) string { return s.proxies[i%len(s.proxies)].Addr }
	var taken sync.WaitGroup
	for i := range connections {
		keeper := rig.Connect(s, at(i))
		c.keepers = append(c.keepers, keeper)
		taken.Go(func() {
			var all [][]string
			for k := range c.holds {
				all = append(all, []string{"LOCK", holdName(i, k), "TOKEN", "keeper", "KEEPALIVE"})
			}
			c.each(keeper, all, "LOCK", func(v rig.Reply) bool { return len(v.Elems) == 4 })
		})
	}
	taken.Wait()
	c.owner, c.listener, c.releasing = rig.Connect(s, at(0)), rig.Connect(s, at(1)), rig.Connect(s, at(0))
	for i := range connections {
		c.listener.Must(s, "SUBSCRIBE", fmt.Sprint("crowd:", i))
	}
	var owned [][]string
	for k := range c.locks {
		owned = append(owned, []string{"LOCK", fmt.Sprint("wanted:", k), "TOKEN", "owner", "KEEPALIVE"})
	}
	c.each(c.owner, owned, "LOCK", func(v rig.Reply) bool { return len(v.Elems) == 4 })
	for i := range connections {
		waiter := rig.Connect(s, at(i))
		c.waiters = append(c.waiters, waiter)
		var all [][]string
		for k := range c.locks {
			all = append(all, []string{"LOCK", fmt.Sprint("wanted:", k), "TOKEN", fmt.Sprint(i), "WAIT",
				"300000",
				"NOTIFY", fmt.Sprint("crowd:", i)})
		}
		c.each(waiter, all, "LOCK with NOTIFY", func(v rig.Reply) bool { return v.Text == "QUEUED" })
	}
}

func holdName(i, k int) string { return fmt.Sprintf("kept:%d:%d", i, k) }

// each sends commands at once. A reply that is not good is a fault of the proxies.
func (c *crowd) each(conn *rig.Conn, all [][]string, what string, good func(rig.Reply) bool) {
	bad, why := ask(conn, all, good)
	if bad > 0 {
		c.s.Errorf("%s: %d of %d went wrong, such as %s", what, bad, len(all), why)
	}
}

// ask sends commands at once, and says how many replies were not good, and one of them.
func ask(conn *rig.Conn, all [][]string, good func(rig.Reply) bool) (bad int, why string) {
	var out []byte
	for _, args := range all {
		out = append(out, rig.Encode(args...)...)
	}
	sent := make(chan error, 1)
	go func() { _, err := conn.Write(out); sent <- err }() // ends with the connection at the latest
	for i := range all {
		v, err := conn.Receive(deaf)
		if err != nil {
			return bad + len(all) - i, err.Error()
		}
		if !good(v) {
			bad++
			why = v.String()
		}
	}
	<-sent
	return bad, why
}

// checkHolds notes how many holds the fault has cost: none may be lost.
func (c *crowd) checkHolds() {
	lost, such := c.lost()
	c.s.note("%d of %d kept holds were lost", lost, connections*c.holds)
	if lost > 0 {
		c.s.Errorf("%d of %d kept holds were lost, such as %s", lost, connections*c.holds, such)
	}
}

// lost asks for every hold whether it is held still. such is what was said of one that is not.
func (c *crowd) lost() (lost int, such string) {
	var asked sync.WaitGroup
	for i, keeper := range c.keepers {
		asked.Go(func() {
			var all [][]string
			for k := range c.holds {
				all = append(all, []string{"LOCKCTL", "CHECK", holdName(i, k), "keeper"})
			}
			bad, why := ask(keeper, all, func(v rig.Reply) bool { return len(v.Elems) == 3 })
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
	go c.listen()
	go c.answers()
	for k := range c.locks {
		c.owner.Send("UNLOCK", fmt.Sprint("wanted:", k), "owner")
	}
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got, _ := c.turns(); got == whole {
			break
		}
	}
	got, twice := c.turns()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.note("%d of %d waiters had their turn after the fail-over, within %v; %d of them twice; %d were "+
		"told "+
		"something else %v", got, whole, (c.last - begun).Round(time.Millisecond), twice, len(c.failed),
		c.failed)
	if got < whole || twice > 0 {
		c.s.Errorf("%d of %d waiters had their turn, %d of them twice", got, whole, twice)
	}
}

func (c *crowd) turns() (got, twice int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.granted {
		if n > 1 {
			twice++
		}
	}
	return len(c.granted), twice
}

// listen hears who has been granted what, and frees it. It ends with its connection.
func (c *crowd) listen() {
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
		} else {
			c.failed[kindOf(v.Elems[2].Text)]++
		}
		c.mu.Unlock()
		if words[0] == "granted" {
			c.releasing.Send("UNLOCK", words[1], waiter)
		}
	}
}

// answers reads what comes of all that, which says nothing more.
func (c *crowd) answers() {
	for {
		if _, err := c.releasing.Receive(time.Hour); err != nil {
			return
		}
	}
}
