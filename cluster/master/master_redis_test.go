//go:build !quick

package master

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/internal/servers"
	"lockproxy/integration/rig"
	"lockproxy/internal/loop"
	"lockproxy/internal/subscription"
)

// running is a loop until the test ends.
func running(t *testing.T) *loop.Loop {
	t.Helper()
	l, err := loop.New()
	if err != nil {
		t.Fatal(err)
	}
	go l.Run() // ends with the test
	t.Cleanup(l.Close)
	return l
}

// connectedMasters are Masters of the servers until the test ends.
func connectedMasters(t *testing.T, o Options, at ...*servers.Server) []*Master {
	t.Helper()
	o.Log = servers.Log(t)
	ctx, cancel := context.WithTimeout(t.Context(), servers.Patience)
	defer cancel()
	all, err := Connect(ctx, running(t), servers.Addrs(at...), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, m := range all {
			m.Close()
		}
	})
	return all
}

// A real server's account of itself is understood: whether it has restarted, and whether it may have lost
// anything by that. R27 R31
func TestMasterRealRestart(t *testing.T) {
	t.Parallel()
	const lease = 10 * time.Second // so long a machine may stand still before it is seen who does not vote
	forgetful := servers.StartRedis(t)
	careful := servers.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	secret := servers.StartRedis(t, "--requirepass", "sesame")
	all := connectedMasters(t,
		Options{Lease: lease, Timeout: time.Second, Password: "sesame"}, secret)
	all = append(all, connectedMasters(t, Options{Lease: lease, Timeout: time.Second}, forgetful, careful,
		servers.StartRedis(t))...)
	for _, m := range all {
		servers.Eventually(t, "it votes", func() bool { return m.Vote() == nil })
		if off := m.Health().ClockOffset; off.Abs() > time.Second {
			t.Errorf("%s: offset %v", m.Addr(), off)
		}
	}
	for i, s := range []*servers.Server{forgetful, careful} {
		m := all[i+1]
		before := m.Health().RunID
		s.Kill()
		servers.Eventually(t, "it is away", func() bool { return m.Vote() != nil })
		s.Restart(t)
		if s == forgetful { // which it says for no longer than a lease
			servers.Eventually(t, "it does not vote", func() bool {
				err := m.Vote()
				return err != nil && strings.Contains(err.Error(), "restarted")
			})
		}
		servers.Eventually(t, "it is back", func() bool { return m.Health().Up })
		if m.Health().RunID == before {
			t.Error("the same run id")
		}
	}
	votes(t, all[2], "")
	servers.Eventually(t, "it votes again", func() bool { return all[1].Vote() == nil })
}

// A stopped server is away after one time-out, and back by itself; what it was sent meanwhile
// runs in order. R27
func TestMasterRealStop(t *testing.T) {
	s := servers.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	m := connectedMasters(t, Options{ConnectTimeout: 500 * time.Millisecond, Lease: time.Second}, s,
		servers.StartRedis(t), servers.StartRedis(t))[0]
	for _, pause := range []time.Duration{0, 2 * time.Second} {
		set := func(value string) error {
			_, err := askMaster(m, 300*time.Millisecond, "SET", "k", value)
			return err
		}
		servers.Eventually(t, "it is stopped after it has answered", func() bool {
			if set("before") != nil {
				return false
			}
			s.Signal(syscall.SIGSTOP)
			err := set("meanwhile")
			if errors.Is(err, cluster.ErrUnavailable) { // it was away before, on a busy machine
				s.Signal(syscall.SIGCONT)
				return false
			}
			if !errors.Is(err, errReplyLate) {
				t.Error(err)
			}
			return true
		})
		if err := set("never"); !errors.Is(err, cluster.ErrUnavailable) {
			t.Error(err)
		}
		time.Sleep(pause) // 2 s: the connection is given up, and others after it
		s.Signal(syscall.SIGCONT)
		servers.Eventually(t, "it is back", func() bool { return m.Vote() == nil })
		servers.Eventually(t, "it answers", func() bool { return set("after") == nil })
		time.Sleep(50 * time.Millisecond)
		if got := s.Must(t, "GET", "k"); got != "after" {
			t.Errorf("k is %v: an earlier request ran later", got)
		}
	}
}

