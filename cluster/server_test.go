package cluster

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is a redis-server or Sentinel that a test started.
type server struct {
	addr    string
	port    string
	dir     string
	program string
	args    []string
	process *exec.Cmd
	log     *bytes.Buffer // to be read when it has ended
	ended   chan struct{}
	*redis.Client
}

// startRedis starts a redis-server with args and waits until it answers. It ends with
// the test.
func startRedis(t *testing.T, args ...string) *server {
	t.Helper()
	return startServer(t, "redis-server", nil, args...)
}

// startServer starts program. prepare may write a configuration file and
// returns the arguments that stand before all others.
func startServer(t *testing.T, program string, prepare func(dir, port string) []string, args ...string) *server {
	t.Helper()
	for range 20 {
		port := freePort(t)
		s := &server{addr: "127.0.0.1:" + port, port: port, dir: t.TempDir(), program: program}
		if prepare != nil {
			s.args = prepare(s.dir, port)
		}
		s.args = append(s.args, "--port", port, "--bind", "127.0.0.1", "--dir", s.dir)
		if prepare == nil {
			s.args = append(s.args, "--save", "", "--appendonly", "no")
		}
		s.args = append(s.args, args...)
		if s.tryStart(t) {
			t.Cleanup(func() {
				s.Client.Close()
				s.kill()
				if t.Failed() {
					t.Logf("%s at %s:\n%s", program, s.addr, lastLines(s.log.String(), 15))
				}
			})
			return s
		}
	}
	t.Fatalf("%s did not start in 20 attempts", program)
	return nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// tryStart reports false when the process ended at once, as when its port is taken.
func (s *server) tryStart(t *testing.T) bool {
	t.Helper()
	path, err := exec.LookPath(s.program)
	if err != nil {
		t.Fatalf("%v: these tests need a real Redis: install redis-server (apt install redis-server redis-sentinel, brew install redis)", err)
	}
	s.log = new(bytes.Buffer)
	s.process = exec.Command(path, s.args...)
	s.process.Stdout, s.process.Stderr = s.log, s.log
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	s.ended = make(chan struct{})
	go func() {
		s.process.Wait()
		close(s.ended)
	}()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		select {
		case <-s.ended:
			return false
		default:
		}
		if conn, err := net.Dial("tcp", s.addr); err == nil {
			conn.Close()
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%s at %s: %v", s.program, s.addr, err)
		}
	}
	s.Client = redis.NewClient(&redis.Options{Password: s.password(), Addr: s.addr, Protocol: 2, MaxRetries: -1, PoolSize: 1000, PipelinePoolSize: -1, DisableIdentity: true})
	return true
}

// password is the one that --requirepass gives.
func (s *server) password() string {
	if i := slices.Index(s.args, "--requirepass"); i >= 0 {
		return s.args[i+1]
	}
	return ""
}

// kill ends the process as kill -9 does, and waits for that.
func (s *server) kill() {
	s.process.Process.Kill()
	<-s.ended
}

func (s *server) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := s.process.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// freePort is a port below 22700 that is free, as is the one 10000 above it, which is the
// bus of a cluster node.
func freePort(t *testing.T) string {
	t.Helper()
	for range 1000 {
		port := 11000 + rand.IntN(11700)
		if isFree(port) && isFree(port+10000) {
			return fmt.Sprint(port)
		}
	}
	t.Fatal("no free port")
	return ""
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		return false
	}
	l.Close()
	return true
}

// startCluster starts a cluster of 3 masters and as many replicas of each as
// asked for; masters come first.
func startCluster(t *testing.T, replicas int, args ...string) []*server {
	t.Helper()
	args = append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
		"--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0",
		// CLUSTER SLOTS hides a replica until its master has written or pinged.
		"--repl-ping-replica-period", "1"}, args...)
	var nodes []*server
	create := []string{"--cluster", "create"}
	for range 3 * (replicas + 1) {
		n := startRedis(t, args...)
		nodes = append(nodes, n)
		create = append(create, n.addr)
	}
	create = append(create, "--cluster-replicas", fmt.Sprint(replicas), "--cluster-yes")
	for attempt := 1; ; attempt++ {
		// It waits for ever where the nodes' first packets to each other were too slow on a busy machine.
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		out, err := exec.CommandContext(ctx, "redis-cli", create...).CombinedOutput()
		cancel()
		if err == nil {
			break
		}
		if attempt == 3 {
			t.Fatalf("redis-cli --cluster create: %v\n%s", err, out)
		}
		for _, n := range nodes {
			n.must(t, "CLUSTER", "RESET", "HARD")
		}
	}
	for _, n := range nodes {
		eventually(t, 15*time.Second, "node "+n.addr+" knows the cluster", func() bool {
			slots, err := n.ClusterSlots(t.Context()).Result()
			info, _ := n.ClusterInfo(t.Context()).Result()
			return err == nil && strings.Contains(info, "cluster_state:ok") && len(slots) == 3 &&
				!slices.ContainsFunc(slots, func(s redis.ClusterSlot) bool { return len(s.Nodes) != replicas+1 })
		})
	}
	return nodes
}

