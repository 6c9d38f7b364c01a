package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// crowd is many clients that wait for a few locks, and what became of each wait.
type crowd struct {
	locks   []string
	clients int

	granted, vain, refused atomic.Int64
	troubles               sync.Map // texts of errors, without numbers
}

// run has all clients wait again and again until end is closed, and waits for them.
func (cr *crowd) run(t *testing.T, end <-chan struct{}, addrs ...string) {
	var group sync.WaitGroup
	var failed atomic.Int64
	for client := range cr.clients {
		group.Go(func() {
			if err := cr.wait(client, addrs[client%len(addrs)], end); err != nil && failed.Add(1) <= 10 {
				t.Errorf("client %d: %v", client, err)
			}
		})
	}
	group.Wait()
}

func (cr *crowd) wait(client int, addr string, end <-chan struct{}) error {
	c, err := rig.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for i := 0; ; i++ {
		select {
		case <-end:
			return nil
		case <-time.After(rand.N(100 * time.Millisecond)):
		}
		lock, wait := cr.locks[rand.IntN(len(cr.locks))], time.Duration(200+rand.IntN(4000))*time.Millisecond
		token, verb := fmt.Sprint(client, ".", i), "LOCK"
		if rand.IntN(4) == 0 {
			verb = "RLOCK"
		}
		asked := time.Now()
		c.Send(verb, lock, "TOKEN", token, "PX", "3000", "WAIT", fmt.Sprint(wait.Milliseconds()))
		v, err := c.Receive(wait + 2*rig.Patience)
		switch {
		case err != nil:
			return fmt.Errorf("%s with WAIT %v: %v", verb, wait, err)
		case v.Null && time.Now().Before(asked.Add(wait)):
			return fmt.Errorf("WAIT %v was given up before it was over", wait)
		case v.Null:
			cr.vain.Add(1)
			continue
		case v.IsError():
			if err := cr.trouble(v); err != nil {
				return err
			}
			continue
		case len(v.Elems) != 4 || v.Elems[0].Text != token || v.Elems[3].Int() != 1:
			return fmt.Errorf("%s: %s", verb, v)
		}
		cr.granted.Add(1)
		// Null: the lease was over, or the hold was lost in a fail-over
		v, err = c.Do("UNLOCK", lock, token)
		switch {
		case err != nil:
			return fmt.Errorf("UNLOCK: %v", err)
		case v.IsError():
			if err := cr.trouble(v); err != nil {
				return err
			}
		case !v.Null && v.Text != "1":
			return fmt.Errorf("UNLOCK: %s", v)
		}
	}
}

// trouble notes an error, which must be one that says what is wrong with Redis.
func (cr *crowd) trouble(v rig.Reply) error {
	cr.refused.Add(1)
	text := strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return '#'
		}
		return r
	}, v.Text)
	cr.troubles.Store(text, true)
	for _, known := range []string{"may or may not have run", "was not run", "did not answer", "CLUSTERDOWN",
		"TRYAGAIN", "LOADING", "MASTERDOWN", "READONLY"} {
		if strings.Contains(v.Text, known) {
			return nil
		}
	}
	return fmt.Errorf("an error that names no trouble: %s", v)
}

func (cr *crowd) log(t *testing.T) {
	t.Helper()
	t.Logf("%d granted, %d in vain, %d errors", cr.granted.Load(), cr.vain.Load(), cr.refused.Load())
	cr.troubles.Range(func(text, _ any) bool {
		t.Logf("seen: %s", text)
		return true
	})
}

