// Package servers starts real servers for the tests of cluster and the packages below it.
package servers

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
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

	"lockproxy/integration/rig"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

// Server is a redis-server or Sentinel that a test started.
type Server struct {
	Addr          string // 127.0.0.1:Port
	Port          string
	Dir           string // its own, which goes with the test
	program       string
	args          []string // all of them: Restart uses them again
	process       *exec.Cmd
	log           *bytes.Buffer // to be read when it has ended
	ended         chan struct{} // closed once it has
	*redis.Client               // made anew by Restart
}

// StartRedis starts a redis-server with args and waits until it answers. It ends with
// the test.
func StartRedis(t *testing.T, args ...string) *Server {
	t.Helper()
	return StartServer(t, "redis-server", nil, args...)
}

// StartServer starts program. prepare may write a configuration file and
// returns the arguments that stand before all others.
func StartServer(t *testing.T, program string, prepare func(dir, port string) []string,
	args ...string) *Server {
	t.Helper()
	for range 20 {
		port := freePort(t)
		s := &Server{Addr: "127.0.0.1:" + port, Port: port, Dir: t.TempDir(), program: program}
		if prepare != nil {
			s.args = prepare(s.Dir, port)
		}
		s.args = append(s.args, "--port", port, "--bind", "127.0.0.1", "--dir", s.Dir)
		if prepare == nil {
			s.args = append(s.args, "--save", "", "--appendonly", "no")
		}
		s.args = append(s.args, args...)
		if s.tryStart(t) {
			t.Cleanup(func() {
				s.Client.Close()
				s.Kill()
				if t.Failed() {
					t.Logf("%s at %s:\n%s", program, s.Addr, lastLines(s.log.String(), 15))
				}
			})
			return s
		}
	}
	t.Fatalf("%s did not start in 20 attempts", program)
	return nil
}

// lastLines are the last n lines of text, or all if it has fewer.
func lastLines(text string, n int) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// tryStart reports false when the process ended at once, as when its port is taken. Otherwise it returns when
// the port takes connections; what is loaded, or replicated, may still be missing.
func (s *Server) tryStart(t *testing.T) bool {
	t.Helper()
	path, err := exec.LookPath(s.program)
	if err != nil {
		t.Fatalf("%v: these tests need a real Redis: install redis-server "+
			"(apt install redis-server redis-sentinel, brew install redis)", err)
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
	for hung := time.Now().Add(Patience); ; time.Sleep(10 * time.Millisecond) {
		select {
		case <-s.ended:
			return false
		default:
		}
		if conn, err := net.Dial("tcp", s.Addr); err == nil {
			conn.Close()
			break
		} else if time.Now().After(hung) {
			t.Fatalf("%s at %s: %v", s.program, s.Addr, err)
		}
	}
	// Without retries and with many connections, so that a test sees what each of its commands meets.
	s.Client = redis.NewClient(&redis.Options{Password: s.password(), Addr: s.Addr,
		Protocol: 2, MaxRetries: -1,
		PoolSize: 1000, PipelinePoolSize: -1, DisableIdentity: true})
	return true
}

// password is the one that --requirepass gives.
func (s *Server) password() string {
	if i := slices.Index(s.args, "--requirepass"); i >= 0 {
		return s.args[i+1]
	}
	return ""
}

// Kill ends the process as kill -9 does, and waits for that.
func (s *Server) Kill() {
	s.process.Process.Kill()
	<-s.ended
}

// Signal sends sig to the process, such as SIGSTOP for a server that hangs.
func (s *Server) Signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := s.process.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// freePort is a port that is free, as is the one 10000 above it, which is the bus of a cluster node. Tests of
// other packages have no servers here.
func freePort(t *testing.T) string {
	t.Helper()
	for range 1000 {
		port := 16240 + rand.IntN(2000)
		if isFree(port) && isFree(port+10000) {
			return fmt.Sprint(port)
		}
	}
	t.Fatal("no free port")
	return ""
}

// isFree says that nobody listens at the port now; somebody may a moment later, so StartServer tries again.
func isFree(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		return false
	}
	l.Close()
	return true
}

