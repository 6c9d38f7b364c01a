package faults

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// traffic counts with INCR on keys of one slot, or of many, and remembers what
// must be true of each counter afterwards.
type traffic struct {
	addr    string
	keys    []string
	clients int

	done    []atomic.Int64 // acknowledged, per key
	unknown []atomic.Int64 // outcome unknown, per key
	failed  atomic.Int64   // refused for sure
	bad     atomic.Pointer[string]
	refused sync.Map // texts of errors
}

func newTraffic(addr string, clients int, keys ...string) *traffic {
	return &traffic{addr: addr, keys: keys, clients: clients,
		done: make([]atomic.Int64, len(keys)), unknown: make([]atomic.Int64, len(keys))}
}

// run sends pipelines until end is closed.
func (tr *traffic) run(end <-chan struct{}) {
	var group sync.WaitGroup
	for client := range tr.clients {
		group.Go(func() {
			for i := client; ; i++ {
				select {
				case <-end:
					return
				default:
				}
				if err := tr.pipeline(i); err != nil {
					s := err.Error()
					tr.bad.CompareAndSwap(nil, &s)
					return
				}
			}
		})
	}
	group.Wait()
}

// pipelined is how many INCR a client has under way at a time.
const pipelined = 8

// pipeline is one connection's life: batches of INCR, ECHO and GET whose replies must come in order.
func (tr *traffic) pipeline(seed int) error {
	c, err := rig.Dial(tr.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for batch := range 20 {
		time.Sleep(5 * time.Millisecond) // the machine is there for others, too
		var out []byte
		for j := range pipelined {
			k := (seed + batch + j) % len(tr.keys)
			out = append(out, rig.Encode("INCR", tr.keys[k])...)
			out = append(out, rig.Encode("ECHO", fmt.Sprint(seed, batch, j))...)
			out = append(out, rig.Encode("GET", tr.keys[k])...)
		}
		if _, err := c.Write(out); err != nil {
			return err
		}
		for j := range pipelined {
			k := (seed + batch + j) % len(tr.keys)
			incr, err := c.Receive(2 * rig.Patience)
			if err != nil {
				return err
			}
			tr.count(k, incr)
			echo, err := c.Receive(2 * rig.Patience)
			if err != nil || echo.Text != fmt.Sprint(seed, batch, j) {
				return fmt.Errorf("ECHO %d %d %d: %s %v", seed, batch, j, echo, err)
			}
			get, err := c.Receive(2 * rig.Patience)
			if err != nil {
				return err
			}
			if get.IsError() {
				tr.refused.Store("GET: "+get.Text, true)
			} else if !incr.IsError() && get.Int() < incr.Int() {
				return fmt.Errorf("INCR said %s, the GET behind it %s", incr, get)
			}
		}
	}
	return nil
}

func (tr *traffic) count(k int, v rig.Reply) {
	if !v.IsError() {
		tr.done[k].Add(1)
		return
	}
	tr.refused.Store("INCR: "+v.Text, true)
	if strings.Contains(v.Text, "may or may not have run") {
		tr.unknown[k].Add(1)
	} else {
		tr.failed.Add(1)
	}
}

// await waits, for a while, until what check wants to see has got through, and some of it from now on; check
// tells if it has not.
func (tr *traffic) await() {
	enough := max(leastTraffic, tr.sum()+100)
	for end := time.Now().Add(4 * rig.Patience); time.Now().Before(end) && tr.sum() < enough &&
		tr.bad.Load() == nil; {
		time.Sleep(20 * time.Millisecond)
	}
}

func (tr *traffic) sum() (sum int64) {
	for k := range tr.done {
		sum += tr.done[k].Load()
	}
	return sum
}

// leastTraffic is how many INCR must have got through for check to say anything.
const leastTraffic = 1000

// lostWith is how many acknowledged writes of a key a replica may lack whose master was just killed:
// replication is asynchronous. Replies that no client has read yet count too.
func (tr *traffic) lostWith(t *testing.T, replica *rig.Server) (lost int64) {
	t.Helper()
	rig.Eventually(t, rig.Patience, "the replica has all that its master sent", func() bool {
		return replica.Info(t, "replication", "master_link_status") != "up"
	})
	c := rig.Connect(t, replica.Addr)
	c.Must(t, "READONLY")
	for k, key := range tr.keys {
		has := c.Must(t, "GET", key).Int()
		lost = max(lost, tr.done[k].Load()-has)
	}
	return lost + int64(tr.clients*pipelined)
}

// check compares the counters with what was acknowledged. lost is how many acknowledged
// writes a fail-over of Redis itself may have lost.
func (tr *traffic) check(t *testing.T, lost int64) (errors int64) {
	t.Helper()
	if s := tr.bad.Load(); s != nil {
		t.Error(*s)
	}
	c := rig.Connect(t, tr.addr)
	var sum int64
	for k, key := range tr.keys {
		got, done, unknown := c.Must(t, "GET", key).Int(), tr.done[k].Load(), tr.unknown[k].Load()
		sum += done
		errors += unknown
		if got < done-lost || got > done+unknown {
			t.Errorf("%s is at %d; %d INCR were acknowledged, the outcome of %d is unknown", key,
				got, done, unknown)
		}
	}
	tr.refused.Range(func(text, _ any) bool {
		t.Logf("seen: %s", text)
		return true
	})
	t.Logf("%d INCR acknowledged, %d unknown, %d refused", sum, errors, tr.failed.Load())
	if sum < leastTraffic {
		t.Errorf("only %d INCR got through", sum)
	}
	return errors + tr.failed.Load()
}

// keysOf are n keys of one slot.
func keysOf(tag string, n int) []string {
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprintf("{%s}:%d", tag, i))
	}
	return keys
}