// Hundreds wait, with -long thousands, while subscriptions are killed, slots move, masters fail over and
// die, scripts are forgotten, connections are cut and fall silent: every wait ends with a grant, a Null
// behind its time or an error that names the trouble, and in the end the queues are empty. R10 R12 R25
func TestCrowd(t *testing.T) {
	t.Parallel()
	c := rig.StartLinkedCluster(t, 3, 1)
	c.DeadAfter("2000")
	args := []string{"--upstream", c.Addrs(), "--maxclients", "20000", "--upstream-timeout", "3s",
		"--retry-budget", "5s"}
	// The race detector takes so much of the CPU that 10,000 would wait for it alone.
	path := rig.Dose(rig.Binary, rig.LeanBinary)(t)
	proxies := []*rig.Proxy{rig.StartBinary(t, path, args...), rig.StartBinary(t, path, args...)}
	cr, end := &crowd{clients: rig.Dose(200, 10_000)}, make(chan struct{})
	for i := range 8 {
		cr.locks = append(cr.locks, fmt.Sprint("crowd:", i))
	}
	var group sync.WaitGroup
	group.Go(func() { cr.run(t, end, proxies[0].Addr, proxies[1].Addr) })
	masters := func() (found []*rig.Server) {
		for _, n := range c.Nodes {
			if !n.Ended() && n.Info(t, "replication", "role") == "master" {
				found = append(found, n)
			}
		}
		return found
	}
	whole := func() { c.Whole(t, len(c.Nodes)); c.Settled(t, 3) }
	faults := map[string]func(){
		"subscriptions are killed": func() { c.Each(t, "CLIENT", "KILL", "TYPE", "pubsub") },
		"scripts are forgotten":    func() { c.Each(t, "SCRIPT", "FLUSH") },
		"connections are cut": func() {
			for _, n := range c.Nodes {
				n.Link.Cut()
			}
		},
		"a node falls silent": func() {
			k := masters()[rand.IntN(3)].Link
			k.HalfOpen(true)
			time.Sleep(rig.Dose(time.Second, 3*time.Second))
			k.HalfOpen(false)
		},
		"a node is slow": func() {
			k := masters()[rand.IntN(3)].Link
			k.Delay(100 * time.Millisecond)
			time.Sleep(time.Second)
			k.Delay(0)
		},
		"a slot moves to and fro": func() {
			key := "lock:{" + cr.locks[rand.IntN(len(cr.locks))] + "}"
			from := c.MasterOf(t, key)
			all := masters()
			to := all[(slices.Index(all, from)+1)%len(all)]
			c.Migrate(t, c.SlotOf(t, key), from, to, 20*time.Millisecond)
			time.Sleep(500 * time.Millisecond)
			c.Migrate(t, c.SlotOf(t, key), to, from, 20*time.Millisecond)
		},
		"a master hands over to its replica": func() {
			c.ReplicasOf(t, masters()[rand.IntN(3)])[0].Promote(t)
		},
		"a master dies": func() {
			doomed := masters()[rand.IntN(3)]
			replica := c.ReplicasOf(t, doomed)[0]
			doomed.Kill()
			rig.Eventually(t, 2*rig.Patience, "the replica is master",
				func() bool { return replica.Info(t, "replication", "role") == "master" })
			time.Sleep(500 * time.Millisecond)
			doomed.Restart(t)
		},
	}
	for range rig.Dose(1, 20) {
		for name, fault := range faults {
			before := cr.granted.Load()
			fault()
			whole()
			for _, n := range c.Nodes {
				rig.Eventually(t, 2*rig.Patience, "replicas in sync", func() bool {
					return n.Info(t, "replication", "role") == "master" ||
						n.Info(t, "replication", "master_link_status") == "up"
				})
			}
			rig.Eventually(t, 4*rig.Patience, "grants after: "+name,
				func() bool { return cr.granted.Load() > before+100 })
		}
	}
	close(end)
	group.Wait()
	cr.log(t)
	for i, p := range proxies {
		if p.Ended() {
			t.Fatalf("proxy %d has ended: %v\n%s", i, p.Err, p.Log.Tail())
		}
	}
	for _, lock := range cr.locks {
		rig.Eventually(t, rig.Patience, lock+" is free and nobody waits", func() bool {
			state, waiters := rig.LockInfo(t, proxies[0].Addr, lock)
			return state == "free" && waiters == 0
		})
	}
	for i, p := range proxies {
		if n := p.Metric(t, "lockproxy_lock_waiters"); n != 0 {
			t.Errorf("afterwards proxy %d has %v waiters", i, n)
		}
	}
}

// waiting sends LOCK with a WAIT of minutes from so many clients of p, one after the other, and
// returns them in the order of the queue. look is a proxy that is asked how many wait.
func waiting(t *testing.T, p, look *rig.Proxy, lock string, n int) (waiters []*rig.Conn) {
	t.Helper()
	_, before := rig.LockInfo(t, look.Addr, lock)
	for i := range n {
		c := rig.Connect(t, p.Addr)
		c.Send("LOCK", lock, "PX", "600000", "WAIT", "600000")
		waiters = append(waiters, c)
		rig.WaitersOf(t, look.Addr, lock, before+int64(i)+1)
	}
	return waiters
}

// pass has each waiter in turn get the lock and free it.
func pass(t *testing.T, lock string, waiters []*rig.Conn) {
	t.Helper()
	for i, c := range waiters {
		v, err := c.Receive(rig.Patience)
		if err != nil || len(v.Elems) != 4 {
			t.Fatalf("waiter %d: %s %v", i, v, err)
		}
		c.Want(t, "(integer) 1", "UNLOCK", lock, v.Elems[0].Text)
	}
}