func (s *server) must(t *testing.T, args ...any) any {
	t.Helper()
	v, err := s.Do(t.Context(), args...).Result()
	if err != nil {
		t.Fatalf("%s: %v: %v", s.addr, args, err)
	}
	return v
}

// moveSlot moves slot n, which is empty, as redis-cli --cluster reshard does.
func moveSlot(t *testing.T, n int, from, to *server) {
	t.Helper()
	id := to.must(t, "CLUSTER", "MYID")
	to.must(t, "CLUSTER", "SETSLOT", n, "IMPORTING", from.must(t, "CLUSTER", "MYID"))
	from.must(t, "CLUSTER", "SETSLOT", n, "MIGRATING", id)
	to.must(t, "CLUSTER", "SETSLOT", n, "NODE", id)
	from.must(t, "CLUSTER", "SETSLOT", n, "NODE", id)
}

func byAddr(servers []*server, addr string) *server {
	i := slices.IndexFunc(servers, func(s *server) bool { return s.addr == addr })
	if i < 0 {
		return nil
	}
	return servers[i]
}

func addrs(servers ...*server) []string {
	var all []string
	for _, s := range servers {
		all = append(all, s.addr)
	}
	return all
}

// soon is a limit for what takes a moment, on a machine that is busy with other things.
const soon = 15 * time.Second

// eventually waits until ok.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if ok() {
			return time.Since(began)
		}
		if time.Since(began) > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// testLog writes to the log of the test, until the test is over.
func testLog(t *testing.T) *slog.Logger {
	w := &logWriter{t: t}
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.t = nil
	})
	return slog.New(slog.NewTextHandler(w, nil))
}

type logWriter struct {
	mu sync.Mutex
	t  *testing.T
}

func (w *logWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.t != nil {
		w.t.Log(strings.TrimSpace(string(line)))
	}
	return len(line), nil
}

// certificates makes a CA and a certificate of it for 127.0.0.1 in dir.
func certificates(t *testing.T, dir string) (ca, cert, key string) {
	t.Helper()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authorityDER, err := x509.CreateCertificate(crand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "redis"},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leafDER, err := x509.CreateCertificate(crand.Reader, leaf, authority, leafKey.Public(), authorityKey)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		t.Fatal(err)
	}
	return write("ca.pem", "CERTIFICATE", authorityDER), write("cert.pem", "CERTIFICATE", leafDER), write("key.pem", "PRIVATE KEY", keyDER)
}

// trusting is a TLS client that trusts ca and shows cert.
func trusting(t *testing.T, ca, cert, key string) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}
}

// startSentinels starts n Sentinels that watch master under the name "mine",
// with a quorum of most of them.
func startSentinels(t *testing.T, n int, master *server, lines ...string) []*server {
	t.Helper()
	var all []*server
	for range n {
		all = append(all, startServer(t, "redis-server", func(dir, port string) []string {
			path := filepath.Join(dir, "sentinel.conf")
			text := fmt.Sprintf("sentinel monitor mine 127.0.0.1 %s %d\n"+
				"sentinel down-after-milliseconds mine 500\nsentinel failover-timeout mine 3000\n", master.port, n/2+1)
			if err := os.WriteFile(path, []byte(text+strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			return []string{path, "--sentinel"}
		}))
	}
	return all
}

// restart starts a server that was killed again, at the same port.
func (s *server) restart(t *testing.T) {
	t.Helper()
	s.Client.Close()
	if !s.tryStart(t) {
		t.Fatalf("redis-server at %s did not start again", s.addr)
	}
}

// startReplica starts a replica of master, which has others already, and waits until it gets
// what is written. A link that is up may carry nothing yet, and what a WAIT counts may
// have come with the first copy of all.
func startReplica(t *testing.T, master *server, others int) *server {
	t.Helper()
	r := startRedis(t, "--replicaof", "127.0.0.1 "+master.port, "--repl-diskless-sync-delay", "0")
	eventually(t, 15*time.Second, "the replica follows", func() bool {
		for range 2 {
			master.must(t, "SET", "follow", "me")
			if master.must(t, "WAIT", others+1, 100) != int64(others+1) {
				return false
			}
		}
		return true
	})
	return r
}

// reply is the lines of a reply like that of INFO.
func reply(lines ...string) string { return strings.Join(lines, "\r\n") + "\r\n" }
