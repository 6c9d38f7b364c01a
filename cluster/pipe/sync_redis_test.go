//go:build !quick

package pipe

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/discovery"
	"lockproxy/cluster/internal/servers"
	"lockproxy/cluster/internal/upstream"
	"lockproxy/cluster/retry"
	"lockproxy/internal/loop"
	"lockproxy/internal/slot"
)

// clientOf is a client over a loop with pipes to u, which ends with the test.
func clientOf(t *testing.T, u *discovery.Upstream, o Options) (*Client, *Stats) {
	l, stats := loop.NewPortable(), new(Stats)
	pool := New(l, u, o, stats)
	go l.Run() // ends in the cleanup
	u.OnChange(func(*cluster.Topology) { l.Post(pool.Update) })
	l.Post(pool.Update)
	t.Cleanup(func() {
		l.Post(pool.Close)
		l.Close()
		if own := stats.Own(); own.Used != 0 || own.Waiting != 0 {
			t.Errorf("%d connections were not given back, %d are waited for", own.Used, own.Waiting)
		}
	})
	return NewClient([]*Pool{pool}), stats
}

// A master with two replicas: those that have the write are counted, and one that is stopped costs the
// timeout. R26
func TestSyncedReplicas(t *testing.T) {
	master := servers.StartRedis(t, "--repl-diskless-sync-delay", "0")
	one, two := servers.StartReplica(t, master, 0), servers.StartReplica(t, master, 1)
	u := upstream.Find(t, discovery.Options{Addrs: servers.Addrs(master)})
	c, stats := clientOf(t, u, Options{MaxOwn: 8})
	const timeout = time.Second
	check := func(line string, replicas, want int) {
		t.Helper()
		within := servers.Patience
		if want < replicas { // which never have it all
			within = timeout
		}
		// A replica may be late on a busy machine.
		servers.Eventually(t, fmt.Sprintf("%s has %d replicas", line, want), func() bool {
			reply, acked, err := synced(t.Context(), c, line, replicas, within)
			if err != nil || acked > want || reply[0] == '-' {
				t.Errorf("%s: %q, %d acked, %v; want %d", line, reply, acked, err, want)
			}
			return acked >= want
		})
	}
	check("SET k 1", 2, 2)
	for _, r := range []*servers.Server{one, two} {
		if v := r.Get(t.Context(), "k").Val(); v != "1" {
			t.Errorf("%s has %q and yet said that it has all", r.Addr, v)
		}
	}
	two.Signal(syscall.SIGSTOP)
	check("SET k 2", 1, 1)
	check("SET k 3", 2, 1)
	one.Signal(syscall.SIGSTOP)
	// Writes of others count too: what a request reads must be there.
	master.Must(t, "SET", "k", "4")
	check("GET k", 1, 0)

	// However many wait for replicas, connections are few.
	var wg sync.WaitGroup
	var failed atomic.Int64
	for range 40 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*timeout)
			defer cancel()
			if _, _, err := synced(ctx, c, "GET k", 1, timeout); errors.Is(err, context.DeadlineExceeded) {
				failed.Add(1)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	most := int64(0)
	done := make(chan struct{})
	go func() { // ends with the last of them
		wg.Wait()
		close(done)
	}()
	for waiting := true; waiting; {
		select {
		case <-done:
			waiting = false
		case <-time.After(5 * time.Millisecond):
			most = max(most, stats.Nodes()[0].Connections)
		}
	}
	if failed.Load() < 8 {
		t.Errorf("%d of 40 found no connection in time", failed.Load())
	}
	if most > 8 {
		t.Errorf("%d connections at a time", most)
	}
	one.Signal(syscall.SIGCONT)
	two.Signal(syscall.SIGCONT)
	servers.Eventually(t, "the replicas have it again", func() bool {
		_, acked, err := synced(t.Context(), c, "SET k 5", 2, timeout)
		return err == nil && acked == 2
	})

	// A master that is stopped holds nobody longer than asked for, one that is gone no
	// longer than the budget.
	master.Signal(syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if _, _, err := synced(ctx, c, "SET k 6", 2, timeout); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	master.Kill()
	hasty, _ := clientOf(t, u, Options{Budget: 500 * time.Millisecond})
	if _, _, err := synced(t.Context(), hasty, "SET k 7", 2, timeout); !errors.Is(err,
		cluster.ErrUnavailable) {
		t.Error(err)
	}
}

// A cluster whose slots move and whose masters die under those who wait for
// replicas. R26
func TestSyncedClusterLife(t *testing.T) {
	nodes := servers.StartCluster(t, 1)
	u := upstream.Find(t, discovery.Options{Addrs: servers.Addrs(nodes...)})
	const source = "return 42"
	sum := sha1.Sum([]byte(source))
	sha := hex.EncodeToString(sum[:])
	c, stats := clientOf(t, u, Options{
		Budget: servers.Patience,
		Source: func(s []byte) ([]byte, bool) { return []byte(source), string(s) == sha },
	})
	n := slot.Of([]byte("key"))
	req := []byte(fmt.Sprintf("*4\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n1\r\n$3\r\nkey\r\n", sha))
	ask := func(timeout time.Duration) (acked int) {
		reply, acked, err := c.Synced(t.Context(), n, req, 1, timeout)
		if err != nil || string(reply) != ":42\r\n" {
			t.Errorf("%q, %v", reply, err)
		}
		return acked
	}
	if acked := ask(servers.Patience); acked != 1 {
		t.Errorf("%d acked", acked)
	}

	end := make(chan struct{})
	var wg sync.WaitGroup
	var asked atomic.Int64
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				if acked := ask(servers.Patience); acked != 1 {
					t.Errorf("%d acked while the slot moves", acked)
					return
				}
				asked.Add(1)
			}
		})
	}
	home := servers.ByAddr(nodes, u.Topology().Slots[n].Addr)
	for range 4 {
		from := servers.ByAddr(nodes, u.Topology().Slots[n].Addr)
		var to *servers.Server
		for _, m := range u.Topology().Masters {
			if m.Addr != from.Addr {
				to = servers.ByAddr(nodes, m.Addr)
			}
		}
		id, before := to.Must(t, "CLUSTER", "MYID"), asked.Load()
		to.Must(t, "CLUSTER", "SETSLOT", n, "IMPORTING", from.Must(t, "CLUSTER", "MYID"))
		from.Must(t, "CLUSTER", "SETSLOT", n, "MIGRATING", id)
		servers.Eventually(t, "requests are redirected",
			func() bool { return asked.Load() > before+10 })
		to.Must(t, "CLUSTER", "SETSLOT", n, "NODE", id)
		from.Must(t, "CLUSTER", "SETSLOT", n, "NODE", id)
		servers.Eventually(t, "the move is seen",
			func() bool { return u.Topology().Slots[n].Addr == to.Addr })
	}
	close(end)
	wg.Wait()
	for _, kind := range []retry.Reason{retry.Ask, retry.NoScript} {
		if stats.Redirects[kind].Load() == 0 {
			t.Errorf("no redirect %v", kind)
		}
	}
	t.Logf("%d requests, home %s", asked.Load(), home.Addr)

	// Its master dies; the replica that takes over has no replica.
	master := servers.ByAddr(nodes, u.Topology().Slots[n].Addr)
	master.Kill()
	servers.Cluster(nodes).DeadAfter("2000")
	if acked := ask(time.Second); acked != 0 {
		t.Errorf("%d acked by nobody", acked)
	}
	if got := u.Topology().Slots[n].Addr; got == master.Addr {
		t.Errorf("it was answered by %s, which is dead", got)
	}
}
