package faults

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// earlier is a commit of before 0.1.0, since there is no release yet: it knows no ATLEAST, SEMLOCK, MLOCK and
// BREAK. Let it be that of the last release as soon as there is one.
const earlier = "fc0ea996adb38ae0467a1c3933175a8318fdb870"

// During an upgrade proxies of two versions serve the same locks: what one grants the other knows, frees,
// renews and hands over, in both directions.
func TestBesideAnEarlierProxy(t *testing.T) {
	t.Parallel()
	nodes := rig.SharedCluster().Nodes
	before := rig.StartBinary(t, rig.Earlier(t, earlier), "--upstream", nodes[0].Addr)
	after := rig.StartProxy(t, "--upstream", nodes[1].Addr)

	t.Run("verbs", func(t *testing.T) {
		for _, way := range []struct {
			name     string
			one, two *rig.Proxy
		}{{"earlier first", before, after}, {"earlier second", after, before}} {
			t.Run(way.name, func(t *testing.T) {
				upgrade{t, "upgrade-" + strings.ReplaceAll(way.name, " ", "-"), rig.Connect(t, way.one.Addr),
					rig.Connect(t, way.two.Addr), way.one, way.two}.try()
			})
		}
	})

	// Of what an earlier proxy does not know it takes nothing away.
	t.Run("newer verbs", func(t *testing.T) {
		newer, older := rig.Connect(t, after.Addr), rig.Connect(t, before.Addr)
		newer.Must(t, "SEMLOCK", "upgrade-permits", "PERMITS", "2", "TOKEN", "p", "PX", "60000")
		if v := older.Call(t, "LOCK", "upgrade-permits"); !strings.HasPrefix(v.Text, "LOCKTYPE ") {
			t.Errorf("LOCK of a semaphore: %s", v)
		}
		newer.Want(t, "(integer) 1", "UNLOCK", "upgrade-permits", "p")
		newer.Must(t, "LOCK", "upgrade-rests", "TOKEN", "r", "PX", "60000", "ATLEAST", "60000")
		newer.Want(t, "(integer) 1", "UNLOCK", "upgrade-rests", "r")
		older.Want(t, "(nil)", "LOCK", "upgrade-rests")
	})

	t.Run("contention", func(t *testing.T) {
		const clients = 20
		w, rounds := &witness{}, rig.Dose(10, 1000)
		var group sync.WaitGroup
		for client := range clients {
			p := []*rig.Proxy{before, after}[client%2]
			group.Go(func() {
				err := contend(p, client%2, client, "versions", 20*time.Second, rounds, nil, w)
				if err != nil {
					t.Errorf("client %d: %v", client, err)
				}
			})
		}
		group.Wait()
		w.check(t, clients*rounds)
		for _, p := range []*rig.Proxy{before, after} {
			if state, n := rig.LockInfo(t, p.Addr, "versions"); state != "free" || n != 0 {
				t.Errorf("afterwards %s says the lock is %s with %d waiters", p.Addr, state, n)
			}
		}
	})
}

// upgrade is what clients of two proxies, one of which is of an earlier version, do with one lock.
type upgrade struct {
	t        *testing.T
	lock     string
	one, two *rig.Conn // clients of the first and of the second
	first    *rig.Proxy
	second   *rig.Proxy
}

func (u upgrade) try() {
	fence := u.grants(0)
	fence = u.readers(fence)
	fence = u.counts(fence)
	fence = u.handsOver(fence)
	u.keeps(fence)
}

// fence is that of a grant, which has to be higher than those before.
func (u upgrade) fence(grant rig.Reply, above int64) int64 {
	u.t.Helper()
	if len(grant.Elems) != 4 || grant.Elems[1].Int() <= above {
		u.t.Fatalf("granted %s after the fence %d", grant, above)
	}
	return grant.Elems[1].Int()
}

