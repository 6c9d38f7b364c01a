package faults

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// resends is a lock of a proxy whose connection to Redis is cut between what
// was asked and the answer, and of another proxy that nobody disturbs.
type resends struct {
	*testing.T
	k           *rig.Link
	near, far   *rig.Proxy
	c, d, other *rig.Conn // clients: two of near, one of far
	lock        string
	fence       int64
}

// cut has the replies to the next requests about the lock cut: one, or several in a row, before
// the first byte or within; or the request itself is lost.
func (r *resends) cut() {
	keeps := []int{}
	for len(keeps) == 0 || rand.IntN(3) == 0 && len(keeps) < 4 {
		keeps = append(keeps, max(rig.LostRequest, rand.IntN(40)-15))
	}
	r.k.CutReply("{"+r.lock+"}", keeps...)
}

// all says that c runs args, whose reply is lost, and wants this reply.
func (r *resends) all(want string, c *rig.Conn, args ...string) {
	r.Helper()
	r.cut()
	c.Want(r.T, want, args...)
}

// granted reads a grant and checks it: its count, what LOCKCTL CHECK says of it, and
// that its fence is higher than that of every earlier grant unless it is the same.
func (r *resends) granted(v rig.Reply, err error, count int64) (token string) {
	r.Helper()
	if err != nil || len(v.Elems) != 4 || v.Elems[3].Int() != count {
		r.Fatalf("granted: %s %v, want count %d", v, err, count)
	}
	token, fence := v.Elems[0].Text, v.Elems[1].Int()
	if count == 1 && fence <= r.fence || count > 1 && fence != r.fence {
		r.Errorf("fence %d after %d", fence, r.fence)
	}
	r.fence = fence
	r.holds(token, count)
	return token
}

// holds says how often the token counts.
func (r *resends) holds(token string, count int64) {
	r.Helper()
	v := r.other.Must(r.T, "LOCKCTL", "CHECK", r.lock, token)
	if len(v.Elems) != 3 || v.Elems[2].Int() != count {
		r.Errorf("LOCKCTL CHECK: %s, want count %d", v, count)
	}
}

func (r *resends) waiters(want int64) {
	r.Helper()
	rig.WaitersOf(r.T, r.far.Addr, r.lock, want)
}

