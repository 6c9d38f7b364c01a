//go:build !quick

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockproxy/internal/slot"
	"lockproxy/internal/subscription"
)

// expectLive waits until the channel was lost, and is live at the node that the
// topology now names: it may be lost more than once on the way.
func (h *hearing) expectLive(t *testing.T, limit time.Duration, u *hub, n int, at *server) {
	t.Helper()
	deadline := time.After(limit)
	next := "lost"
	for changed := false; ; {
		select {
		case got := <-h.events:
			if got != next {
				t.Fatalf("event %q, want %q", got, next)
			}
			next = map[string]string{"lost": "live", "live": "lost"}[got]
		case <-time.After(20 * time.Millisecond):
			changed = u.Topology().Slots[n].Addr == at.addr
		case <-deadline:
			t.Fatalf("not live at %s within %v", at.addr, limit)
		}
		if changed && next == "lost" && len(h.events) == 0 {
			return
		}
	}
}

func TestSubscribe(t *testing.T) {
	s := startRedis(t)
	u := subscribing(t, Options{Addrs: addrs(s)})
	a, b, other := listen(t, u, "news"), listen(t, u, "news"), listen(t, u, "other")
	if n := s.must(t, "SPUBLISH", "news", "1"); n != int64(1) {
		t.Errorf("%v subscriptions of one channel", n)
	}
	a.expect(t, soon, "message 1")
	b.expect(t, soon, "message 1")
	a.cancel()
	a.cancel()
	s.must(t, "SPUBLISH", "news", "2")
	b.expect(t, soon, "message 2")
	a.silent(t)
	other.silent(t)
	b.cancel()
	eventually(t, soon, "unsubscribed", func() bool { return s.must(t, "SPUBLISH", "news", "3") == int64(0) })
	// In one breath: the second SUBSCRIBE follows the UNSUBSCRIBE.
	c := listen(t, u, "news")
	c.cancel()
	d := listen(t, u, "news")
	s.must(t, "SPUBLISH", "news", "4")
	d.expect(t, soon, "message 4")
	c.silent(t)
	b.silent(t)
}

func TestSubscribeCancelInNotify(t *testing.T) {
	s := startRedis(t)
	u := subscribing(t, Options{Addrs: addrs(s)})
	var cancel func()
	ended := make(chan bool, 9)
	set := make(chan bool)
	cancel, err := u.Subscribe(t.Context(), slot.Of([]byte("once")), "once", func(subscription.Event) {
		<-set
		cancel()
		ended <- true
	})
	if err != nil {
		t.Fatal(err)
	}
	close(set)
	s.must(t, "SPUBLISH", "once", "x")
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Fatal("deadlock")
	}
	eventually(t, soon, "unsubscribed", func() bool { return s.must(t, "SPUBLISH", "once", "y") == int64(0) })
}

func TestSubscribeConnectionKilled(t *testing.T) {
	s := startRedis(t)
	u := subscribing(t, Options{Addrs: addrs(s)})
	a, b := listen(t, u, "a"), listen(t, u, "b")
	for i := range 5 {
		s.must(t, "CLIENT", "KILL", "TYPE", "pubsub")
		a.expect(t, soon, "lost", "live")
		b.expect(t, soon, "lost", "live")
		if n := s.must(t, "SPUBLISH", "a", i); n != int64(1) {
			t.Errorf("%v subscriptions", n)
		}
		a.expect(t, soon, fmt.Sprint("message ", i))
	}
	b.silent(t)
}

