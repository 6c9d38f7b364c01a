package faults

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// witness is what the lock under test protects, without any protection of its
// own: it notices two writers at once.
type witness struct {
	inside  atomic.Int32
	count   int // deliberately unprotected; -race watches it too
	overlap atomic.Int32

	mu     sync.Mutex
	grants []grant
}

type grant struct {
	client int
	fence  int64
	asked  time.Time // when LOCK was sent
	got    time.Time // when the grant came
	proxy  int
}

// enter is the critical section: a moment in which nobody else may be inside.
func (w *witness) enter(g grant) {
	if w.inside.Add(1) != 1 {
		w.overlap.Add(1)
	}
	if w.overlap.Load() == 0 {
		w.count++
	}
	w.mu.Lock()
	w.grants = append(w.grants, g)
	w.mu.Unlock()
	w.inside.Add(-1)
}

// check judges what the witness saw: nobody overlapped, and fences rose in the
// order of the grants.
func (w *witness) check(t *testing.T, atLeast int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.overlap.Load(); n > 0 {
		t.Errorf("%d times two clients held the lock", n)
	}
	if len(w.grants) < atLeast {
		t.Errorf("only %d grants, want %d", len(w.grants), atLeast)
	}
	for i := 1; i < len(w.grants); i++ {
		if w.grants[i].fence <= w.grants[i-1].fence {
			t.Errorf("grant %d has fence %d, the one before it %d", i, w.grants[i].fence, w.grants[i-1].fence)
		}
	}
}

// await waits, for a while, until so many grants have come after a time; check tells if they have not.
func (w *witness) await(n int, after time.Time) {
	for end := time.Now().Add(4 * rig.Patience); w.since(after) < n && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
}

// since counts the grants that came after a time.
func (w *witness) since(after time.Time) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.grants {
		if g.got.After(after) {
			n++
		}
	}
	return n
}

// tenMinutes is a lease that ends in no test.
const tenMinutes = 10 * time.Minute

