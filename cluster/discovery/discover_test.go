//go:build !quick

package discovery_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lockproxy/cluster"
	"lockproxy/cluster/discovery"
	"lockproxy/cluster/internal/servers"
	"lockproxy/cluster/internal/upstream"
	"lockproxy/integration/rig"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

func TestDiscoverSingle(t *testing.T) {
	s := servers.StartRedis(t)
	u := upstream.Find(t, discovery.Options{Addrs: []string{s.Addr}})
	top := u.Topology()
	if top.Kind != cluster.Single || top.Served() != slot.Count || top.Slots[9].Addr != s.Addr ||
		len(top.Replicas) != 0 {
		t.Errorf("%+v", top.Masters)
	}
}

func TestDiscoverUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.sock")
	servers.StartRedis(t, "--unixsocket", path)
	u := upstream.Find(t, discovery.Options{Addrs: []string{path}})
	if got := u.Topology().Slots[0].Addr; got != path {
		t.Errorf("master at %s", got)
	}
	conn, err := u.Dial(t.Context(), path, cluster.Mode{Proto: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// A replica leads to its master, and the upstream follows when the roles change.
func TestDiscoverReplicaOfOne(t *testing.T) {
	master := servers.StartRedis(t)
	replica := servers.StartRedis(t, "--replicaof", "127.0.0.1", strconv.Itoa(master.Port))
	servers.Eventually(t, "replica in sync", func() bool {
		return replica.Info(t, "replication", "master_link_status") == "up"
	})
	u := upstream.Find(t, discovery.Options{Addrs: []string{replica.Addr}})
	top := u.Topology()
	if top.Slots[0].Addr != master.Addr || len(top.Replicas) != 1 || top.Replicas[0].Addr != replica.Addr {
		t.Fatalf("master %+v, replicas %+v", top.Slots[0], top.Replicas)
	}
	replica.Must(t, "REPLICAOF", "NO", "ONE")
	master.Must(t, "REPLICAOF", "127.0.0.1", replica.Port)
	u.Refresh() // as the data plane does when it sees READONLY
	servers.Eventually(t, "the new master is found",
		func() bool { return u.Topology().Slots[0].Addr == replica.Addr })
	master.Kill()
	u.Refresh()
	before := servers.Calls(t, "info", replica)
	servers.Eventually(t, "the master is asked again and again",
		func() bool { return servers.Calls(t, "info", replica) >= before+8 })
	if got := u.Topology().Slots[0].Addr; got != replica.Addr {
		t.Errorf("master at %s", got)
	}
}

func TestDiscoverSentinel(t *testing.T) {
	master := servers.StartRedis(t)
	replica := servers.StartRedis(t, "--replicaof", "127.0.0.1", strconv.Itoa(master.Port))
	// No fail-over before it is asked for: the master may be silent on a busy machine.
	sentinels := servers.StartSentinels(t, 3, master, "sentinel down-after-milliseconds mine 3600000")
	for _, s := range sentinels {
		servers.Eventually(t, "Sentinel "+s.Addr+" knows the group", func() bool {
			info := s.Client.Info(t.Context()).Val()
			return strings.Contains(info, "slaves=1,sentinels=3")
		})
	}
	u := upstream.Find(t, discovery.Options{Addrs: servers.Addrs(sentinels[0])})
	top := u.Topology()
	if top.Kind != cluster.Sentinel || top.Slots[7].Addr != master.Addr || len(top.Replicas) != 1 ||
		top.Replicas[0].Addr != replica.Addr {
		t.Fatalf("%v, master %+v, replicas %+v", top.Kind, top.Slots[7], top.Replicas)
	}
	// The one that was named dies together with the master.
	for _, s := range sentinels {
		s.Must(t, "SENTINEL", "SET", "mine", "down-after-milliseconds", 500)
	}
	sentinels[0].Kill()
	master.Kill()
	servers.Eventually(t, "the Sentinels agree", func() bool {
		at, _ := sentinels[1].Client.Do(t.Context(), "SENTINEL", "GET-MASTER-ADDR-BY-NAME",
			"mine").StringSlice()
		role := replica.Client.Info(t.Context(), "replication").Val()
		return len(at) == 2 && at[1] == strconv.Itoa(replica.Port) && strings.Contains(role, "role:master")
	})
	servers.Eventually(t, "the fail-over is seen",
		func() bool { return u.Topology().Slots[7].Addr == replica.Addr })
}

func TestDiscoverSentinelPassword(t *testing.T) {
	master := servers.StartRedis(t, "--requirepass", "data")
	sentinels := servers.StartSentinels(t, 1, master, "sentinel auth-pass mine data", "requirepass watch")
	refused(t, wrong, discovery.Options{Addrs: servers.Addrs(sentinels...), Password: "data",
		SentinelPassword: "watch", SentinelMaster: "yours"}, `no master named "yours"`)
	refused(t, wrong, discovery.Options{Addrs: servers.Addrs(sentinels...), Password: "data",
		SentinelPassword: "wrong"}, sentinels[0].Addr, "WRONGPASS")
	u := upstream.Find(t, discovery.Options{Addrs: servers.Addrs(sentinels...), Password: "data",
		SentinelPassword: "watch"})
	if got := u.Topology().Slots[0].Addr; got != master.Addr {
		t.Errorf("master at %s", got)
	}
}

// wrong is long enough for Find to learn what is wrong, on most machines.
const wrong = 500 * time.Millisecond

// always is a configuration that never changes.
func always(c *tls.Config) func() *tls.Config { return func() *tls.Config { return c } }

func TestDiscoverTLS(t *testing.T) {
	a := rig.NewAuthority(t)
	cert, key := a.Issue(t, "redis", rig.LoopbackIP)
	port := strconv.Itoa(rig.FreePort(t))
	s := servers.StartRedis(t, "--tls-port", port, "--tls-ca-cert-file", a.File("ca.crt"),
		"--tls-cert-file", a.File("redis.crt"), "--tls-key-file", a.File("redis.key"),
		"--user", "proxy", "on", ">secret", "~*", "&*", "+@all")
	addr := "127.0.0.1:" + port
	config := &tls.Config{RootCAs: x509.NewCertPool(),
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}}
	config.RootCAs.AddCert(a.Cert)
	u := upstream.Find(t, discovery.Options{Addrs: []string{addr}, TLS: always(config), User: "proxy",
		Password: "secret"})
	for _, proto := range []int{2, 3} {
		conn, err := u.Dial(t.Context(), addr, cluster.Mode{Proto: proto}, nil)
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
		refused(t, wrong, discovery.Options{Addrs: []string{addr}}, addr+": ",
			"does it expect TLS, or")
	})
	t.Run("plain port", func(t *testing.T) {
		refused(t, wrong, discovery.Options{Addrs: servers.Addrs(s), TLS: always(config)},
			s.Addr+": ", "without TLS where TLS is set")
	})
	t.Run("another CA", func(t *testing.T) {
		refused(t, wrong, discovery.Options{Addrs: []string{addr},
			TLS: always(&tls.Config{Certificates: config.Certificates,
				RootCAs: x509.NewCertPool()})}, "check the CA")
	})
	t.Run("no certificate", func(t *testing.T) {
		refused(t, wrong, discovery.Options{Addrs: []string{addr},
			TLS: always(&tls.Config{RootCAs: config.RootCAs})}, "client certificate")
	})
}

