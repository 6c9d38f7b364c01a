//go:build !quick

package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// connectedMasters are Masters of the servers until the test ends.
func connectedMasters(t *testing.T, o MasterOptions, servers ...*server) []*Master {
	t.Helper()
	o.Log = testLog(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	all, err := ConnectMasters(ctx, addrs(servers...), o)
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

// What a server of the real world says of itself is understood: whether it restarted, and
// whether it may have lost anything by that. R27 R31
func TestMasterRealRestart(t *testing.T) {
	forgetful := startRedis(t)
	careful := startRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	secret := startRedis(t, "--requirepass", "sesame")
	all := connectedMasters(t, MasterOptions{Lease: 2 * time.Second, Timeout: time.Second, Password: "sesame"}, secret)
	all = append(all, connectedMasters(t, MasterOptions{Lease: 2 * time.Second, Timeout: time.Second}, forgetful, careful, startRedis(t))...)
	for _, m := range all {
		eventually(t, 20*time.Second, "it votes", func() bool { return m.Vote() == nil })
		if off := m.Health().ClockOffset; off.Abs() > time.Second {
			t.Errorf("%s: offset %v", m.Addr(), off)
		}
	}
	for i, s := range []*server{forgetful, careful} {
		m := all[i+1]
		before := m.Health().RunID
		s.kill()
		eventually(t, 10*time.Second, "it is away", func() bool { return m.Vote() != nil })
		s.restart(t)
		eventually(t, 10*time.Second, "it is back", func() bool { return m.Health().Up })
		if m.Health().RunID == before {
			t.Error("the same run id")
		}
	}
	votes(t, all[1], "restarted")
	votes(t, all[2], "")
	eventually(t, 20*time.Second, "it votes again", func() bool { return all[1].Vote() == nil })
}

// A stopped server is away after one time-out, and back by itself; what it was sent meanwhile
// runs in order. R27
func TestMasterRealStop(t *testing.T) {
	s := startRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	m := connectedMasters(t, MasterOptions{ConnectTimeout: 500 * time.Millisecond, Lease: time.Second}, s, startRedis(t), startRedis(t))[0]
	for _, pause := range []time.Duration{0, 2 * time.Second} {
		set := func(value string) error {
			_, err := askMaster(m, 60*time.Millisecond, "SET", "k", value)
			return err
		}
		eventually(t, 10*time.Second, "it answers", func() bool { return set("before") == nil })
		s.signal(t, syscall.SIGSTOP)
		if err := set("meanwhile"); !errors.Is(err, errReplyLate) {
			t.Error(err)
		}
		began := time.Now()
		if err := set("never"); !errors.Is(err, ErrUnavailable) || time.Since(began) > 5*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		time.Sleep(pause) // 2 s: the connection is given up, and others after it
		s.signal(t, syscall.SIGCONT)
		eventually(t, 10*time.Second, "it is back", func() bool { return m.Vote() == nil })
		eventually(t, 10*time.Second, "it answers", func() bool { return set("after") == nil })
		time.Sleep(50 * time.Millisecond)
		if got := s.must(t, "GET", "k"); got != "after" {
			t.Errorf("k is %v: an earlier request ran later", got)
		}
	}
}

// Clustered nodes, replicas and one server under two names are refused. R32
func TestConnectMastersReal(t *testing.T) {
	a, b := startRedis(t), startRedis(t)
	clustered := startRedis(t, "--cluster-enabled", "yes")
	replica := startReplica(t, a, 0)
	locked := startRedis(t, "--requirepass", "sesame")
	socket := filepath.Join(t.TempDir(), "redis.sock")
	c := startRedis(t, "--unixsocket", socket)
	for _, s := range []struct {
		third, want string
	}{
		{clustered.addr, "it is a node of a Redis Cluster"},
		{replica.addr, "it is a replica"},
		{socket, "it is the same server as"},
		{locked.addr, ""}, // and so is the second: no majority lets anybody in
	} {
		second := b.addr
		if s.third == locked.addr {
			second, s.want = startRedis(t, "--requirepass", "other").addr, "NOAUTH"
		}
		if s.third == socket {
			second = c.addr
			if _, err := os.Stat(socket); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		all, err := ConnectMasters(ctx, []string{a.addr, second, s.third}, MasterOptions{Log: testLog(t)})
		cancel()
		if err == nil || !strings.Contains(err.Error(), s.want) {
			t.Errorf("%v, want %q", err, s.want)
		}
		for _, m := range all {
			m.Close()
		}
	}
}

// A script that the server has lost is given to it again; a request that can run in its place
// does.
func TestMasterRealScripts(t *testing.T) {
	s := startRedis(t)
	m := connectedMasters(t, MasterOptions{Timeout: time.Second, Scripts: [][]byte{[]byte("return 7")}}, s)[0]
	sha := s.must(t, "SCRIPT", "LOAD", "return 7").(string)
	for range 3 {
		if got, err := askMaster(m, 10*time.Second, "EVALSHA", sha, "0"); string(got) != ":7\r\n" {
			t.Errorf("%q %v", got, err)
		}
		s.must(t, "SCRIPT", "FLUSH")
	}
}