// contend takes and frees a lock rounds times (0: until its connection breaks or end is closed), with a pause
// in which others have the machine, and returns the first error.
func contend(p *rig.Proxy, proxy, client int, lock string, lease time.Duration, rounds int,
	end <-chan struct{}, w *witness) error {
	c, err := rig.Dial(p.Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	token := fmt.Sprintf("client%d", client)
	for i := 0; rounds == 0 || i < rounds; i++ {
		select {
		case <-end:
			return nil
		default:
		}
		asked := time.Now()
		c.Send("LOCK", lock, "TOKEN", token, "PX", fmt.Sprint(lease.Milliseconds()), "WAIT", "600000")
		v, err := c.Receive(10 * time.Minute)
		if err != nil {
			return err
		}
		if len(v.Elems) != 4 {
			return fmt.Errorf("LOCK: %s", v)
		}
		w.enter(grant{client, v.Elems[1].Int(), asked, time.Now(), proxy})
		if v, err := c.Do("UNLOCK", lock, token); err != nil || v.Text != "1" {
			return fmt.Errorf("UNLOCK: %s %v", v, err)
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// Fifty clients of two proxies over one cluster: one writer at a time, and fences rise. R8 R25
func TestTwoProxies(t *testing.T) {
	t.Parallel()
	proxies := twoOverSharedCluster(t)
	contendOver(t, proxies, "two")
	for i, p := range proxies {
		if state, n := rig.LockInfo(t, p.Addr, "two"); state != "free" || n != 0 {
			t.Errorf("afterwards proxy %d says the lock is %s with %d waiters", i, state, n)
		}
		if waiting := p.Metric(t, "lockproxy_lock_waiters"); waiting != 0 {
			t.Errorf("afterwards proxy %d has %v waiters", i, waiting)
		}
	}
}

func twoOverSharedCluster(t *testing.T) []*rig.Proxy {
	t.Helper()
	nodes := rig.SharedCluster().Nodes
	return []*rig.Proxy{rig.StartProxy(t, "--upstream", nodes[0].Addr),
		rig.StartProxy(t, "--upstream", nodes[1].Addr)}
}

// contendOver has fifty clients of two proxies contend for a lock.
func contendOver(t *testing.T, proxies []*rig.Proxy, lock string) *witness {
	t.Helper()
	const clients = 50
	w, rounds := &witness{}, rig.Dose(10, 1000)
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			if err := contend(proxies[client%2], client%2, client, lock, tenMinutes, rounds, nil,
				w); err != nil {
				t.Errorf("client %d: %v", client, err)
			}
		})
	}
	group.Wait()
	w.check(t, clients*rounds)
	if w.count != clients*rounds {
		t.Errorf("the counter is at %d, want %d", w.count, clients*rounds)
	}
	return w
}

// Readers and writers of two proxies: readers share, nobody is with a writer. R29 R30
func TestTwoProxiesReadersAndWriters(t *testing.T) {
	t.Parallel()
	addrs := []string{rig.SharedOverCluster().Addr,
		rig.StartProxy(t, "--upstream", rig.SharedCluster().Nodes[2].Addr).Addr}
	var readers, writers, mixed, together atomic.Int32
	var group sync.WaitGroup
	for client := range 20 {
		group.Go(func() {
			c, err := rig.Dial(addrs[client%2])
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			verb, me, other := "RLOCK", &readers, &writers
			if client%5 == 0 {
				verb, me, other = "WLOCK", &writers, &readers
			}
			for range rig.Dose(15, 500) {
				c.Send(verb, "readers", "PX", "600000", "WAIT", "600000")
				v, err := c.Receive(tenMinutes)
				if err != nil || len(v.Elems) != 4 {
					t.Errorf("%s: %s %v", verb, v, err)
					return
				}
				n := me.Add(1)
				if other.Load() > 0 || me == &writers && n > 1 {
					mixed.Add(1)
				}
				if me == &readers && n > 1 {
					together.Add(1)
				}
				time.Sleep(time.Millisecond)
				me.Add(-1)
				if v, err := c.Do("UNLOCK", "readers", v.Elems[0].Text); err != nil || v.Text != "1" {
					t.Errorf("UNLOCK: %s %v", v, err)
					return
				}
			}
		})
	}
	group.Wait()
	if n := mixed.Load(); n > 0 {
		t.Errorf("%d times a writer was not alone", n)
	}
	if together.Load() == 0 {
		t.Error("readers never shared the lock")
	}
}

// kill -9 of one of two proxies while clients of both contend: what it held is free after a lease, and so is
// the way past its waiters. R25
func TestKilledProxy(t *testing.T) {
	t.Parallel()
	killedWhileContending(t)
}

// killedWhileContending has most of eighty clients contend over a proxy that is killed.
func killedWhileContending(t *testing.T) *witness {
	t.Helper()
	const lease, waiting = 2 * time.Second, 80
	live := rig.StartProxy(t, "--upstream", rig.SharedCluster().Addrs())
	doomed := rig.StartProxy(t, "--upstream", rig.SharedCluster().Addrs())
	w, end, lock := &witness{}, make(chan struct{}), "doomed:"+t.Name()
	var group sync.WaitGroup
	for client := range waiting {
		group.Go(func() {
			p, proxy, of := live, 0, tenMinutes
			if client%8 > 0 {
				p, proxy, of = doomed, 1, lease
			}
			if err := contend(p, proxy, client, lock, of, 0, end, w); err != nil && p == live {
				t.Errorf("client %d: %v", client, err)
			}
		})
	}
	w.await(rig.Dose(100, 2000), time.Time{})
	doomed.Kill()
	free := time.Now().Add(lease)
	w.await(20, free)
	close(end)
	group.Wait()
	w.check(t, 100)
	if n := w.since(free); n < 20 {
		t.Errorf("only %d grants after the lease of the killed proxy", n)
	}
	return w
}

// A proxy that is stopped (SIGSTOP) holds the clients of the other up for the lease of its holder; when it
// goes on nothing is granted twice.
func TestStoppedProxy(t *testing.T) {
	t.Parallel()
	const lease = 4 * time.Second // the proxy is stopped in that time
	live := rig.StartProxy(t, "--upstream", rig.SharedCluster().Addrs())
	stopped := rig.StartProxy(t, "--upstream", rig.SharedCluster().Addrs())
	// The lease of the holder begins when all is ready, and the one before it has unlocked.
	before, holder := rig.Connect(t, live.Addr), rig.Connect(t, stopped.Addr)
	behind, third := rig.Connect(t, stopped.Addr), rig.Connect(t, live.Addr)
	before.Must(t, "LOCK", "stopped", "TOKEN", "before", "PX", "600000")
	for i, c := range []*rig.Conn{holder, behind, third} {
		token, px := []string{"h", "behind", "third"}[i], []string{"4000", "600000", "600000"}[i]
		c.Send("LOCK", "stopped", "TOKEN", token, "PX", px, "WAIT", "600000")
		rig.WaitersOf(t, live.Addr, "stopped", int64(i)+1)
	}
	granted := time.Now()
	before.Want(t, "(integer) 1", "UNLOCK", "stopped", "before")
	first, err := holder.Receive(rig.Patience)
	stopped.Stop(t)
	if err != nil || len(first.Elems) != 4 {
		t.Fatalf("the holder: %s %v", first, err)
	}
	v, err := third.Receive(rig.Patience)
	until := granted.Add(lease)
	if err != nil || len(v.Elems) != 4 || v.Elems[1].Int() <= first.Elems[1].Int() {
		t.Fatalf("the waiter behind a stopped proxy's: %s %v", v, err)
	}
	if time.Now().Before(until) {
		t.Error("the waiter behind a stopped proxy's got the lock before the lease of its holder was over")
	}
	stopped.Signal(syscall.SIGCONT)
	if !behind.Silent(300 * time.Millisecond) {
		v, err := behind.Receive(rig.Patience)
		t.Fatalf("after SIGCONT its waiter got %s %v while another holds the lock", v, err)
	}
	holder.Want(t, "(nil)", "UNLOCK", "stopped", "h")
	third.Want(t, "(integer) 1", "UNLOCK", "stopped", "third")
	if b, err := behind.Receive(rig.Patience); err != nil || len(b.Elems) != 4 ||
		b.Elems[1].Int() <= v.Elems[1].Int() {
		t.Errorf("its waiter at last: %s %v", b, err)
	}
}