// StartCluster starts a cluster of 3 masters and as many replicas of each as
// asked for; masters come first. With replicas it fails over within seconds.
func StartCluster(t *testing.T, replicas int, args ...string) []*Server {
	t.Helper()
	args = append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000",
		"--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0",
		// CLUSTER SLOTS hides a replica until its master has written or pinged.
		"--repl-ping-replica-period", "1"}, args...)
	var nodes []*Server
	create := []string{"--cluster", "create"}
	for range 3 * (replicas + 1) {
		n := StartRedis(t, args...)
		nodes = append(nodes, n)
		create = append(create, n.Addr)
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
			n.Must(t, "CLUSTER", "RESET", "HARD")
		}
	}
	for _, n := range nodes {
		Eventually(t, "node "+n.Addr+" knows the cluster", func() bool {
			slots, err := n.ClusterSlots(t.Context()).Result()
			info, _ := n.ClusterInfo(t.Context()).Result()
			return err == nil && strings.Contains(info, "cluster_state:ok") && len(slots) == 3 &&
				!slices.ContainsFunc(slots,
					func(s redis.ClusterSlot) bool { return len(s.Nodes) != replicas+1 })
		})
	}
	if replicas == 0 {
		NoFailovers(t, nodes)
	}
	return nodes
}

// NoFailovers lets no node of a cluster take another for dead, which a busy machine keeps from answering for
// seconds.
func NoFailovers(t *testing.T, nodes []*Server) {
	t.Helper()
	for _, n := range nodes {
		n.Must(t, "CONFIG", "SET", "cluster-node-timeout", time.Hour.Milliseconds())
	}
}

// Must runs a command, and returns its reply as go-redis reads it. An error reply ends the test.
func (s *Server) Must(t *testing.T, args ...any) any {
	t.Helper()
	v, err := s.Do(t.Context(), args...).Result()
	if err != nil {
		t.Fatalf("%s: %v: %v", s.Addr, args, err)
	}
	return v
}

// MoveSlot moves slot n, which is empty, as redis-cli --cluster reshard does.
func MoveSlot(t *testing.T, n int, from, to *Server) {
	t.Helper()
	id := to.Must(t, "CLUSTER", "MYID")
	to.Must(t, "CLUSTER", "SETSLOT", n, "IMPORTING", from.Must(t, "CLUSTER", "MYID"))
	from.Must(t, "CLUSTER", "SETSLOT", n, "MIGRATING", id)
	to.Must(t, "CLUSTER", "SETSLOT", n, "NODE", id)
	from.Must(t, "CLUSTER", "SETSLOT", n, "NODE", id)
}

// Agreed waits until all nodes have the same epoch: who takes a slot next takes a higher one then, so nobody
// who had the slot before gets it back.
func Agreed(t *testing.T, nodes []*Server) {
	t.Helper()
	Eventually(t, "the same epoch at all nodes", func() bool {
		epochs := map[string]bool{}
		for _, n := range nodes {
			_, rest, _ := strings.Cut(fmt.Sprint(n.Must(t, "CLUSTER", "INFO")), "cluster_current_epoch:")
			epoch, _, _ := strings.Cut(rest, "\r\n")
			epochs[epoch] = true
		}
		return len(epochs) == 1
	})
}

// ByAddr is the server at addr among servers, nil if none is there.
func ByAddr(servers []*Server, addr string) *Server {
	i := slices.IndexFunc(servers, func(s *Server) bool { return s.Addr == addr })
	if i < 0 {
		return nil
	}
	return servers[i]
}

// Addrs are where the servers are reached, in their order.
func Addrs(servers ...*Server) []string {
	var all []string
	for _, s := range servers {
		all = append(all, s.Addr)
	}
	return all
}