// Each of these leaves the lock free, and nobody waiting.
var resent = map[string]func(r *resends){
	"LOCK": func(r *resends) {
		r.cut()
		v, err := r.c.Do("LOCK", r.lock, "PX", "600000")
		r.all("(integer) 1", r.c, "UNLOCK", r.lock, r.granted(v, err, 1))
	},
	"UNLOCK of a lock that nobody looked at": func(r *resends) {
		v := r.c.Must(r.T, "LOCK", r.lock, "TOKEN", "t", "PX", "600000")
		if fence := v.Elems[1].Int(); fence <= r.fence {
			r.Errorf("fence %d after %d", fence, r.fence)
		} else {
			r.fence = fence
		}
		r.all("(integer) 1", r.c, "UNLOCK", r.lock, "t")
		r.all("(nil)", r.c, "UNLOCK", r.lock, "t")
	},
	"LOCK WAIT, granted at once": func(r *resends) {
		r.cut()
		v, err := r.c.Do("LOCK", r.lock, "PX", "600000", "WAIT", "600000")
		r.all("(integer) 1", r.c, "UNLOCK", r.lock, r.granted(v, err, 1))
	},
	"LOCK REENTRANT": func(r *resends) {
		v, err := r.c.Do("LOCK", r.lock, "TOKEN", "t", "PX", "600000")
		r.granted(v, err, 1)
		for n := range 3 {
			r.cut()
			v, err := r.d.Do("LOCK", r.lock, "TOKEN", "t", "PX", "600000", "REENTRANT")
			r.granted(v, err, int64(n+2))
		}
		for n := range 3 {
			r.all("(integer) 0", r.c, "UNLOCK", r.lock, "t")
			r.holds("t", int64(3-n))
		}
		r.all("(integer) 1", r.c, "UNLOCK", r.lock, "t")
		r.all("(nil)", r.c, "UNLOCK", r.lock, "t")
	},
	"the same token again": func(r *resends) {
		v, err := r.c.Do("LOCK", r.lock, "TOKEN", "t", "PX", "600000")
		r.granted(v, err, 1)
		r.cut()
		v = r.c.Must(r.T, "LOCK", r.lock, "TOKEN", "t", "PX", "600000")
		if v.Elems[1].Int() != r.fence || v.Elems[3].Int() != 1 {
			r.Errorf("the same token again: %s", v)
		}
		r.holds("t", 1)
		r.all("(integer) 1", r.c, "UNLOCK", r.lock, "t")
	},
	"LOCK of what is held": func(r *resends) {
		r.other.Must(r.T, "LOCK", r.lock, "TOKEN", "h", "PX", "600000")
		r.all("(nil)", r.c, "LOCK", r.lock, "TOKEN", "t")
		r.all("(nil)", r.c, "LOCK", r.lock, "TOKEN", "t", "TRIES", "3", "EVERY", "5")
		r.all("(nil)", r.c, "UNLOCK", r.lock, "t")
		r.other.Want(r.T, "(integer) 1", "UNLOCK", r.lock, "h")
	},
	"LOCK WAIT, queued, of the same proxy": func(r *resends) { r.queued(r.c) },
	"LOCK WAIT, queued, of another proxy":  func(r *resends) { r.queued(r.other) },
	"LOCK WAIT, woken": func(r *resends) {
		r.other.Must(r.T, "LOCK", r.lock, "TOKEN", "h", "PX", "600000")
		r.d.Send("LOCK", r.lock, "TOKEN", "w", "PX", "600000", "WAIT", "600000")
		r.waiters(1)
		r.cut() // of the attempt that is made when the message comes
		r.other.Want(r.T, "(integer) 1", "UNLOCK", r.lock, "h")
		v, err := r.d.Receive(rig.Patience)
		r.granted(v, err, 1)
		r.all("(integer) 1", r.d, "UNLOCK", r.lock, "w")
	},
	"LOCK WAIT, in vain": func(r *resends) {
		r.other.Must(r.T, "LOCK", r.lock, "TOKEN", "h", "PX", "600000")
		r.d.Send("LOCK", r.lock, "TOKEN", "w", "PX", "600000", "WAIT", "1000")
		rig.Eventually(r.T, rig.Patience, "it waits, or has waited", func() bool {
			_, n := rig.LockInfo(r.T, r.far.Addr, r.lock)
			return n == 1 || !r.d.Silent(time.Millisecond)
		})
		r.cut() // of an attempt, or of its leaving
		if v, err := r.d.Receive(rig.Patience); err != nil || !v.Null {
			r.Errorf("a wait in vain: %s %v", v, err)
		}
		r.waiters(0)
		r.other.Want(r.T, "(integer) 1", "UNLOCK", r.lock, "h")
	},
	"LOCK WAIT of a client that goes": func(r *resends) {
		r.other.Must(r.T, "LOCK", r.lock, "TOKEN", "h", "PX", "600000")
		gone, err := rig.Dial(r.near.Addr)
		if err != nil {
			r.Fatal(err)
		}
		gone.Send("LOCK", r.lock, "TOKEN", "w", "PX", "600000", "WAIT", "600000")
		r.waiters(1)
		r.cut()
		gone.Close()
		r.waiters(0)
		r.other.Want(r.T, "(integer) 1", "UNLOCK", r.lock, "h")
	},
	"RENEW": func(r *resends) {
		v, err := r.c.Do("LOCK", r.lock, "TOKEN", "t", "PX", "10000")
		r.granted(v, err, 1)
		r.cut()
		if left := r.c.Must(r.T, "RENEW", r.lock, "t", "PX", "600000").Int(); left <= 10000 || left > 600000 {
			r.Errorf("RENEW: %d ms left", left)
		}
		r.holds("t", 1)
		r.all("(integer) 0", r.c, "RENEW", r.lock, "another", "PX", "600000")
		r.all("(integer) 1", r.c, "UNLOCK", r.lock, "t")
		r.all("(integer) 0", r.c, "RENEW", r.lock, "t", "PX", "600000")
	},
	"RLOCK": func(r *resends) {
		for i, token := range []string{"one", "two", "one"} {
			r.cut()
			v, err := r.c.Do("RLOCK", r.lock, "TOKEN", token, "PX", "600000", "REENTRANT")
			if i == 2 { // the fence of its first grant
				if err != nil || len(v.Elems) != 4 || v.Elems[3].Int() != 2 {
					r.Fatalf("RLOCK REENTRANT: %s %v", v, err)
				}
				r.holds(token, 2)
				continue
			}
			r.granted(v, err, 1)
		}
		r.all("(integer) 0", r.c, "UNLOCK", r.lock, "one")
		r.all("(integer) 1", r.c, "UNLOCK", r.lock, "two")
		r.holds("one", 1)
		r.all("(integer) 1", r.c, "UNLOCK", r.lock, "one")
	},
	"a reader becomes the writer": func(r *resends) {
		v, err := r.c.Do("RLOCK", r.lock, "TOKEN", "t", "PX", "600000")
		r.granted(v, err, 1)
		r.cut()
		v, err = r.c.Do("WLOCK", r.lock, "TOKEN", "t", "PX", "600000")
		r.granted(v, err, 1)
		r.other.Want(r.T, "(nil)", "RLOCK", r.lock)
		r.all("(integer) 1", r.c, "UNLOCK", r.lock, "t")
	},
	"a reader becomes the writer when the other one leaves": func(r *resends) {
		v, err := r.c.Do("RLOCK", r.lock, "TOKEN", "t", "PX", "600000")
		r.granted(v, err, 1)
		v, err = r.other.Do("RLOCK", r.lock, "TOKEN", "o", "PX", "600000")
		r.granted(v, err, 1)
		r.cut()
		r.d.Send("WLOCK", r.lock, "TOKEN", "t", "PX", "600000", "WAIT", "600000")
		r.waiters(1)
		r.all("(integer) 1", r.c, "UNLOCK", r.lock, "o")
		v, err = r.d.Receive(rig.Patience)
		r.granted(v, err, 1)
		r.all("(integer) 1", r.c, "UNLOCK", r.lock, "t")
	},
	"the writer becomes a reader": func(r *resends) {
		v, err := r.c.Do("LOCK", r.lock, "TOKEN", "t", "PX", "600000")
		r.granted(v, err, 1)
		r.cut()
		if v := r.c.Must(r.T, "RLOCK", r.lock, "TOKEN", "t", "PX", "600000"); len(v.Elems) != 4 ||
			v.Elems[3].Int() != 1 {
			r.Errorf("RLOCK by the writer: %s", v)
		}
		r.holds("t", 1)
		r.fence = r.other.Must(r.T, "LOCKCTL", "CHECK", r.lock, "t").Elems[1].Int()
		r.cut()
		v, err = r.d.Do("RLOCK", r.lock, "TOKEN", "o", "PX", "600000")
		r.granted(v, err, 1)
		r.all("(integer) 1", r.c, "UNLOCK", r.lock, "t")
		r.all("(integer) 1", r.c, "UNLOCK", r.lock, "o")
	},
	"LOCK KEEPALIVE": func(r *resends) {
		r.cut()
		v, err := r.c.Do("LOCK", r.lock, "TOKEN", "t", "PX", "600000", "KEEPALIVE")
		r.granted(v, err, 1)
		r.cut()
		if left := r.d.Must(r.T, "RENEW", r.lock, "t", "PX", "600000", "KEEPALIVE").Int(); left < 30000 {
			r.Errorf("RENEW KEEPALIVE: %d ms left", left)
		}
		r.holds("t", 1)
		r.all("(integer) 1", r.d, "UNLOCK", r.lock, "t")
	},
	"LOCK KEEPALIVE of a client that goes": func(r *resends) {
		gone, err := rig.Dial(r.near.Addr)
		if err != nil {
			r.Fatal(err)
		}
		v, err := gone.Do("LOCK", r.lock, "TOKEN", "t", "PX", "600000", "KEEPALIVE")
		r.granted(v, err, 1)
		r.cut()
		gone.Close()
		rig.Eventually(r.T, rig.Patience, "the hold is released", func() bool {
			state, _ := rig.LockInfo(r.T, r.far.Addr, r.lock)
			return state == "free"
		})
	},
	"LOCKCTL BREAK": func(r *resends) {
		v, err := r.other.Do("LOCK", r.lock, "TOKEN", "t", "PX", "600000")
		r.granted(v, err, 1)
		r.cut() // it carries no id, so it is not sent again
		v = r.c.Call(r.T, "LOCKCTL", "BREAK", r.lock)
		if !strings.Contains(v.Text, "may or may not have run") {
			r.Errorf("LOCKCTL BREAK whose reply was lost: %s", v)
		}
		r.k.Disarm()
		r.c.Must(r.T, "LOCKCTL", "BREAK", r.lock)
		r.c.Want(r.T, "(integer) 0", "LOCKCTL", "BREAK", r.lock)
		r.other.Want(r.T, "(nil)", "UNLOCK", r.lock, "t")
	},
	"UNLOCK FENCE": func(r *resends) {
		v, err := r.c.Do("LOCK", r.lock, "TOKEN", "t", "PX", "600000")
		r.granted(v, err, 1)
		r.all("(nil)", r.c, "UNLOCK", r.lock, "t", "FENCE", "1")
		r.all("(integer) 1", r.c, "UNLOCK", r.lock, "t", "FENCE", fmt.Sprint(r.fence))
	},
}