// Slots that move while clients use them: ASK, TRYAGAIN and MOVED never reach a
// client, nothing is lost, nothing runs twice, replies keep their order.
func TestSlotMigration(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 0)
	moveSlots(t, c,
		func(slot int, from, to *rig.Server) { c.Migrate(t, slot, from, to, 20*time.Millisecond) })
}

// The same with slots that move all at once, as Valkey does since 9.0.
func TestAtomicSlotMigration(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(rig.On(t, "valkey9"), 3, 0)
	moveSlots(t, c, func(slot int, from, to *rig.Server) { migrateAtOnce(t, slot, from, to) })
}

// moveSlots has clients use a slot while move takes it from one master to the next.
func moveSlots(t *testing.T, c *rig.Cluster, move func(slot int, from, to *rig.Server)) {
	t.Helper()
	p := rig.StartProxy(t, "--upstream", c.Nodes[0].Addr)
	c.MasterOf(t, "moving").Do(t, "SET", "{moving}:bystander", strings.Repeat("v", 1000))
	keys := append(keysOf("moving", 20), keysOf("staying", 4)...)
	tr, end := newTraffic(p.Addr, 8, keys...), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() { tr.run(end) })
	w := &witness{}
	for client := range 4 { // locks of that slot go on as well
		group.Go(func() {
			if err := contend(p, 0, client, "{moving}:lock", tenMinutes, 0, end, w); err != nil {
				t.Errorf("client %d: %v", client, err)
			}
		})
	}
	group.Go(func() { // several keys of a slot that is half here and half there
		m, err := rig.Dial(p.Addr)
		if err != nil {
			t.Error(err)
			return
		}
		defer m.Close()
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			default:
			}
			v, err := m.Do("MSET", "{moving}:a", fmt.Sprint(i), "{moving}:b", fmt.Sprint(i))
			if err != nil || v.Text != "OK" {
				t.Errorf("MSET: %s %v", v, err)
				return
			}
			if v, err = m.Do("MGET", "{moving}:a", "{moving}:b", "{staying}:0"); err != nil ||
				len(v.Elems) != 3 ||
				v.Elems[0].Int() != int64(i) || v.Elems[1].Int() != int64(i) {
				t.Errorf("MGET: %s %v, want %d twice", v, err, i)
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	time.Sleep(300 * time.Millisecond)
	slot := c.SlotOf(t, "moving")
	at := c.MasterOf(t, "moving")
	for i := range rig.Dose(3, 30) {
		to := c.Nodes[(i+1)%3]
		if to == at {
			to = c.Nodes[(i+2)%3]
		}
		move(slot, at, to)
		at = to
		time.Sleep(200 * time.Millisecond)
	}
	tr.await()
	w.await(50, time.Time{})
	close(end)
	group.Wait()
	if n := tr.check(t, 0); n > 0 {
		t.Errorf("%d errors reached clients", n)
	}
	w.check(t, 50)
	rig.Connect(t, p.Addr).Want(t, rig.Quote(strings.Repeat("v", 1000)), "GET", "{moving}:bystander")
	if p.Metric(t, "lockproxy_redirects_total") == 0 {
		t.Error("no redirect was followed: the test did not test")
	}
}

// CLUSTER FAILOVER under load: no error, and nothing lost. No time-out ends a wait here.
func TestManualFailover(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 1)
	p := rig.StartProxy(t, "--upstream", c.Addrs(), "--retry-budget", "2m", "--upstream-timeout", "2m")
	old := c.MasterOf(t, "failing")
	tr, end := newTraffic(p.Addr, 8, append(keysOf("failing", 8),
		keysOf("staying", 4)...)...), make(chan struct{})
	w := &witness{}
	var group sync.WaitGroup
	group.Go(func() { tr.run(end) })
	group.Go(func() {
		if err := contend(p, 0, 0, "{failing}:lock", tenMinutes, 0, end, w); err != nil {
			t.Errorf("lock: %v", err)
		}
	})
	time.Sleep(300 * time.Millisecond)
	replica := c.ReplicasOf(t, old)[0]
	replica.Promote(t)
	tr.await()
	w.await(5, time.Now())
	close(end)
	group.Wait()
	if n := tr.check(t, 0); n > 0 {
		t.Errorf("%d errors reached clients of a fail-over that loses nothing", n)
	}
	w.check(t, 5)
}