// Clustered nodes, replicas and one server under two names are refused. R32
func TestConnectMastersReal(t *testing.T) {
	a, b := servers.StartRedis(t), servers.StartRedis(t)
	clustered := servers.StartRedis(t, "--cluster-enabled", "yes")
	replica := servers.StartReplica(t, a, 0)
	locked := servers.StartRedis(t, "--requirepass", "sesame")
	socket := filepath.Join(t.TempDir(), "redis.sock")
	c := servers.StartRedis(t, "--unixsocket", socket)
	for _, s := range []struct {
		third, want string
	}{
		{clustered.Addr, "it is a node of a Redis Cluster"},
		{replica.Addr, "it is a replica"},
		{socket, "it is the same server as"},
		{locked.Addr, ""}, // and so is the second: no majority lets anybody in
	} {
		second := b.Addr
		if s.third == locked.Addr {
			second, s.want = servers.StartRedis(t, "--requirepass", "other").Addr, "NOAUTH"
		}
		if s.third == socket {
			second = c.Addr
			servers.Eventually(t, "it listens there, too", func() bool {
				nc, err := net.Dial("unix", socket)
				if err == nil {
					nc.Close()
				}
				return err == nil
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), servers.Patience)
		all, err := Connect(ctx, running(t), []string{a.Addr, second, s.third}, Options{Log: servers.Log(t)})
		cancel()
		if err == nil || !strings.Contains(err.Error(), s.want) {
			t.Errorf("%v, want %q", err, s.want)
		}
		for _, m := range all {
			m.Close()
		}
	}
}

// The name of a master is given to another server, while the one before lives on as a replica. The name is
// looked up again, also for subscriptions, and the other server votes as one that may have lost locks.
func TestNameOfAMasterLeadsElsewhere(t *testing.T) {
	t.Parallel()
	old, next, third := servers.StartRedis(t), servers.StartRedis(t), servers.StartRedis(t)
	var named atomic.Pointer[servers.Server]
	named.Store(old)
	var dials atomic.Int32
	m := connectedMasters(t, Options{
		Lease: 8 * time.Second, Timeout: time.Second,
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return new(net.Dialer).DialContext(ctx, network, named.Load().Addr)
		},
	}, &servers.Server{Server: &rig.Server{Addr: "db.test:6379"}})[0]
	servers.Eventually(t, "it votes", func() bool { return m.Vote() == nil })
	heard := make(chan string, 100)
	defer m.Subscribe("news", func(e subscription.Change) {
		if e.Kind == subscription.Message {
			heard <- string(e.Payload)
		}
	})()
	old.Must(t, "REPLICAOF", "127.0.0.1", third.Port)
	servers.Eventually(t, "the replica does not vote", func() bool {
		err := m.Vote()
		return err != nil && strings.Contains(err.Error(), "it is a replica")
	})
	before := dials.Load()
	servers.Eventually(t, "the name is looked up again and again", func() bool {
		if h := m.Health(); !strings.Contains(h.Why, "it is a replica") {
			t.Errorf("why it does not vote: %q", h.Why)
		}
		return dials.Load() >= before+2
	})
	named.Store(next)
	servers.Eventually(t, "the other server answers", func() bool {
		h := m.Health()
		return h.Up && strings.Contains(h.Why, "may have lost locks")
	})
	servers.Eventually(t, "it votes again", func() bool { return m.Vote() == nil })
	servers.Eventually(t, "its messages are heard", func() bool {
		next.Must(t, "PUBLISH", "news", "hello")
		select {
		case <-heard:
			return true
		default:
			return false
		}
	})
}
