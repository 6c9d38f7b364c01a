package main

import (
	"fmt"
	"io"
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
}

// holding and held are what LOCK and LOCKCTL CHECK say of a hold.
func holding(v rig.Reply) bool { return len(v.Elems) == 4 }
func held(v rig.Reply) bool    { return len(v.Elems) == 3 }

const connections = 100 // that keep holds, and as many that wait

// gather takes very many holds, and queues waiters: for locks of the owner, and told over the listener.
func gather(s *scene) {
	c := &crowd{s: s, holds: 1000, locks: 100}
	if s.quick {
		c.holds, c.locks = 100, 10
	}
	s.crowd = c
	queued := func(v rig.Reply) bool { return v.Text == "QUEUED" }
	c.owner, c.listener = c.connect(0), c.connect(1)
	var waiters []*rig.Conn
	for i := range connections {
		c.keepers, waiters = append(c.keepers, c.connect(i)), append(waiters, c.connect(i))
		c.listener.Must(s, "SUBSCRIBE", fmt.Sprint("crowd:", i))
	}
	for _, step := range []struct {
		conns   []*rig.Conn
		n       int
		good    func(rig.Reply) bool
		command func(i, k int) string
	}{
		{c.keepers, c.holds, holding,
			func(i, k int) string { return fmt.Sprintf("LOCK kept:%d:%d TOKEN keeper KEEPALIVE", i, k) }},
		{[]*rig.Conn{c.owner}, c.locks, holding,
			func(_, k int) string { return fmt.Sprintf("LOCK wanted:%d TOKEN owner KEEPALIVE", k) }},
		{waiters, c.locks, queued, func(i, k int) string {
			return fmt.Sprintf("LOCK wanted:%d TOKEN %d WAIT 300000 NOTIFY crowd:%d", k, i, i)
		}},
	} {
		if bad, why := ask(step.conns, step.n, step.good, step.command); bad > 0 {
			s.Errorf("%s: %d went wrong, such as %s", step.command(0, 0), bad, why)
		}
	}
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

// ask sends n commands at once over each connection, and says how many replies were not good, and one of
// them.
func ask(conns []*rig.Conn, n int, good func(rig.Reply) bool, command func(i, k int) string) (bad int,
	why string) {
	var mu sync.Mutex
	var asked sync.WaitGroup
	found := func(more int, such string) {
		mu.Lock()
		defer mu.Unlock()
		bad, why = bad+more, such
	}
	for i, conn := range conns {
		asked.Go(func() {
			var all [][]string
			for k := range n {
				all = append(all, strings.Fields(command(i, k)))
			}
			heard := 0
			err := pipeline(conn, all, func(_ int, v rig.Reply) {
				if heard++; !good(v) {
					found(1, v.String())
				}
			})
			if err != nil {
				found(n-heard, err.Error())
			}
		})
	}
	asked.Wait()
	return bad, why
}

// lost asks for every hold whether it is held still. such is what was said of one that is not.
func (c *crowd) lost() (lost int, such string) {
	return ask(c.keepers, c.holds, held,
		func(i, k int) string { return fmt.Sprintf("LOCKCTL CHECK kept:%d:%d keeper", i, k) })
}

// drain frees what is wanted, and waits until every waiter has had its turn: who is granted a lock frees it.
func (c *crowd) drain() {
	whole, begun := connections*c.locks, time.Now()
	releasing, last := c.connect(0), begun
	go io.Copy(io.Discard, releasing) // ends with its connection; what comes back says nothing more
	for k := range c.locks {
		c.owner.Send("UNLOCK", fmt.Sprint("wanted:", k), "owner")
	}
	granted := map[string]int{} // by waiter and lock
	failed := map[string]int{}  // by what the message said
	for end := begun.Add(2 * time.Minute); len(granted) < whole; {
		v, err := c.listener.Receive(time.Until(end))
		if err != nil {
			break
		}
		if len(v.Elems) != 3 || v.Elems[0].Text != "message" {
			continue
		}
		waiter := strings.TrimPrefix(v.Elems[1].Text, "crowd:")
		words := strings.Fields(v.Elems[2].Text)
		last = time.Now()
		if words[0] == "granted" {
			granted[waiter+" "+words[1]]++
			releasing.Send("UNLOCK", words[1], waiter)
		} else {
			failed[kindOf(v.Elems[2].Text)]++
		}
	}
	twice := 0
	for _, n := range granted {
		twice += min(n-1, 1)
	}
	c.s.note("%d of %d waiters had their turn after the fail-over, within %v; %d of them twice; %d were "+
		"told something else %v", len(granted), whole, last.Sub(begun).Round(time.Millisecond), twice,
		len(failed), failed)
	if len(granted) < whole || twice > 0 {
		c.s.Errorf("%d of %d waiters had their turn, %d of them twice", len(granted), whole, twice)
	}
}
