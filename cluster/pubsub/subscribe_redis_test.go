//go:build !quick

package pubsub

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockproxy/cluster/discovery"
	"lockproxy/cluster/internal/servers"
	"lockproxy/internal/slot"
	"lockproxy/internal/subscription"
)

// expectLive waits until the channel was lost, and is live at the node that the
// topology now names: it may be lost more than once on the way.
func (h *hearing) expectLive(t *testing.T, u *hub, n int, at *servers.Server) {
	t.Helper()
	hung := time.After(servers.Patience)
	next := "lost"
	for changed := false; ; {
		select {
		case got := <-h.events:
			if got != next {
				t.Fatalf("event %q, want %q", got, next)
			}
			next = map[string]string{"lost": "live", "live": "lost"}[got]
		case <-time.After(20 * time.Millisecond):
			changed = u.Topology().Slots[n].Addr == at.Addr
		case <-hung:
			t.Fatalf("not live at %s within %v", at.Addr, servers.Patience)
		}
		if changed && next == "lost" && len(h.events) == 0 {
			return
		}
	}
}

func TestSubscribe(t *testing.T) {
	s := servers.StartRedis(t)
	u := subscribing(t, discovery.Options{Addrs: servers.Addrs(s)})
	a, b, other := listen(t, u, "news"), listen(t, u, "news"), listen(t, u, "other")
	if n := s.Must(t, "SPUBLISH", "news", "1"); n != int64(1) {
		t.Errorf("%v subscriptions of one channel", n)
	}
	a.expect(t, "message 1")
	b.expect(t, "message 1")
	a.cancel()
	a.cancel()
	s.Must(t, "SPUBLISH", "news", "2")
	b.expect(t, "message 2")
	a.silent(t)
	other.silent(t)
	b.cancel()
	servers.Eventually(t, "unsubscribed",
		func() bool { return s.Must(t, "SPUBLISH", "news", "3") == int64(0) })
	// In one breath: the second SUBSCRIBE follows the UNSUBSCRIBE.
	c := listen(t, u, "news")
	c.cancel()
	d := listen(t, u, "news")
	s.Must(t, "SPUBLISH", "news", "4")
	d.expect(t, "message 4")
	c.silent(t)
	b.silent(t)
}

func TestSubscribeCancelInNotify(t *testing.T) {
	s := servers.StartRedis(t)
	u := subscribing(t, discovery.Options{Addrs: servers.Addrs(s)})
	var cancel func()
	ended := make(chan bool, 9)
	set := make(chan bool)
	cancel = u.Subscribe(slot.Of([]byte("once")), "once", func(subscription.Change) {
		<-set
		cancel()
		ended <- true
	})
	close(set)
	select {
	case <-ended:
	case <-time.After(servers.Patience):
		t.Fatal("deadlock")
	}
	servers.Eventually(t, "unsubscribed",
		func() bool { return s.Must(t, "SPUBLISH", "once", "y") == int64(0) })
}

func TestSubscribeConnectionKilled(t *testing.T) {
	s := servers.StartRedis(t)
	u := subscribing(t, discovery.Options{Addrs: servers.Addrs(s)})
	a, b := listen(t, u, "a"), listen(t, u, "b")
	for i := range 5 {
		s.Must(t, "CLIENT", "KILL", "TYPE", "pubsub")
		a.expect(t, "lost", "live")
		b.expect(t, "lost", "live")
		if n := s.Must(t, "SPUBLISH", "a", i); n != int64(1) {
			t.Errorf("%v subscriptions", n)
		}
		a.expect(t, fmt.Sprint("message ", i))
	}
	b.silent(t)
}

func TestSubscribeHalfOpen(t *testing.T) {
	s := servers.StartRedis(t)
	u := subscribing(t, discovery.Options{Addrs: servers.Addrs(s)})
	a := listen(t, u, "a")
	time.Sleep(1700 * time.Millisecond) // it was pinged once
	a.silent(t)
	s.Signal(syscall.SIGSTOP)
	a.expect(t, "lost")
	b := begin(u, -1, "b")
	b.silent(t)
	s.Signal(syscall.SIGCONT)
	a.expect(t, "live")
	b.expect(t, "live")
	s.Must(t, "SPUBLISH", "a", "1")
	a.expect(t, "message 1")
}

