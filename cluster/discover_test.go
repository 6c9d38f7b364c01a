//go:build !quick

package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

func TestDiscoverCluster(t *testing.T) {
	nodes := startCluster(t, 1)
	u := discovered(t, Options{Addrs: []string{"127.0.0.1:1", nodes[4].addr}})
	top := u.Topology()
	if top.Kind != Cluster || len(top.Masters) != 3 || len(top.Replicas) != 3 || top.Served() != slot.Count {
		t.Fatalf("%v, %d masters, %d replicas, %d slots", top.Kind, len(top.Masters), len(top.Replicas), top.Served())
	}
	if top.RedisVersion == "" || top.Sharded() == strings.HasPrefix(top.RedisVersion, "6.") {
		t.Errorf("version %q, sharded %v", top.RedisVersion, u.Topology().Sharded())
	}
	if m := top.Slots[0]; m != top.Masters[0] || !m.Master || m.Addr != nodes[0].addr || len(m.ID) != 40 {
		t.Errorf("slot 0 at %+v", m)
	}
	time.Sleep(2500 * time.Millisecond)
	if u.Topology() != top {
		t.Error("an unchanged cluster made a new topology")
	}
}

func TestDiscoverSingle(t *testing.T) {
	s := startRedis(t)
	u := discovered(t, Options{Addrs: []string{s.addr}})
	top := u.Topology()
	if top.Kind != Single || top.Served() != slot.Count || top.Slots[9].Addr != s.addr || len(top.Replicas) != 0 {
		t.Errorf("%+v", top.Masters)
	}
}

