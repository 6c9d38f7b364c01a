package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// sentinelGroup is a master, its replica, and three sentinels that watch them.
type sentinelGroup struct {
	Master, Replica *Server
	Sentinels       []*Server
}

// StartSentinels starts a Sentinel group; its master is "mymaster". It fails over when told, or in Promoted.
func StartSentinels(l Life) *sentinelGroup {
	l.Helper()
	g := &sentinelGroup{Master: StartRedis(l), Replica: StartRedis(l)}
	g.Replica.Do(l, "REPLICAOF", "127.0.0.1", strconv.Itoa(g.Master.Port))
	Eventually(l, Patience, "replica in sync", func() bool {
		return g.Replica.Info(l, "replication", "master_link_status") == "up"
	})
	for range 3 {
		g.Sentinels = append(g.Sentinels, StartSentinel(l,
			fmt.Sprintf("sentinel monitor mymaster 127.0.0.1 %d 2", g.Master.Port),
			"sentinel down-after-milliseconds mymaster "+longNodeTimeout,
			"sentinel failover-timeout mymaster 4000"))
	}
	for _, s := range g.Sentinels {
		Eventually(l, 2*Patience, "sentinels know each other and the replica", func() bool {
			m := s.Do(l, "SENTINEL", "MASTER", "mymaster")
			return m.Field("num-other-sentinels").Text == "2" && m.Field("num-slaves").Text == "1"
		})
	}
	return g
}

// StartSentinel starts a Sentinel that has lines in its configuration.
func StartSentinel(l Life, lines ...string) *Server {
	l.Helper()
	s := newRedis(l)
	file := filepath.Join(s.dir, "sentinel.conf")
	conf := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\n%s\n", s.Port, s.dir, strings.Join(lines, "\n"))
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		l.Fatalf("%v", err)
	}
	s.Process = StartProcess(l, s.program, file, "--sentinel")
	s.ready(l)
	return s
}

// Promoted has the sentinels see that the master is gone, and waits until the replica is master. Sentinel
// closes all connections to a server that it promotes, and so may close the one that asks.
func (g *sentinelGroup) Promoted(l Life) {
	l.Helper()
	for _, s := range g.Sentinels {
		s.Do(l, "SENTINEL", "SET", "mymaster", "down-after-milliseconds", "1000")
	}
	Eventually(l, 3*Patience, "fail-over", func() bool {
		v, err := Ask(g.Replica.Addr, "INFO", "replication")
		return err == nil && InfoField(v.Text, "role") == "master"
	})
}

// Addrs are the sentinels as --upstream takes them.
func (g *sentinelGroup) Addrs() string { return Addrs(g.Sentinels) }