// grants: a hold excludes, is seen, renewed and freed at the other proxy.
func (u upgrade) grants(above int64) int64 {
	above = u.fence(u.one.Must(u.t, "LOCK", u.lock, "TOKEN", "a", "PX", "60000", "META", "m"), above)
	u.two.Want(u.t, "(nil)", "LOCK", u.lock, "TOKEN", "b")
	u.two.Want(u.t, "(nil)", "UNLOCK", u.lock, "b")
	if state, _ := rig.LockInfo(u.t, u.second.Addr, u.lock); state != "write" {
		u.t.Errorf("the other says it is %s", state)
	}
	if v := u.two.Must(u.t, "RENEW", u.lock, "a", "PX", "90000"); v.Int() <= 60000 {
		u.t.Errorf("renewed until %s", v)
	}
	u.two.Want(u.t, "(integer) 1", "UNLOCK", u.lock, "a")
	above = u.fence(u.two.Must(u.t, "LOCK", u.lock, "TOKEN", "c"), above)
	u.one.Want(u.t, "(integer) 1", "UNLOCK", u.lock, "c")
	return above
}

// readers: those of both share, and a writer waits for both.
func (u upgrade) readers(above int64) int64 {
	above = u.fence(u.one.Must(u.t, "RLOCK", u.lock, "TOKEN", "r1", "PX", "60000"), above)
	above = u.fence(u.two.Must(u.t, "RLOCK", u.lock, "TOKEN", "r2", "PX", "60000"), above)
	u.one.Want(u.t, "(nil)", "WLOCK", u.lock, "TOKEN", "w")
	u.two.Want(u.t, "(nil)", "WLOCK", u.lock, "TOKEN", "w")
	u.two.Want(u.t, "(integer) 1", "UNLOCK", u.lock, "r1")
	u.one.Want(u.t, "(nil)", "WLOCK", u.lock, "TOKEN", "w")
	u.one.Want(u.t, "(integer) 1", "UNLOCK", u.lock, "r2")
	return above
}

// counts: one that is taken again is freed as often, wherever that is done.
func (u upgrade) counts(above int64) int64 {
	above = u.fence(u.one.Must(u.t, "LOCK", u.lock, "TOKEN", "e", "PX", "60000", "REENTRANT"), above)
	again := u.two.Must(u.t, "LOCK", u.lock, "TOKEN", "e", "PX", "60000", "REENTRANT")
	if len(again.Elems) != 4 || again.Elems[3].Int() != 2 {
		u.t.Errorf("taken again: %s", again)
	}
	u.one.Want(u.t, "(integer) 0", "UNLOCK", u.lock, "e")
	u.two.Want(u.t, "(integer) 1", "UNLOCK", u.lock, "e")
	return above
}

// handsOver: those who wait at both are served in the order in which they came.
func (u upgrade) handsOver(above int64) int64 {
	above = u.fence(u.one.Must(u.t, "LOCK", u.lock, "TOKEN", "h", "PX", "60000"), above)
	var waiters []*rig.Conn
	for i := range 4 {
		p := []*rig.Proxy{u.second, u.first}[i%2]
		c := rig.Connect(u.t, p.Addr)
		c.Send("LOCK", u.lock, "TOKEN", fmt.Sprint("h", i), "PX", "60000", "WAIT", "60000")
		rig.WaitersOf(u.t, u.first.Addr, u.lock, int64(i+1))
		waiters = append(waiters, c)
	}
	token := "h"
	for i, c := range waiters {
		u.one.Want(u.t, "(integer) 1", "UNLOCK", u.lock, token)
		grant, err := c.Receive(2 * rig.Patience)
		if err != nil {
			u.t.Fatalf("waiter %d: %v", i, err)
		}
		above, token = u.fence(grant, above), fmt.Sprint("h", i)
	}
	u.two.Want(u.t, "(integer) 1", "UNLOCK", u.lock, token)
	return above
}

// keeps: a hold that one proxy keeps alive excludes at the other, and is free there when its connection ends.
func (u upgrade) keeps(above int64) {
	c := rig.Connect(u.t, u.first.Addr)
	above = u.fence(c.Must(u.t, "LOCK", u.lock, "TOKEN", "k", "PX", "20000", "KEEPALIVE"), above)
	u.two.Want(u.t, "(nil)", "LOCK", u.lock, "TOKEN", "l")
	u.two.Send("LOCK", u.lock, "TOKEN", "l", "WAIT", "60000")
	rig.WaitersOf(u.t, u.first.Addr, u.lock, 1)
	c.Close()
	grant, err := u.two.Receive(2 * rig.Patience)
	if err != nil {
		u.t.Fatal(err)
	}
	u.fence(grant, above)
	u.one.Want(u.t, "(integer) 1", "UNLOCK", u.lock, "l")
}