// kill -9 of a master: writes on their way end with an unknown outcome and are
// never sent twice; reads and later writes wait for the replica. R33
func TestKilledMaster(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 1)
	p := rig.StartProxy(t, "--upstream", c.Addrs(), "--retry-budget", "2m")
	doomed := c.MasterOf(t, "dying")
	replica := c.ReplicasOf(t, doomed)[0]
	tr, end := newTraffic(p.Addr, 8, keysOf("dying", 8)...), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() { tr.run(end) })
	holder := rig.Connect(t, p.Addr)
	holder.Must(t, "LOCK", "{dying}:lock", "TOKEN", "h", "PX", "60000")
	waiter := rig.Connect(t, p.Addr)
	waiter.Send("LOCK", "{dying}:lock", "TOKEN", "w", "WAIT", "600000", "PX", "600000")
	rig.WaitersOf(t, p.Addr, "{dying}:lock", 1)
	time.Sleep(300 * time.Millisecond)
	doomed.Kill()
	c.DeadAfter("2000")
	lost := tr.lostWith(t, replica)
	read, write := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	for _, probe := range []struct {
		c    *rig.Conn
		args []string
	}{{read, []string{"GET", "{dying}:0"}}, {write, []string{"SET", "{dying}:probe", "1"}}} {
		probe.c.Send(probe.args...)
	}
	if v, err := read.Receive(2 * rig.Patience); err != nil || v.IsError() {
		t.Errorf("GET after the kill: %s %v", v, err)
	}
	if v, err := write.Receive(2 * rig.Patience); err != nil || v.IsError() &&
		!strings.Contains(v.Text, "may or may not have run") {
		t.Errorf("SET after the kill: %s %v", v, err)
	}
	tr.await()
	close(end)
	group.Wait()
	tr.check(t, lost)
	if got := write.Must(t, "INCR", "{dying}:again").Int(); got != 1 {
		t.Errorf("INCR afterwards: %d", got)
	}
	// the lock lives on at the replica, or was lost with the last writes: either way
	// its waiter is served in the end, with a higher fence
	holder.Call(t, "UNLOCK", "{dying}:lock", "h")
	if v, err := waiter.Receive(2 * rig.Patience); err != nil || len(v.Elems) != 4 {
		t.Errorf("the waiter after the fail-over: %s %v", v, err)
	}
}