func TestDiscoverUnixSocket(t *testing.T) {
	s := startRedis(t, "--unixsocket", "r.sock")
	path := filepath.Join(s.dir, "r.sock")
	u := discovered(t, Options{Addrs: []string{path}})
	if got := u.Topology().Slots[0].Addr; got != path {
		t.Errorf("master at %s", got)
	}
	conn, err := u.Dial(t.Context(), path, DialMode{Proto: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// A replica leads to its master, and the upstream follows when the roles change.
func TestDiscoverReplicaOfOne(t *testing.T) {
	master := startRedis(t)
	replica := startRedis(t, "--replicaof", "127.0.0.1", master.port, "--repl-diskless-sync-delay", "0")
	eventually(t, 10*time.Second, "replica in sync", func() bool {
		return strings.Contains(replica.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	u := discovered(t, Options{Addrs: []string{replica.addr}})
	top := u.Topology()
	if top.Slots[0].Addr != master.addr || len(top.Replicas) != 1 || top.Replicas[0].Addr != replica.addr {
		t.Fatalf("master %+v, replicas %+v", top.Slots[0], top.Replicas)
	}
	replica.must(t, "REPLICAOF", "NO", "ONE")
	master.must(t, "REPLICAOF", "127.0.0.1", replica.port)
	u.Refresh() // as the data plane does when it sees READONLY
	eventually(t, soon, "the new master is found", func() bool { return u.Topology().Slots[0].Addr == replica.addr })
	master.kill()
	u.Refresh()
	time.Sleep(300 * time.Millisecond)
	if got := u.Topology().Slots[0].Addr; got != replica.addr {
		t.Errorf("master at %s", got)
	}
}

func TestDiscoverSentinel(t *testing.T) {
	master := startRedis(t)
	replica := startRedis(t, "--replicaof", "127.0.0.1", master.port, "--repl-diskless-sync-delay", "0")
	sentinels := startSentinels(t, 3, master)
	for _, s := range sentinels {
		eventually(t, 15*time.Second, "Sentinel "+s.addr+" knows the group", func() bool {
			info := s.Info(t.Context()).Val()
			return strings.Contains(info, "slaves=1,sentinels=3")
		})
	}
	u := discovered(t, Options{Addrs: addrs(sentinels[0])})
	top := u.Topology()
	if top.Kind != Sentinel || top.Slots[7].Addr != master.addr || len(top.Replicas) != 1 || top.Replicas[0].Addr != replica.addr {
		t.Fatalf("%v, master %+v, replicas %+v", top.Kind, top.Slots[7], top.Replicas)
	}
	// The one that was named dies together with the master.
	sentinels[0].kill()
	master.kill()
	eventually(t, 30*time.Second, "the Sentinels agree", func() bool {
		at, _ := sentinels[1].Do(t.Context(), "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mine").StringSlice()
		role := replica.Info(t.Context(), "replication").Val()
		return len(at) == 2 && at[1] == replica.port && strings.Contains(role, "role:master")
	})
	took := eventually(t, soon, "the fail-over is seen", func() bool { return u.Topology().Slots[7].Addr == replica.addr })
	t.Logf("seen after %v", took)
}

func TestDiscoverSentinelPassword(t *testing.T) {
	master := startRedis(t, "--requirepass", "data")
	sentinels := startSentinels(t, 1, master, "sentinel auth-pass mine data", "requirepass watch")
	refused(t, 3*time.Second, Options{Addrs: addrs(sentinels...), Password: "data", SentinelPassword: "watch", SentinelMaster: "yours"}, `no master named "yours"`)
	refused(t, 3*time.Second, Options{Addrs: addrs(sentinels...), Password: "data", SentinelPassword: "wrong"}, sentinels[0].addr, "WRONGPASS")
	u := discovered(t, Options{Addrs: addrs(sentinels...), Password: "data", SentinelPassword: "watch"})
	if got := u.Topology().Slots[0].Addr; got != master.addr {
		t.Errorf("master at %s", got)
	}
}

// always is a configuration that never changes.
func always(c *tls.Config) func() *tls.Config { return func() *tls.Config { return c } }

func TestDiscoverTLS(t *testing.T) {
	ca, cert, key := certificates(t, t.TempDir())
	s := startServer(t, "redis-server", func(_, port string) []string {
		n, _ := strconv.Atoi(port)
		return []string{"--tls-port", strconv.Itoa(n + 10000), "--tls-ca-cert-file", ca, "--tls-cert-file", cert, "--tls-key-file", key,
			"--user", "proxy", "on", ">secret", "~*", "&*", "+@all", "--save", ""}
	})
	n, _ := strconv.Atoi(s.port)
	addr := "127.0.0.1:" + strconv.Itoa(n+10000)
	config := trusting(t, ca, cert, key)
	u := discovered(t, Options{Addrs: []string{addr}, TLS: always(config), User: "proxy", Password: "secret"})
	for _, proto := range []int{2, 3} {
		conn, err := u.Dial(t.Context(), addr, DialMode{Proto: proto}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if got := say(t, conn, "ACL", "WHOAMI"); string(got.Str) != "proxy" {
			t.Errorf("user %q", got.Str)
		}
		if got := say(t, conn, "CONFIG", "GET", "port"); (got.Kind == '%') != (proto == 3) {
			t.Errorf("protocol %d answers with %c", proto, got.Kind)
		}
		if got := say(t, conn, "CLIENT", "GETNAME"); string(got.Str) != "lockproxy" {
			t.Errorf("name %q", got.Str)
		}
	}
	t.Run("plain", func(t *testing.T) {
		refused(t, 3*time.Second, Options{Addrs: []string{addr}}, addr+": ", "does it expect TLS, or")
	})
	t.Run("plain port", func(t *testing.T) {
		refused(t, 3*time.Second, Options{Addrs: addrs(s), TLS: always(config)}, s.addr+": ", "without TLS where TLS is set")
	})
	t.Run("no CA", func(t *testing.T) {
		refused(t, 3*time.Second, Options{Addrs: []string{addr}, TLS: always(&tls.Config{Certificates: config.Certificates})}, "check the CA")
	})
	t.Run("no certificate", func(t *testing.T) {
		refused(t, 3*time.Second, Options{Addrs: []string{addr}, TLS: always(&tls.Config{RootCAs: config.RootCAs})}, "client certificate")
	})
}

// refused checks that Discover fails, and how.
func refused(t *testing.T, within time.Duration, o Options, texts ...string) time.Duration {
	t.Helper()
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	began := time.Now()
	_, err := Discover(ctx, o)
	if err == nil {
		t.Fatal("no error")
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q is missing in: %v", text, err)
		}
	}
	return time.Since(began)
}

// say sends one command over conn and returns the reply.
func say(t *testing.T, conn net.Conn, args ...string) resp.Value {
	t.Helper()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Write(resp.AppendCommandStrings(nil, args...)); err != nil {
		t.Fatal(err)
	}
	var buf []byte
	for {
		chunk := make([]byte, 4096)
		n, err := conn.Read(chunk)
		if err != nil {
			t.Fatal(err)
		}
		buf = append(buf, chunk[:n]...)
		if v, _, err := resp.Parse(buf); err == nil {
			return v
		}
	}
}

func TestDiscoverErrors(t *testing.T) {
	open, locked := startRedis(t), startRedis(t, "--requirepass", "right")
	if _, err := Discover(t.Context(), Options{}); err == nil {
		t.Error("no address is no error")
	}
	took := refused(t, 1500*time.Millisecond, Options{Addrs: []string{"127.0.0.1:1", "/nowhere/r.sock"}},
		"127.0.0.1:1: ", "connection refused", "is the port right?", "/nowhere/r.sock: ", "is the path right?")
	if took < 1400*time.Millisecond {
		t.Errorf("gave up after %v", took)
	}
	for _, test := range []struct {
		name  string
		o     Options
		texts []string
	}{
		{"no password", Options{Addrs: addrs(locked)}, []string{locked.addr, "NOAUTH", "wants a password"}},
		{"wrong password", Options{Addrs: addrs(locked), Password: "wrong"}, []string{locked.addr, "WRONGPASS", "check the upstream's user"}},
		{"wrong user", Options{Addrs: addrs(locked), User: "nobody", Password: "right"}, []string{"WRONGPASS"}},
		{"no Sentinel", Options{Addrs: addrs(open), SentinelMaster: "mine"}, []string{open.addr, "it is no Sentinel"}},
		{"two masters", Options{Addrs: append(addrs(open), addrs(startRedis(t))...)}, []string{"is another one"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if took := refused(t, 20*time.Second, test.o, test.texts...); took > 10*time.Second {
				t.Errorf("took %v although every node answered", took)
			}
		})
	}
	t.Run("stopped node", func(t *testing.T) {
		open.signal(t, syscall.SIGSTOP)
		defer open.signal(t, syscall.SIGCONT)
		refused(t, 3*time.Second, Options{Addrs: addrs(open)}, "did not answer in time")
	})
}

func TestDialErrors(t *testing.T) {
	s := startRedis(t, "--requirepass", "right")
	u := discovered(t, Options{Addrs: addrs(s), Password: "right", ConnectTimeout: 300 * time.Millisecond})
	s.must(t, "CONFIG", "SET", "requirepass", "other")
	for _, proto := range []int{2, 3} {
		_, err := u.Dial(t.Context(), s.addr, DialMode{Proto: proto}, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "cluster: node "+s.addr+": WRONGPASS") {
			t.Errorf("%d: %v", proto, err)
		}
	}
	s.must(t, "CONFIG", "SET", "requirepass", "right")
	s.signal(t, syscall.SIGSTOP)
	began := time.Now()
	_, err := u.Dial(t.Context(), s.addr, DialMode{Proto: 2}, nil)
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := u.Dial(ctx, s.addr, DialMode{Proto: 2}, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	s.signal(t, syscall.SIGCONT)
}

func TestDialWithoutPassword(t *testing.T) {
	s := startRedis(t)
	u := discovered(t, Options{Addrs: addrs(s)})
	s.must(t, "CONFIG", "SET", "requirepass", "new")
	for _, proto := range []int{2, 3} {
		if _, err := u.Dial(t.Context(), s.addr, DialMode{Proto: proto}, nil); err == nil || !strings.Contains(err.Error(), "wants a password") {
			t.Errorf("%d: %v", proto, err)
		}
	}
}

func TestCommand(t *testing.T) {
	s := startRedis(t)
	u := discovered(t, Options{Addrs: addrs(s)})
	command, err := u.Command(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if v, rest, err := resp.Parse(command); err != nil || len(rest) > 0 || len(v.Elems) < 200 {
		t.Errorf("COMMAND: %d rows, %d bytes more, %v", len(v.Elems), len(rest), err)
	}
}