func TestSubscribeHalfOpen(t *testing.T) {
	s := startRedis(t)
	u := subscribing(t, Options{Addrs: addrs(s)})
	a := listen(t, u, "a")
	time.Sleep(1700 * time.Millisecond) // it was pinged once
	a.silent(t)
	s.signal(t, syscall.SIGSTOP)
	a.expect(t, soon, "lost")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := u.Subscribe(ctx, -1, "b", func(subscription.Event) {}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	s.signal(t, syscall.SIGCONT)
	a.expect(t, soon, "live")
	s.must(t, "SPUBLISH", "a", "1")
	a.expect(t, soon, "message 1")
}

func TestSubscribeSlotMoves(t *testing.T) {
	nodes := startCluster(t, 0)
	u := subscribing(t, Options{Addrs: addrs(nodes[0])})
	const channel = "lock:{job}"
	from := byAddr(nodes, u.Topology().Slots[slot.Of([]byte(channel))].Addr)
	to := nodes[0]
	if to == from {
		to = nodes[1]
	}
	stays := listen(t, u, "{"+slot.Tag((slot.Of([]byte(channel))+1)%slot.Count)+"}")
	for range 3 {
		h := listen(t, u, channel)
		n := slot.Of([]byte(channel))
		id := to.must(t, "CLUSTER", "MYID")
		to.must(t, "CLUSTER", "SETSLOT", n, "IMPORTING", from.must(t, "CLUSTER", "MYID"))
		from.must(t, "CLUSTER", "SETSLOT", n, "MIGRATING", id)
		h.silent(t)
		to.must(t, "CLUSTER", "SETSLOT", n, "NODE", id)
		from.must(t, "CLUSTER", "SETSLOT", n, "NODE", id)
		began := time.Now()
		h.expectLive(t, soon, u, n, to)
		t.Logf("live again after %v", time.Since(began))
		if got := to.must(t, "SPUBLISH", channel, "x"); got != int64(1) {
			t.Errorf("%v subscriptions at the new master", got)
		}
		h.expect(t, soon, "message x")
		h.cancel()
		from, to = to, from
	}
	stays.silent(t)
}

// A node that loses a slot ends its subscriptions by itself and refuses to end them again: who leaves at that
// moment disturbs nobody else.
func TestLeaveWhileSlotMoves(t *testing.T) {
	nodes := startCluster(t, 0)
	u := subscribing(t, Options{Addrs: addrs(nodes[0])})
	const channel = "{job}"
	n := slot.Of([]byte(channel))
	from := byAddr(nodes, u.Topology().Slots[n].Addr)
	to := nodes[0]
	if to == from {
		to = nodes[1]
	}
	var stay []*hearing
	for _, node := range []*server{from, to} {
		i := slices.IndexFunc(u.Topology().Slots[:], func(o *Node) bool { return o.Addr == node.addr })
		stay = append(stay, listen(t, u, "{"+slot.Tag(i)+"}"))
	}
	for i := range 20 {
		h := listen(t, u, channel)
		id := to.must(t, "CLUSTER", "MYID")
		to.must(t, "CLUSTER", "SETSLOT", n, "IMPORTING", from.must(t, "CLUSTER", "MYID"))
		from.must(t, "CLUSTER", "SETSLOT", n, "MIGRATING", id)
		to.must(t, "CLUSTER", "SETSLOT", n, "NODE", id)
		var left sync.WaitGroup
		left.Go(func() {
			time.Sleep(time.Duration(i) * 20 * time.Microsecond)
			h.cancel()
		})
		from.must(t, "CLUSTER", "SETSLOT", n, "NODE", id)
		left.Wait()
		eventually(t, 5*time.Second, "the new master is known", func() bool { return u.Topology().Slots[n].Addr == to.addr })
		from, to = to, from
	}
	for _, h := range stay {
		h.silent(t)
	}
}

func TestSubscribeFailOver(t *testing.T) {
	nodes := startCluster(t, 1)
	u := subscribing(t, Options{Addrs: addrs(nodes[0])})
	const channel = "{job}"
	n := slot.Of([]byte(channel))
	master := func() *server { return byAddr(nodes, u.Topology().Slots[n].Addr) }
	replica := func() *server {
		id := u.Topology().Slots[n].ID
		for _, s := range nodes {
			if info, err := s.ClusterNodes(t.Context()).Result(); err == nil && strings.Contains(info, "myself,slave "+id) {
				return s
			}
		}
		t.Fatal("no replica")
		return nil
	}
	h := listen(t, u, channel)

	next := replica()
	next.must(t, "CLUSTER", "FAILOVER")
	h.expectLive(t, soon, u, n, next)
	next.must(t, "SPUBLISH", channel, "1")
	h.expect(t, soon, "message 1")

	next = replica()
	eventually(t, 10*time.Second, "replica in sync", func() bool {
		return strings.Contains(next.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	h.silent(t)
	master().kill()
	eventually(t, 20*time.Second, "the cluster agreed", func() bool {
		return strings.Contains(next.Info(t.Context(), "replication").Val(), "role:master")
	})
	began := time.Now()
	h.expectLive(t, soon, u, n, next)
	t.Logf("live again %v after the promotion", time.Since(began))
	next.must(t, "SPUBLISH", channel, "2")
	h.expect(t, soon, "message 2")
}

// Without a slot it is a classic channel also where there are shard channels: a message
// that is published at any node reaches it, and it moves when its node goes.
func TestSubscribeClassic(t *testing.T) {
	nodes := startCluster(t, 0)
	u := subscribing(t, Options{Addrs: addrs(nodes[0])})
	const channel = "keeper"
	h, shard := listenAt(t, u, -1, channel), listen(t, u, "{"+channel+"}")
	for i, s := range nodes {
		s.must(t, "PUBLISH", channel, i)
		h.expect(t, soon, fmt.Sprint("message ", i))
	}
	at := byAddr(nodes, u.Topology().Masters[0].Addr)
	if n := at.must(t, "PUBLISH", channel, "x"); n != int64(1) {
		t.Errorf("%v subscriptions at the first master", n)
	}
	h.expect(t, soon, "message x")
	byAddr(nodes, u.Topology().Slots[slot.Of([]byte(channel))].Addr).must(t, "SPUBLISH", channel, "y")
	at.must(t, "CLIENT", "KILL", "TYPE", "pubsub")
	h.expect(t, soon, "lost", "live")
	nodes[1].must(t, "PUBLISH", channel, "z")
	h.expect(t, soon, "message z")
	h.cancel()
	eventually(t, soon, "unsubscribed", func() bool { return at.must(t, "PUBLISH", channel, "") == int64(0) })
	shard.cancel()
}

func TestSubscribeRefused(t *testing.T) {
	s := startRedis(t, "--user", "proxy", "on", ">secret", "~*", "+@all", "resetchannels", "&open*")
	u := subscribing(t, Options{Addrs: addrs(s), User: "proxy", Password: "secret"})
	listen(t, u, "open1")
	for _, n := range []int{-1, slot.Of([]byte("closed"))} {
		_, err := u.Subscribe(t.Context(), n, "closed", func(subscription.Event) {})
		if err == nil || !strings.Contains(err.Error(), s.addr+": NOPERM") {
			t.Error(err)
		}
	}
	s.kill()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := u.Subscribe(ctx, -1, "open2", func(subscription.Event) {})
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}
	u.Close()
	if _, err := u.Subscribe(t.Context(), -1, "open3", func(subscription.Event) {}); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// Channels come and go while connections die: every member sees Lost and Live in turn,
// and nothing is left over.
func TestSubscribeChurn(t *testing.T) {
	s := startRedis(t)
	u := subscribing(t, Options{Addrs: addrs(s)})
	end := time.Now().Add(1500 * time.Millisecond)
	var wg sync.WaitGroup
	for w := range 20 {
		wg.Go(func() {
			for i := 0; time.Now().Before(end); i++ {
				var cancelled atomic.Bool
				lost := false
				name := fmt.Sprintf("c%d", (w+i)%13)
				cancel, err := u.Subscribe(t.Context(), slot.Of([]byte(name)), name, func(e subscription.Event) {
					switch {
					case e.Kind == subscription.Lost && !lost:
						lost = true
					case e.Kind == subscription.Live && lost:
						lost = false
					case !cancelled.Load() && e.Kind != subscription.Message:
						t.Errorf("event %d while lost is %v", e.Kind, lost)
					}
				})
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Duration(i%4) * 5 * time.Millisecond)
				cancelled.Store(true)
				cancel()
			}
		})
	}
	for time.Now().Before(end) {
		s.must(t, "CLIENT", "KILL", "TYPE", "pubsub")
		s.must(t, "SPUBLISH", "c5", "x")
		time.Sleep(7 * time.Millisecond)
	}
	wg.Wait()
	eventually(t, soon, "all unsubscribed", func() bool {
		return len(s.must(t, "PUBSUB", "SHARDCHANNELS").([]any)) == 0
	})
	eventually(t, soon, "all topics forgotten", func() bool {
		u.Subscriptions.mu.Lock()
		defer u.Subscriptions.mu.Unlock()
		return len(u.Subscriptions.topics)+len(u.Subscriptions.loose) == 0
	})
}

// Many channels come and go fast over one connection.
func TestSubscribeMany(t *testing.T) {
	s := startRedis(t)
	u := subscribing(t, Options{Addrs: addrs(s)})
	const workers, rounds = 50, 200
	began := time.Now()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range rounds {
				name := fmt.Sprintf("c%d", (w*rounds+i)%977)
				cancel, err := u.Subscribe(t.Context(), slot.Of([]byte(name)), name, func(subscription.Event) {})
				if err != nil {
					t.Error(err)
					return
				}
				cancel()
			}
		})
	}
	wg.Wait()
	t.Logf("%.0f subscriptions/s", workers*rounds/time.Since(began).Seconds())
	eventually(t, soon, "all unsubscribed", func() bool {
		return len(s.must(t, "PUBSUB", "SHARDCHANNELS").([]any)) == 0
	})
	if n := len(s.must(t, "CLIENT", "LIST", "TYPE", "pubsub").(string)); n != 0 {
		t.Errorf("a subscribed client is left: %d bytes", n)
	}
}