// Scripts that the nodes forget, and connections that they cut, are healed. R25
func TestForgottenScriptsAndCutConnections(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 0)
	p := rig.StartProxy(t, "--upstream", c.Addrs())
	client := rig.Connect(t, p.Addr)
	sha := client.Must(t, "SCRIPT", "LOAD", "return {KEYS[1], ARGV[1]}").Text
	for i := range 10 {
		c.Each(t, "SCRIPT", "FLUSH")
		lock := fmt.Sprintf("healed:%d", i)
		if v := client.Must(t, "LOCK", lock, "TOKEN", "t", "PX", "600000"); len(v.Elems) != 4 {
			t.Errorf("LOCK after SCRIPT FLUSH: %s", v)
		}
		c.Each(t, "SCRIPT", "FLUSH")
		client.Want(t, "(integer) 1", "UNLOCK", lock, "t")
		client.Want(t, fmt.Sprintf(`["k%d", "v"]`, i), "EVALSHA", sha, "1", fmt.Sprint("k", i), "v")
	}
	// every node forgets while a waiter sleeps
	client.Must(t, "LOCK", "healed", "TOKEN", "t", "PX", "600000")
	waiter := rig.Connect(t, p.Addr)
	waiter.Send("LOCK", "healed", "TOKEN", "w", "WAIT", "600000")
	rig.WaitersOf(t, p.Addr, "healed", 1)
	c.Each(t, "SCRIPT", "FLUSH")
	client.Want(t, "(integer) 1", "UNLOCK", "healed", "t")
	if v, err := waiter.Receive(rig.Patience); err != nil || len(v.Elems) != 4 {
		t.Errorf("the waiter after SCRIPT FLUSH: %s %v", v, err)
	}

	tr, end := newTraffic(p.Addr, 4, keysOf("cut", 4)...), make(chan struct{})
	w := &witness{}
	var group sync.WaitGroup
	group.Go(func() { tr.run(end) })
	for i := range 6 {
		group.Go(func() {
			if err := contend(p, 0, i, "cut", tenMinutes, 0, end, w); err != nil {
				t.Errorf("client %d while connections are cut: %v", i, err)
			}
		})
	}
	for range rig.Dose(5, 100) {
		time.Sleep(200 * time.Millisecond)
		c.Each(t, "CLIENT", "KILL", "TYPE", "normal")
		c.Each(t, "CLIENT", "KILL", "TYPE", "pubsub")
	}
	tr.await()
	w.await(20, time.Time{})
	close(end)
	group.Wait()
	tr.check(t, 0)
	if n := tr.failed.Load(); n > 0 {
		t.Errorf("%d INCR were refused although their outcome was not unknown", n)
	}
	w.check(t, 20)
}