// Patience is how long tests wait for what comes, however busy the machine is: only a hung program is later.
const Patience = 5 * time.Minute

// Eventually waits until ok.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for hung := time.Now().Add(Patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(hung) {
			t.Fatalf("not within %v: %s", Patience, what)
		}
	}
}

// GoroutinesEnd waits until those have ended that were not there before. What is still there is logged if
// they do not.
func GoroutinesEnd(t *testing.T, before goleak.Option) {
	t.Helper()
	var left error
	defer func() {
		if left != nil {
			t.Log(left)
		}
	}()
	Eventually(t, "goroutines end", func() bool {
		left = goleak.Find(before)
		return left == nil
	})
}

// Calls is how often servers were sent a command, by the name that INFO commandstats has for it.
func Calls(t *testing.T, command string, all ...*Server) (n int) {
	t.Helper()
	for _, s := range all {
		for line := range strings.Lines(s.Info(t.Context(), "commandstats").Val()) {
			if _, counts, ok := strings.Cut(line, "cmdstat_"+command+":calls="); ok {
				var calls int
				fmt.Sscanf(counts, "%d,", &calls)
				n += calls
			}
		}
	}
	return n
}

// Log writes to the log of the test, until the test is over.
func Log(t *testing.T) *slog.Logger {
	w := &logWriter{t: t}
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.t = nil
	})
	return slog.New(slog.NewTextHandler(w, nil))
}

// logWriter writes to t until that is over: afterwards goroutines that end late would make it panic. t is nil
// then.
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

// Certificates makes a CA and a certificate of it for 127.0.0.1. It returns the paths of their files.
func Certificates(t *testing.T) (ca, cert, key string) {
	t.Helper()
	a := rig.NewAuthority(t)
	a.Issue(t, "redis", rig.LoopbackIP)
	return a.File("ca.crt"), a.File("redis.crt"), a.File("redis.key")
}

// Trusting is a TLS client that trusts ca and shows cert. All three are paths.
func Trusting(t *testing.T, ca, cert, key string) *tls.Config {
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

// StartSentinels starts n Sentinels that watch master under the name "mine", with a quorum of most of them.
// lines are added to the configuration of each. The master counts as down after half a second.
func StartSentinels(t *testing.T, n int, master *Server, lines ...string) []*Server {
	t.Helper()
	var all []*Server
	for range n {
		all = append(all, StartServer(t, "redis-server", func(dir, port string) []string {
			path := filepath.Join(dir, "sentinel.conf")
			text := fmt.Sprintf("sentinel monitor mine 127.0.0.1 %s %d\n"+
				"sentinel down-after-milliseconds mine 500\nsentinel failover-timeout mine 3000\n",
				master.Port, n/2+1)
			if err := os.WriteFile(path, []byte(text+strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			return []string{path, "--sentinel"}
		}))
	}
	return all
}

// Restart starts a server that was killed again, at the same port. What it has not written to its Dir is
// lost, as with a real one.
func (s *Server) Restart(t *testing.T) {
	t.Helper()
	s.Client.Close()
	if !s.tryStart(t) {
		t.Fatalf("redis-server at %s did not start again", s.Addr)
	}
}

// StartReplica starts a replica of master, which has others already, and waits until it gets
// what is written. A link that is up may carry nothing yet, and what a WAIT counts may
// have come with the first copy of all.
func StartReplica(t *testing.T, master *Server, others int) *Server {
	t.Helper()
	r := StartRedis(t, "--replicaof", "127.0.0.1 "+master.Port, "--repl-diskless-sync-delay", "0")
	Eventually(t, "the replica follows", func() bool {
		for range 2 {
			master.Must(t, "SET", "follow", "me")
			if master.Must(t, "WAIT", others+1, 100) != int64(others+1) {
				return false
			}
		}
		return true
	})
	return r
}

// Reply is the lines of a reply like that of INFO.
func Reply(lines ...string) string { return strings.Join(lines, "\r\n") + "\r\n" }