// TestInACluster has one cluster for tests that leave it whole.
func TestInACluster(t *testing.T) {
	nodes := servers.StartCluster(t, 0, "--notify-keyspace-events", "KEA")
	for _, test := range []struct {
		name string
		run  func(t *testing.T, nodes []*servers.Server)
	}{
		{"a slot moves", subscribeSlotMoves},
		{"a client leaves while a slot moves", leaveWhileSlotMoves},
		{"classic channels", subscribeClassic},
		{"notifications of keys", joinNotificationsOfKeys},
	} {
		servers.Eventually(t, "the nodes agree", func() bool { return agree(t, nodes) })
		t.Run(test.name, func(t *testing.T) { test.run(t, nodes) })
	}
}

// agree says whether all nodes know the same masters of all slots.
func agree(t *testing.T, nodes []*servers.Server) bool {
	views := make(map[string]bool)
	for _, n := range nodes {
		slots, err := n.ClusterSlots(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(slots, func(a, b redis.ClusterSlot) int { return a.Start - b.Start })
		view := ""
		for _, s := range slots {
			view += fmt.Sprint(s.Start, s.End, s.Nodes[0].Addr, " ")
		}
		views[view] = true
	}
	return len(views) == 1
}

func subscribeSlotMoves(t *testing.T, nodes []*servers.Server) {
	u := subscribing(t, discovery.Options{Addrs: servers.Addrs(nodes[0])})
	const channel = "lock:{job}"
	from := servers.ByAddr(nodes, u.Topology().Slots[slot.Of([]byte(channel))].Addr)
	to := nodes[0]
	if to == from {
		to = nodes[1]
	}
	stays := listen(t, u, "{"+slot.Tag((slot.Of([]byte(channel))+1)%slot.Count)+"}")
	for range 3 {
		h := listen(t, u, channel)
		n := slot.Of([]byte(channel))
		id := to.Must(t, "CLUSTER", "MYID")
		to.Must(t, "CLUSTER", "SETSLOT", n, "IMPORTING", from.Must(t, "CLUSTER", "MYID"))
		from.Must(t, "CLUSTER", "SETSLOT", n, "MIGRATING", id)
		h.silent(t)
		to.Must(t, "CLUSTER", "SETSLOT", n, "NODE", id)
		from.Must(t, "CLUSTER", "SETSLOT", n, "NODE", id)
		h.expectLive(t, u, n, to)
		if got := to.Must(t, "SPUBLISH", channel, "x"); got != int64(1) {
			t.Errorf("%v subscriptions at the new master", got)
		}
		h.expect(t, "message x")
		h.cancel()
		from, to = to, from
	}
	stays.silent(t)
}

// A node that loses a slot ends its subscriptions by itself and refuses to end them again: who leaves at that
// moment disturbs nobody else.
func leaveWhileSlotMoves(t *testing.T, nodes []*servers.Server) {
	u := subscribing(t, discovery.Options{Addrs: servers.Addrs(nodes[0])})
	const channel = "{job}"
	n := slot.Of([]byte(channel))
	from := servers.ByAddr(nodes, u.Topology().Slots[n].Addr)
	to := nodes[0]
	if to == from {
		to = nodes[1]
	}
	var stay []*hearing
	for _, node := range []*servers.Server{from, to} {
		i := 0
		for slots := u.Topology().Slots; i == n || slots[i].Addr != node.Addr; {
			i++
		}
		stay = append(stay, listen(t, u, "{"+slot.Tag(i)+"}"))
	}
	for i := range 10 {
		h := listen(t, u, channel)
		id := to.Must(t, "CLUSTER", "MYID")
		to.Must(t, "CLUSTER", "SETSLOT", n, "IMPORTING", from.Must(t, "CLUSTER", "MYID"))
		from.Must(t, "CLUSTER", "SETSLOT", n, "MIGRATING", id)
		to.Must(t, "CLUSTER", "SETSLOT", n, "NODE", id)
		var left sync.WaitGroup
		left.Go(func() {
			time.Sleep(time.Duration(i) * 40 * time.Microsecond)
			h.cancel()
		})
		from.Must(t, "CLUSTER", "SETSLOT", n, "NODE", id)
		left.Wait()
		servers.Eventually(t, "the new master is known",
			func() bool { return u.Topology().Slots[n].Addr == to.Addr })
		from, to = to, from
	}
	for _, h := range stay {
		h.silent(t)
	}
}

func TestSubscribeFailOver(t *testing.T) {
	nodes := servers.StartCluster(t, 1)
	u := subscribing(t, discovery.Options{Addrs: servers.Addrs(nodes[0])})
	const channel = "{job}"
	n := slot.Of([]byte(channel))
	master := func() *servers.Server { return servers.ByAddr(nodes, u.Topology().Slots[n].Addr) }
	replica := func() (found *servers.Server) {
		servers.Eventually(t, "a replica", func() bool { // the former master may not know yet that it is one
			id := u.Topology().Slots[n].ID
			i := slices.IndexFunc(nodes, func(s *servers.Server) bool {
				info, err := s.ClusterNodes(t.Context()).Result()
				return err == nil && strings.Contains(info, "myself,slave "+id)
			})
			if i >= 0 {
				found = nodes[i]
			}
			return i >= 0
		})
		return found
	}
	h := listen(t, u, channel)
	// The subscription may move twice: when the old master ends it, and when the topology is told. What is
	// published in between may be lost, and is published again.
	hears := func(at *servers.Server, message string) {
		t.Helper()
		for hung := time.After(servers.Patience); ; {
			at.Must(t, "SPUBLISH", channel, message)
			select {
			case got := <-h.events:
				if got == "message "+message {
					return
				}
				if got != "lost" {
					t.Fatalf("event %q, want %q", got, message)
				}
				h.expect(t, "live")
			case <-hung:
				t.Fatalf("%q is not heard", message)
			}
		}
	}

	next := replica()
	next.Promote(t)
	h.expectLive(t, u, n, next)
	hears(next, "1")

	next = replica()
	servers.Eventually(t, "replica in sync", func() bool {
		return strings.Contains(next.Client.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	master().Kill()
	servers.Cluster(nodes).DeadAfter("2000")
	servers.Eventually(t, "the cluster agreed", func() bool {
		return strings.Contains(next.Client.Info(t.Context(), "replication").Val(), "role:master")
	})
	h.expectLive(t, u, n, next)
	hears(next, "2")
}

// Without a slot it is a classic channel also where there are shard channels: a message
// that is published at any node reaches it, and it moves when its node goes.
func subscribeClassic(t *testing.T, nodes []*servers.Server) {
	u := subscribing(t, discovery.Options{Addrs: servers.Addrs(nodes[0])})
	const channel = "keeper"
	h, shard := listenAt(t, u, -1, channel), listen(t, u, "{"+channel+"}")
	for i, s := range nodes {
		s.Must(t, "PUBLISH", channel, i)
		h.expect(t, fmt.Sprint("message ", i))
	}
	at := servers.ByAddr(nodes, u.Topology().Masters[0].Addr)
	if n := at.Must(t, "PUBLISH", channel, "x"); n != int64(1) {
		t.Errorf("%v subscriptions at the first master", n)
	}
	h.expect(t, "message x")
	servers.ByAddr(nodes, u.Topology().Slots[slot.Of([]byte(channel))].Addr).Must(t, "SPUBLISH", channel, "y")
	at.Must(t, "CLIENT", "KILL", "TYPE", "pubsub")
	h.expect(t, "lost", "live")
	nodes[1].Must(t, "PUBLISH", channel, "z")
	h.expect(t, "message z")
	h.cancel()
	servers.Eventually(t, "unsubscribed",
		func() bool { return at.Must(t, "PUBLISH", channel, "") == int64(0) })
	shard.cancel()
}

func TestSubscribeRefused(t *testing.T) {
	s := servers.StartRedis(t, "--user", "proxy", "on", ">secret", "~*", "+@all", "resetchannels", "&open*")
	u := subscribing(t, discovery.Options{Addrs: servers.Addrs(s), User: "proxy", Password: "secret"})
	listen(t, u, "open1")
	for _, n := range []int{-1, slot.Of([]byte("closed"))} {
		h := begin(u, n, "closed")
		for range 2 { // it is tried again
			if got := <-h.events; !strings.Contains(got, "refused: ") || !strings.Contains(got,
				s.Addr+": NOPERM") {
				t.Error(got)
			}
		}
		s.Must(t, "ACL", "SETUSER", "proxy", "&closed")
		for got := ""; got != "live"; {
			got = <-h.events
		}
		h.cancel()
		s.Must(t, "ACL", "SETUSER", "proxy", "resetchannels", "&open*")
	}
	s.Kill()
	h := begin(u, -1, "open2")
	h.silent(t)
	u.Close()
	begin(u, -1, "open3").silent(t)
}

// breakUntil publishes, and breaks all subscriptions, again and again until wg is done.
func breakUntil(t *testing.T, s *servers.Server, wg *sync.WaitGroup, publish ...any) {
	t.Helper()
	over := make(chan struct{})
	go func() { // ends with wg
		wg.Wait()
		close(over)
	}()
	for {
		select {
		case <-over:
			return
		case <-time.After(7 * time.Millisecond):
			s.Must(t, "CLIENT", "KILL", "TYPE", "pubsub")
			s.Must(t, publish...)
		}
	}
}

// Channels come and go while connections die: every member sees Lost and Live in turn,
// and nothing is left over.
func TestSubscribeChurn(t *testing.T) {
	s := servers.StartRedis(t)
	u := subscribing(t, discovery.Options{Addrs: servers.Addrs(s)})
	var wg sync.WaitGroup
	for w := range 20 {
		wg.Go(func() {
			for i := range 150 {
				var cancelled atomic.Bool
				lost, stands := true, make(chan struct{})
				stood := sync.OnceFunc(func() { close(stands) })
				name := fmt.Sprintf("c%d", (w+i)%13)
				cancel := u.Subscribe(slot.Of([]byte(name)), name,
					func(e subscription.Change) {
						switch {
						case e.Kind == subscription.Lost && !lost:
							lost = true
						case e.Kind == subscription.Live && lost:
							lost = false
							stood()
						case !cancelled.Load() && e.Kind != subscription.Message:
							t.Errorf("event %d while lost is %v", e.Kind, lost)
						}
					})
				<-stands
				time.Sleep(time.Duration(i%4) * 5 * time.Millisecond)
				cancelled.Store(true)
				cancel()
			}
		})
	}
	breakUntil(t, s, &wg, "SPUBLISH", "c5", "x")
	servers.Eventually(t, "all unsubscribed", func() bool {
		return len(s.Must(t, "PUBSUB", "SHARDCHANNELS").([]any)) == 0
	})
	servers.Eventually(t, "all topics forgotten", func() bool { return u.topicsLeft() == 0 })
}

// Many channels come and go fast over one connection.
func TestSubscribeMany(t *testing.T) {
	s := servers.StartRedis(t)
	u := subscribing(t, discovery.Options{Addrs: servers.Addrs(s)})
	const workers, rounds = 50, 200
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range rounds {
				name := fmt.Sprintf("c%d", (w*rounds+i)%977)
				stands := make(chan struct{})
				stood := sync.OnceFunc(func() { close(stands) })
				cancel := u.Subscribe(slot.Of([]byte(name)), name, func(subscription.Change) { stood() })
				<-stands
				cancel()
			}
		})
	}
	wg.Wait()
	servers.Eventually(t, "all unsubscribed", func() bool {
		return len(s.Must(t, "PUBSUB", "SHARDCHANNELS").([]any)) == 0
	})
	if n := len(s.Must(t, "CLIENT", "LIST", "TYPE", "pubsub").(string)); n != 0 {
		t.Errorf("a subscribed client is left: %d bytes", n)
	}
}