// refused checks how Find fails at what it tries again and again. The time may be too short on a busy machine
// for it to learn why: then it has longer.
func refused(t *testing.T, within time.Duration, o discovery.Options, texts ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	missing := fails(ctx, t, o, texts)
	if missing != nil && within < servers.Patience {
		refused(t, 4*within, o, texts...)
	} else if missing != nil {
		t.Error(missing)
	}
}

// fails says which of the texts the error of Find does not have.
func fails(ctx context.Context, t *testing.T, o discovery.Options, texts []string) (missing error) {
	t.Helper()
	defer servers.GoroutinesEnd(t, goleak.IgnoreCurrent())
	_, err := discovery.Find(ctx, o)
	if err == nil {
		t.Fatal("no error")
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			missing = fmt.Errorf("%q is missing in: %w", text, err)
		}
	}
	return missing
}

// say sends one command over conn and returns the reply.
func say(t *testing.T, conn net.Conn, args ...string) resp.Value {
	t.Helper()
	conn.SetDeadline(time.Now().Add(servers.Patience))
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
	open, locked := servers.StartRedis(t), servers.StartRedis(t, "--requirepass", "right")
	if _, err := discovery.Find(t.Context(), discovery.Options{}); err == nil {
		t.Error("no address is no error")
	}
	refused(t, wrong, discovery.Options{Addrs: []string{"127.0.0.1:1", "/nowhere/r.sock"}},
		"127.0.0.1:1: ", "connection refused", "is the port right?", "/nowhere/r.sock: ",
		"is the path right?")
	for _, test := range []struct {
		name  string
		o     discovery.Options
		texts []string
	}{
		{"no password", discovery.Options{Addrs: servers.Addrs(locked)},
			[]string{locked.Addr, "NOAUTH", "wants a password"}},
		{"wrong password", discovery.Options{Addrs: servers.Addrs(locked), Password: "wrong"},
			[]string{locked.Addr, "WRONGPASS", "check the upstream's user"}},
		{"wrong user", discovery.Options{Addrs: servers.Addrs(locked), User: "nobody", Password: "right"},
			[]string{"WRONGPASS"}},
		{"no Sentinel", discovery.Options{Addrs: servers.Addrs(open), SentinelMaster: "mine"},
			[]string{open.Addr, "it is no Sentinel"}},
		{"two masters", discovery.Options{Addrs: append(servers.Addrs(open),
			servers.Addrs(servers.StartRedis(t))...)}, []string{"is another one"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			// Every node answers: it gives up by itself, without an end of the time that it has.
			if missing := fails(t.Context(), t, test.o, test.texts); missing != nil {
				t.Error(missing)
			}
		})
	}
	t.Run("stopped node", func(t *testing.T) {
		open.Signal(syscall.SIGSTOP)
		defer open.Signal(syscall.SIGCONT)
		refused(t, wrong, discovery.Options{Addrs: servers.Addrs(open)}, "did not answer in time")
	})
}