// queued has a waiter join over a cut, and gives it the lock by an UNLOCK of holder.
func (r *resends) queued(holder *rig.Conn) {
	r.Helper()
	v, err := holder.Do("LOCK", r.lock, "TOKEN", "h", "PX", "600000")
	r.granted(v, err, 1)
	r.cut()
	r.d.Send("LOCK", r.lock, "TOKEN", "w", "PX", "600000", "WAIT", "600000")
	r.waiters(1)
	r.all("(integer) 1", holder, "UNLOCK", r.lock, "h")
	v, err = r.d.Receive(rig.Patience)
	r.granted(v, err, 1)
	r.all("(integer) 1", r.d, "UNLOCK", r.lock, "w")
}

// The connection is cut between a lock verb and its answer, before, or in the middle of the answer:
// the client gets the right one, nothing is counted twice, no hold and no place in
// the queue is left behind. R15 R16 R33
func TestCutReplies(t *testing.T) {
	for name, scenario := range resent {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := rig.SharedRedis()
			k := rig.StartLink(t, s.Addr)
			r := &resends{T: t, k: k, lock: t.Name(), near: rig.StartProxy(t, "--upstream", k.Addr()),
				far: rig.SharedOverRedis()}
			r.c, r.d = rig.Connect(t, r.near.Addr), rig.Connect(t, r.near.Addr)
			r.other = rig.Connect(t, r.far.Addr)
			r.c.Must(t, "LOCK", r.lock, "TOKEN", "warm")
			r.c.Must(t, "UNLOCK", r.lock, "warm")
			for n := rig.Dose(5, 500); n > 0 || k.Cuts() < rig.Dose(5, 500); n-- {
				scenario(r)
				k.Disarm()
				if state, waiters := rig.LockInfo(t, r.far.Addr, r.lock); state != "free" || waiters != 0 {
					t.Fatalf("afterwards the lock is %s with %d waiters", state, waiters)
				}
				if t.Failed() {
					break
				}
			}
		})
	}
}