// Sixty waiters of a proxy that is killed stand before, and between, those of another, who are served. R25
func TestWaitersOfKilledProxy(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]bool{"an UNLOCK": true, "the end of the lease": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lock := "many of one:" + name
			live := rig.StartProxy(t, "--upstream", rig.SharedCluster().Addrs())
			doomed := rig.StartProxy(t, "--upstream", rig.SharedCluster().Addrs())
			before, holder, lease := rig.Connect(t, live.Addr), rig.Connect(t, live.Addr), "2000"
			if release {
				lease = "600000"
			}
			before.Must(t, "LOCK", lock, "TOKEN", "b", "PX", "600000")
			holder.Send("LOCK", lock, "TOKEN", "h", "PX", lease, "WAIT", "600000")
			rig.WaitersOf(t, live.Addr, lock, 1)
			waiting(t, doomed, live, lock, 30)
			mine := waiting(t, live, live, lock, 1)
			waiting(t, doomed, live, lock, 30)
			mine = append(mine, waiting(t, live, live, lock, 1)...)
			doomed.Kill()
			before.Want(t, "(integer) 1", "UNLOCK", lock, "b")
			if v, err := holder.Receive(rig.Patience); err != nil || len(v.Elems) != 4 {
				t.Fatalf("the holder: %s %v", v, err)
			}
			if release {
				holder.Want(t, "(integer) 1", "UNLOCK", lock, "h")
			}
			pass(t, lock, mine)
		})
	}
}

// stoppedProxies is how Redis hears nothing of a proxy for a while.
var stoppedProxies = map[string]struct {
	stop, goOn func(l rig.Life, p *rig.Proxy, k *rig.Link)
}{
	"stopped": {
		func(l rig.Life, p *rig.Proxy, _ *rig.Link) { p.Stop(l) },
		func(_ rig.Life, p *rig.Proxy, _ *rig.Link) { p.Signal(syscall.SIGCONT) },
	},
	"cut off": {
		func(_ rig.Life, _ *rig.Proxy, k *rig.Link) { k.Refuse(true); k.Cut() },
		func(_ rig.Life, _ *rig.Proxy, k *rig.Link) { k.Refuse(false) },
	},
	"not heard": {
		func(_ rig.Life, _ *rig.Proxy, k *rig.Link) { k.HalfOpen(true) },
		func(_ rig.Life, _ *rig.Proxy, k *rig.Link) { k.HalfOpen(false); k.Cut() },
	},
}

// Sixty waiters of a proxy that is stopped, or cut off from Redis, do not keep the lock from those of the
// other; when it goes on, each of them is served. R25
func TestWaitersOfStoppedProxy(t *testing.T) {
	for name, fault := range stoppedProxies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			waitersOfStoppedProxy(t, "absent:"+name, fault.stop, fault.goOn)
		})
	}
}

// waitersOfStoppedProxy returns how long it took past the waiters of the stopped one.
func waitersOfStoppedProxy(t *testing.T, lock string,
	stop, goOn func(rig.Life, *rig.Proxy, *rig.Link)) (took time.Duration) {
	t.Helper()
	k := rig.StartLink(t, rig.SharedRedis().Addr)
	live, stopped := rig.SharedOverRedis(), rig.StartProxy(t, "--upstream", k.Addr(), "--retry-budget", "10m")
	holder := rig.Connect(t, live.Addr)
	holder.Must(t, "LOCK", lock, "TOKEN", "h", "PX", "600000")
	theirs := waiting(t, stopped, live, lock, 60)
	mine := waiting(t, live, live, lock, 5)
	stop(t, stopped, k)
	holder.Want(t, "(integer) 1", "UNLOCK", lock, "h")
	free := time.Now()
	pass(t, lock, mine)
	took = time.Since(free)
	time.Sleep(rig.Dose(time.Second, 5*time.Second))
	goOn(t, stopped, k)
	// their order among each other is not kept: they join anew
	served := make(chan error, len(theirs))
	for _, c := range theirs {
		go func() {
			v, err := c.Receive(4 * rig.Patience)
			if err == nil && len(v.Elems) == 4 {
				v, err = c.Do("UNLOCK", lock, v.Elems[0].Text)
			}
			if err == nil && v.Text != "1" {
				err = fmt.Errorf("%s", v)
			}
			served <- err
		}()
	}
	for range theirs {
		if err := <-served; err != nil {
			t.Errorf("one of its waiters: %v", err)
		}
	}
	return took
}

