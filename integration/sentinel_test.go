package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// sentinelGroup is a master, its replica, and three sentinels that watch them.
type sentinelGroup struct {
	master, replica *server
	sentinels       []*server
}

// startSentinels starts a Sentinel group; the master's name is "mymaster".
func startSentinels(l life) *sentinelGroup {
	l.Helper()
	g := &sentinelGroup{master: launchRedis(l), replica: launchRedis(l)}
	g.master.ready(l)
	g.replica.ready(l)
	g.replica.do(l, "REPLICAOF", "127.0.0.1", strconv.Itoa(g.master.port))
	eventually(l, patience, "replica in sync", func() bool {
		return g.replica.info(l, "replication", "master_link_status") == "up"
	})
	for range 3 {
		s := &server{port: freePort(l), dir: l.TempDir()}
		s.addr = fmt.Sprintf("127.0.0.1:%d", s.port)
		file := filepath.Join(s.dir, "sentinel.conf")
		conf := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\n"+
			"sentinel monitor mymaster 127.0.0.1 %d 2\n"+
			"sentinel down-after-milliseconds mymaster 1000\n"+
			"sentinel failover-timeout mymaster 4000\n", s.port, s.dir, g.master.port)
		if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
			l.Fatalf("%v", err)
		}
		s.process = startProcess(l, "redis-server", file, "--sentinel")
		g.sentinels = append(g.sentinels, s)
	}
	for _, s := range g.sentinels {
		s.ready(l)
		eventually(l, 2*patience, "sentinels know each other and the replica", func() bool {
			m := s.do(l, "SENTINEL", "MASTER", "mymaster")
			return m.field("num-other-sentinels").text == "2" && m.field("num-slaves").text == "1"
		})
	}
	return g
}

// promoted waits until the replica is master. Sentinel closes all connections to a server that it promotes,
// and so may close the one that asks.
func (g *sentinelGroup) promoted(l life) {
	l.Helper()
	eventually(l, 3*patience, "fail-over", func() bool {
		v, err := ask(g.replica.addr, "INFO", "replication")
		return err == nil && infoField(v.text, "role") == "master"
	})
}

// addrs are the sentinels as --upstream takes them.
func (g *sentinelGroup) addrs() string {
	var addrs []string
	for _, s := range g.sentinels {
		addrs = append(addrs, s.addr)
	}
	return strings.Join(addrs, ",")
}
