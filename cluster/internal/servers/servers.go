// Package servers starts real servers for the tests of cluster and the packages below it.
package servers

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/rig"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

// Server is a redis-server or Sentinel that a test started, with a client of it.
type Server struct {
	*rig.Server
	*redis.Client
}

// StartRedis starts a redis-server with args and waits until it answers. It ends with
// the test.
func StartRedis(t *testing.T, args ...string) *Server {
	t.Helper()
	password := ""
	if i := slices.Index(args, "--requirepass"); i >= 0 {
		password = args[i+1]
	}
	return withClient(t, rig.StartRedis(t, args...), password)
}

// withClient is s with a client that lives as long as t: without retries and with many connections, so that a
// test sees what each of its commands meets. The log of s is shown if t fails.
func withClient(t *testing.T, s *rig.Server, password string) *Server {
	t.Helper()
	client := redis.NewClient(&redis.Options{Password: password, Addr: s.Addr, Protocol: 2, MaxRetries: -1,
		PoolSize: 1000, PipelinePoolSize: -1, DisableIdentity: true})
	t.Cleanup(func() {
		client.Close()
		if t.Failed() {
			t.Logf("redis-server at %s:\n%s", s.Addr, s.Log.Tail())
		}
	})
	return &Server{s, client}
}

// StartCluster starts a cluster of 3 masters and as many replicas of each as
// asked for; masters come first. It fails over by itself after DeadAfter.
func StartCluster(t *testing.T, replicas int, args ...string) []*Server {
	t.Helper()
	// CLUSTER SLOTS hides a replica until its master has written or pinged.
	args = append([]string{"--repl-ping-replica-period", "1"}, args...)
	var nodes []*Server
	for _, n := range rig.StartCluster(t, 3, replicas, args...).Nodes {
		nodes = append(nodes, withClient(t, n, ""))
	}
	for _, n := range nodes {
		Eventually(t, "node "+n.Addr+" shows all nodes", func() bool {
			slots, err := n.ClusterSlots(t.Context()).Result()
			return err == nil && len(slots) == 3 && !slices.ContainsFunc(slots,
				func(s redis.ClusterSlot) bool { return len(s.Nodes) != replicas+1 })
		})
	}
	return nodes
}

// Cluster is the cluster of nodes, for what integration/rig does with all of them.
func Cluster(nodes []*Server) *rig.Cluster {
	c := new(rig.Cluster)
	for _, n := range nodes {
		c.Nodes = append(c.Nodes, n.Server)
	}
	return c
}

// Must runs a command, and returns its reply as go-redis reads it. An error reply ends the test.
func (s *Server) Must(t *testing.T, args ...any) any {
	t.Helper()
	v, err := s.Client.Do(t.Context(), args...).Result()
	if err != nil {
		t.Fatalf("%s: %v: %v", s.Addr, args, err)
	}
	return v
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
	rig.Eventually(t, Patience, what, ok)
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
		var calls int
		fmt.Sscanf(s.Info(t, "commandstats", "cmdstat_"+command), "calls=%d,", &calls)
		n += calls
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

// StartSentinels starts n Sentinels that watch master under the name "mine", with a quorum of most of them.
// lines are added to the configuration of each. The master counts as down after half a second.
func StartSentinels(t *testing.T, n int, master *Server, lines ...string) []*Server {
	t.Helper()
	lines = append([]string{
		fmt.Sprintf("sentinel monitor mine 127.0.0.1 %d %d", master.Port, n/2+1),
		"sentinel down-after-milliseconds mine 500",
		"sentinel failover-timeout mine 3000",
	}, lines...)
	var all []*Server
	for range n {
		all = append(all, withClient(t, rig.StartSentinel(t, lines...), ""))
	}
	return all
}

// StartReplica starts a replica of master, which has others already, and waits until it gets
// what is written. A link that is up may carry nothing yet, and what a WAIT counts may
// have come with the first copy of all.
func StartReplica(t *testing.T, master *Server, others int) *Server {
	t.Helper()
	r := StartRedis(t, "--replicaof", fmt.Sprint("127.0.0.1 ", master.Port))
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