// A Sentinel group whose master dies.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	g := rig.StartSentinels(t)
	p := rig.StartProxy(t, "--upstream", g.Addrs())
	c := rig.Connect(t, p.Addr)
	c.Want(t, "OK", "SET", "k", "v")
	first := c.Must(t, "LOCK", "sentinel", "TOKEN", "t", "PX", "1000")
	if n := g.Master.Do(t, "EXISTS", "k").Int(); n != 1 {
		t.Error("the master has not got the key")
	}
	rig.Eventually(t, rig.Patience, "the replica has the key",
		func() bool { return g.Replica.Do(t, "EXISTS", "k").Int() == 1 })
	g.Master.Kill()
	g.Promoted(t)
	rig.Eventually(t, 4*rig.Patience, "writes go on at the promoted replica", func() bool {
		v, err := rig.Ask(p.Addr, "SET", "k2", "v")
		return err == nil && v.Text == "OK"
	})
	c.Want(t, `"v"`, "GET", "k")
	second := rig.Connect(t, p.Addr).Must(t, "LOCK", "sentinel", "TOKEN", "u", "PX", "1000", "WAIT", "600000")
	if len(second.Elems) != 4 || second.Elems[1].Int() <= first.Elems[1].Int() {
		t.Errorf("the fence before the fail-over was %s, after it %s", first, second)
	}
	if g.Replica.Do(t, "EXISTS", "k2").Int() != 1 {
		t.Error("the promoted replica has not got the write")
	}
}

// A single Redis that goes and comes back.
func TestRestartedRedis(t *testing.T) {
	t.Parallel()
	s := rig.StartRedis(t)
	p := rig.StartProxy(t, "--upstream", s.Addr, "--retry-budget", "2s")
	c := rig.Connect(t, p.Addr)
	c.Want(t, "OK", "SET", "k", "v")
	first := c.Must(t, "LOCK", "restart", "TOKEN", "t", "PX", "60000")
	if status, body, err := p.Get("/readyz"); status != 200 {
		t.Errorf("/readyz: %d %s %v", status, body, err)
	}
	s.Kill()
	rig.Eventually(t, rig.Patience, "/readyz is 503", func() bool {
		status, _, _ := p.Get("/readyz")
		return status == 503
	})
	if v := c.Call(t, "GET", "k"); !v.IsError("CLUSTERDOWN") {
		t.Errorf("without an upstream: %s", v)
	}
	if v := c.Call(t, "LOCK", "restart2"); !v.IsError("CLUSTERDOWN") {
		t.Errorf("trouble is never Null: %s", v) // R10
	}
	c.Want(t, "PONG", "PING")
	s.Restart(t)
	rig.Eventually(t, rig.Patience, "/readyz is 200", func() bool {
		status, _, _ := p.Get("/readyz")
		return status == 200
	})
	c.Want(t, "(nil)", "GET", "k")
	// R31: all is lost, C2 takes the lock, C1 cannot free it; the clock carries the fence on
	second := c.Must(t, "LOCK", "restart", "TOKEN", "u", "PX", "60000")
	if second.Elems[1].Int() <= first.Elems[1].Int() {
		t.Errorf("the fence before the restart was %s, after it %s", first, second)
	}
	c.Want(t, "(nil)", "UNLOCK", "restart", "t")
	c.Want(t, "(integer) 1", "UNLOCK", "restart", "u")
}

// migrateAtOnce moves a slot with all its keys to another master, as Valkey does since 9.0.
func migrateAtOnce(t *testing.T, slot int, from, to *rig.Server) {
	t.Helper()
	s := strconv.Itoa(slot)
	v := from.Do(t, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", s, s, "NODE", to.Do(t, "CLUSTER", "MYID").Text)
	if v.Text != "OK" {
		t.Fatalf("CLUSTER MIGRATESLOTS at %s: %s", from.Addr, v)
	}
	rig.Eventually(t, 2*rig.Patience, "the slot has moved", func() bool {
		jobs := from.Do(t, "CLUSTER", "GETSLOTMIGRATIONS").Elems // the newest first
		if len(jobs) == 0 {
			return false
		}
		state := jobs[0].Field("state").Text
		if state == "failed" || state == "cancelled" {
			t.Fatalf("slot %d does not move from %s to %s: %s", slot, from.Addr, to.Addr, jobs[0])
		}
		return state == "success"
	})
}