// The queue of a lock is bounded, over all proxies, and so it is while waiters of a dead proxy
// stand in it; whoever leaves makes room. R12
func TestFullQueue(t *testing.T) {
	t.Parallel()
	const lock, most = "full", 20
	args := []string{"--upstream", rig.SharedCluster().Addrs(), "--lock-max-queue", fmt.Sprint(most)}
	live, doomed := rig.StartProxy(t, args...), rig.StartProxy(t, args...)
	holder := rig.Connect(t, live.Addr)
	holder.Must(t, "LOCK", lock, "TOKEN", "h", "PX", "600000")
	waiting(t, doomed, live, lock, most/2)
	mine := waiting(t, live, live, lock, most/2)
	full := func(when string) {
		t.Helper()
		for _, p := range []*rig.Proxy{live, doomed} {
			if p.Ended() {
				continue
			}
			for _, verb := range []string{"LOCK", "RLOCK"} {
				v := rig.Connect(t, p.Addr).Call(t, verb, lock, "WAIT", "600000")
				if !v.IsError("QUEUEFULL") {
					t.Errorf("%s: %s: %s", when, verb, v)
				}
			}
		}
		if _, n := rig.LockInfo(t, live.Addr, lock); n > most {
			t.Errorf("%s: %d wait", when, n)
		}
	}
	full("with all alive")
	rig.Connect(t, live.Addr).Want(t, "(nil)", "LOCK", lock)

	mine[0].Close()
	rig.WaitersOf(t, live.Addr, lock, most-1)
	mine = append(mine[1:], waiting(t, live, live, lock, 1)...)
	full("after one left and one came")

	doomed.Kill()
	full("right after a proxy died")
	holder.Want(t, "(integer) 1", "UNLOCK", lock, "h")
	pass(t, lock, mine)
	rig.Connect(t, live.Addr).Must(t, "LOCK", lock, "TOKEN", "h", "PX", "600000")
	mine = waiting(t, live, live, lock, most) // the dead are gone
	full("with another queue")
}

// A node that falls silent while somebody waits: the answer comes all the same, and is Null only if nothing
// is left; what is goes once the node is back. That no WAIT ends early is shown in fake time
// (TestWaitInVain). R10
func TestWaitAtSilentNode(t *testing.T) {
	t.Parallel()
	s := rig.StartRedis(t)
	k := rig.StartLink(t, s.Addr)
	near := rig.StartProxy(t, "--upstream", k.Addr(), "--upstream-timeout", "3s", "--retry-budget", "2s")
	far := rig.StartProxy(t, "--upstream", s.Addr)
	rig.Connect(t, far.Addr).Must(t, "LOCK", "silent", "TOKEN", "h", "PX", "600000")
	c := rig.Connect(t, near.Addr)
	c.Send("LOCK", "silent", "TOKEN", "w", "WAIT", "5000", "PX", "600000")
	rig.WaitersOf(t, far.Addr, "silent", 1)
	k.HalfOpen(true)
	v, err := c.Receive(rig.Patience)
	unknown := strings.Contains(v.Text, "did not answer") ||
		strings.Contains(v.Text, "does not answer; the token may hold") || // it was known to be lost already
		strings.Contains(v.Text, "may or may not have run")
	if err != nil || !unknown {
		t.Errorf("%s %v", v, err)
	}
	k.HalfOpen(false)
	k.Cut()
	rig.WaitersOf(t, far.Addr, "silent", 0)
	rig.Connect(t, far.Addr).Want(t, "(integer) 1", "UNLOCK", "silent", "h")
	if state, n := rig.LockInfo(t, far.Addr, "silent"); state != "free" || n != 0 {
		t.Errorf("afterwards the lock is %s with %d waiters", state, n)
	}
}

// Five hundred clients of two proxies that wait for one held lock cost Redis a handful of scripts, whatever
// they cost: as many as one client of each proxy would. R12
func TestWaitersAreCheap(t *testing.T) {
	t.Parallel()
	s := rig.StartRedis(t)
	proxies := []*rig.Proxy{rig.StartProxy(t, "--upstream", s.Addr), rig.StartProxy(t, "--upstream", s.Addr)}
	rig.Connect(t, proxies[0].Addr).Must(t, "LOCK", "cheap", "TOKEN", "h", "PX", "600000")
	for i := range 500 {
		rig.Connect(t, proxies[i%2].Addr).Send("LOCK", "cheap", "WAIT", "600000")
	}
	rig.WaitersOf(t, proxies[0].Addr, "cheap", 500)
	scripts := func() (n int64) {
		for _, command := range []string{"evalsha", "eval"} {
			calls := strings.TrimPrefix(s.Info(t, "commandstats", "cmdstat_"+command), "calls=")
			count, _ := strconv.ParseInt(strings.Split(calls, ",")[0], 10, 64)
			n += count
		}
		return n
	}
	time.Sleep(500 * time.Millisecond) // they have all asked
	s.Do(t, "CONFIG", "RESETSTAT")
	rig.Eventually(t, rig.Patience, "both proxies ask again", func() bool { return scripts() >= 4 })
	if n := scripts(); n > 40 { // each of 500 that asks by itself would have it be hundreds
		t.Errorf("%d scripts ran for 500 waiters", n)
	}
	for _, command := range []string{"publish", "spublish"} {
		if n := s.Info(t, "commandstats", "cmdstat_"+command); n != "" {
			t.Errorf("%s ran although nothing happened: %s", command, n)
		}
	}
}