// The same in a cluster, where requests of all kinds are on their way together, and
// connections are cut anywhere: whatever happens, nobody is left behind. R15 R33
func TestCutConnections(t *testing.T) {
	t.Parallel()
	c := rig.StartLinkedCluster(t, 3, 0)
	proxies := []*rig.Proxy{rig.StartProxy(t, "--upstream", c.Addrs()),
		rig.StartProxy(t, "--upstream", c.Addrs())}
	w, end := &witness{}, make(chan struct{})
	var unsure atomic.Int64
	var group sync.WaitGroup
	for client := range 16 {
		group.Go(func() {
			if err := contendOverCuts(proxies[client%2].Addr, client, "cut", end, w, &unsure); err != nil {
				t.Errorf("client %d: %v", client, err)
			}
		})
	}
	for client := range 4 {
		group.Go(func() {
			if err := reenter(proxies[client%2].Addr, fmt.Sprint("cut:", client), end); err != nil {
				t.Errorf("re-entering client %d: %v", client, err)
			}
		})
	}
	cuts := rig.Dose(30, 5000)
	for range cuts {
		n := c.Nodes[rand.IntN(3)].Link
		switch rand.IntN(4) {
		case 0:
			n.Cut()
		case 1:
			n.Delay(time.Duration(rand.IntN(10)) * time.Millisecond)
		default:
			n.CutReply("EVALSHA", rand.IntN(40)-1, rand.IntN(40)-1)
		}
		time.Sleep(time.Duration(20+rand.IntN(100)) * time.Millisecond)
	}
	for _, n := range c.Nodes {
		n.Link.Delay(0)
		n.Link.Disarm()
	}
	w.await(20, time.Now())
	close(end)
	group.Wait()
	t.Logf("%d grants over %d cuts, %d of their UNLOCKs were remembered no more", len(w.grants), cuts,
		unsure.Load())
	w.check(t, 20)
	for _, lock := range []string{"cut", "cut:0", "cut:1", "cut:2", "cut:3"} {
		rig.Eventually(t, rig.Patience, lock+" is free and nobody waits", func() bool {
			state, waiters := rig.LockInfo(t, proxies[0].Addr, lock)
			return state == "free" && waiters == 0
		})
	}
}