func TestDialErrors(t *testing.T) {
	s := servers.StartRedis(t, "--requirepass", "right")
	o := discovery.Options{Addrs: servers.Addrs(s), Password: "right"}
	t.Run("wrong password", func(t *testing.T) {
		o.ConnectTimeout = servers.Patience
		u := upstream.Find(t, o)
		s.Must(t, "CONFIG", "SET", "requirepass", "other")
		for _, proto := range []int{2, 3} {
			_, err := u.Dial(t.Context(), s.Addr, cluster.Mode{Proto: proto}, nil)
			if err == nil || !strings.HasPrefix(err.Error(), "cluster: node "+s.Addr+": WRONGPASS") {
				t.Errorf("%d: %v", proto, err)
			}
		}
		s.Must(t, "CONFIG", "SET", "requirepass", "right")
	})
	t.Run("stopped", func(t *testing.T) {
		o.ConnectTimeout = 300 * time.Millisecond // Find asks again when an answer takes longer
		u := upstream.Find(t, o)
		s.Signal(syscall.SIGSTOP)
		defer s.Signal(syscall.SIGCONT)
		_, err := u.Dial(t.Context(), s.Addr, cluster.Mode{Proto: 2}, nil)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := u.Dial(ctx, s.Addr, cluster.Mode{Proto: 2}, nil); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// A node that has no place for one more client says so and closes. That is told, by the control plane and by
// the data plane.
func TestNodeWithoutPlaces(t *testing.T) {
	for name, args := range map[string][]string{"open": nil, "password": {"--requirepass", "right"}} {
		t.Run(name, func(t *testing.T) {
			s := servers.StartRedis(t, args...)
			o := discovery.Options{Addrs: servers.Addrs(s)}
			if args != nil {
				o.Password = "right"
			}
			u := upstream.Find(t, o)
			s.Must(t, "CONFIG", "SET", "maxclients", "1")
			for _, proto := range []int{2, 3} {
				_, err := u.Dial(t.Context(), s.Addr, cluster.Mode{Proto: proto}, nil)
				if err == nil || !strings.Contains(err.Error(), "raise maxclients of the node") {
					t.Errorf("RESP%d: %v", proto, err)
				}
			}
			refused(t, wrong, o, s.Addr+": ERR max number of clients reached", "raise maxclients of the node")
		})
	}
}

func TestDialWithoutPassword(t *testing.T) {
	s := servers.StartRedis(t)
	u := upstream.Find(t, discovery.Options{Addrs: servers.Addrs(s)})
	s.Must(t, "CONFIG", "SET", "requirepass", "new")
	for _, proto := range []int{2, 3} {
		if _, err := u.Dial(t.Context(), s.Addr, cluster.Mode{Proto: proto}, nil); err == nil ||
			!strings.Contains(err.Error(), "wants a password") {
			t.Errorf("%d: %v", proto, err)
		}
	}
}

func TestCommand(t *testing.T) {
	s := servers.StartRedis(t)
	u := upstream.Find(t, discovery.Options{Addrs: servers.Addrs(s)})
	command, err := u.Command(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if v, rest, err := resp.Parse(command); err != nil || len(rest) > 0 || len(v.Elems) < 200 {
		t.Errorf("COMMAND: %d rows, %d bytes more, %v", len(v.Elems), len(rest), err)
	}
}