// contendOverCuts is contend of a client whose UNLOCK may be answered Null, which is counted: a release is
// remembered until the next one of that lock, and others may be faster than a new
// connection. The hold must be gone all the same.
func contendOverCuts(addr string, client int, lock string, end <-chan struct{}, w *witness,
	unsure *atomic.Int64) error {
	c, err := rig.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for i := 0; ; i++ {
		select {
		case <-end:
			return nil
		default:
		}
		asked, token := time.Now(), fmt.Sprintf("client%d.%d", client, i)
		c.Send("LOCK", lock, "TOKEN", token, "PX", "600000", "WAIT", "600000")
		v, err := c.Receive(tenMinutes)
		if err != nil || len(v.Elems) != 4 || v.Elems[3].Int() != 1 {
			return fmt.Errorf("LOCK: %s %v", v, err)
		}
		w.enter(grant{client, v.Elems[1].Int(), asked, time.Now(), 0})
		switch v, err := c.Do("UNLOCK", lock, token); {
		case err == nil && v.Null:
			unsure.Add(1)
			if v, err := c.Do("LOCKCTL", "CHECK", lock, token); err != nil || !v.Null {
				return fmt.Errorf("UNLOCK was answered Null, LOCKCTL CHECK says %s %v", v, err)
			}
		case err != nil || v.Text != "1":
			return fmt.Errorf("UNLOCK: %s %v", v, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// reenter takes a lock several times over and frees it as often, until end is closed:
// each reply must count right.
func reenter(addr, lock string, end <-chan struct{}) error {
	c, err := rig.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for i := 0; ; i++ {
		select {
		case <-end:
			return nil
		default:
		}
		token := fmt.Sprint("t", i)
		for n := range 3 {
			v, err := c.Do("LOCK", lock, "TOKEN", token, "PX", "600000", "REENTRANT", "WAIT", "100000")
			if err != nil || len(v.Elems) != 4 || v.Elems[3].Int() != int64(n+1) {
				return fmt.Errorf("entered %d times before: %s %v", n, v, err)
			}
		}
		for n := range 3 {
			want := "0"
			if n == 2 {
				want = "1"
			}
			if v, err := c.Do("UNLOCK", lock, token); err != nil || v.Text != want {
				return fmt.Errorf("left %d times before: %s %v", n, v, err)
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// An INCR whose reply was lost is never sent again: the counter is where its clients say,
// give or take those that were told that the outcome is unknown. R33
func TestCutReplyOfWrite(t *testing.T) {
	t.Parallel()
	c := rig.StartLinkedCluster(t, 3, 0)
	p := rig.StartProxy(t, "--upstream", c.Addrs())
	tr, end := newTraffic(p.Addr, 6, keysOf("counted", 4)...), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() { tr.run(end) })
	n := c.MasterOf(t, "{counted}").Link
	for range rig.Dose(20, 2000) {
		n.CutReply("INCR", rand.IntN(4)-1)
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
	}
	rig.Eventually(t, 2*rig.Patience, "some replies are cut", func() bool {
		n.CutReply("INCR", rand.IntN(4)-1)
		return n.Cuts() >= 4
	})
	n.Disarm()
	tr.await()
	close(end)
	group.Wait()
	tr.check(t, 0)

	// alone, each outcome is known exactly
	client := rig.Connect(t, p.Addr)
	client.Must(t, "SET", "{counted}:alone", "0")
	for i := range 10 {
		n.CutReply("INCR", i%3)
		client.Send("INCR", "{counted}:alone")
		// a reply that was cut off after its first bytes ends the client
		if v, err := client.Receive(rig.Patience); err == nil && !v.IsError() {
			t.Errorf("INCR whose reply was lost: %s", v)
		} else if err != nil {
			client = rig.Connect(t, p.Addr)
		}
	}
	if got := client.Must(t, "GET", "{counted}:alone").Int(); got != 10 {
		t.Errorf("after 10 INCR whose reply was lost the counter is at %d", got)
	}
}
