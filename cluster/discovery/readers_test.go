package discovery

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/internal/servers"
	"lockproxy/internal/scripted"

	"github.com/tidwall/redcon"
)

// replicaSet is a master, 10.0.0.1, and two replicas as INFO shows them.
type replicaSet struct {
	mu    sync.Mutex
	says  map[string]string // INFO replication of each host; "" refuses connections, "-" is silent
	asked map[string]int    // INFO replication
}

func (s *replicaSet) set(host string, lines ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.says[host] = strings.Join(lines, "\r\n")
}

func (s *replicaSet) count(host string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[host]
}

func (s *replicaSet) Dial(_ context.Context, _, addr string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(addr)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.says[host] == "" {
		return nil, errors.New("connection refused")
	}
	near, far := net.Pipe()
	go s.serve(host, far) // ends when near is closed
	return near, nil
}

func (s *replicaSet) serve(host string, conn net.Conn) {
	defer conn.Close()
	scripted.Each(conn, func(words []string) bool {
		return scripted.Write(conn, s.answer(host, strings.ToUpper(words[0]), words[len(words)-1]))
	}, nil)
}

// answer is the reply to a command with the last of its arguments.
func (s *replicaSet) answer(host, command, last string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	says := s.says[host]
	text := "redis_version:7.0.15\r\nredis_mode:standalone\r\nloading:0"
	switch {
	case command != "INFO":
		return "-ERR unknown command\r\n"
	case says == "", says == "-":
		return says
	case last == "replication":
		s.asked[host]++
		text = says
	case strings.Contains(says, "loading:1"):
		text = "loading:1"
	}
	return string(redcon.AppendBulkString(nil, text))
}

const (
	follows = "role:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379\r\nmaster_last_io_seconds_ago:1"
	linked  = follows + "\r\nmaster_link_status:up"
)

// Which replicas may be read from is known within a refresh, is asked for only once somebody wants it, and
// changes no Version.
func TestReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &replicaSet{says: make(map[string]string), asked: make(map[string]int)}
		s.set("10.0.0.1", "role:master", "slave0:ip=10.0.0.2,port=6379,state=online",
			"slave1:ip=10.0.0.3,port=6379,state=online")
		s.set("10.0.0.2", linked)
		s.set("10.0.0.3", linked)
		u, err := Find(t.Context(), Options{
			Addrs: []string{"10.0.0.1:6379"}, Dial: s.Dial, Log: servers.Log(t),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		go u.Run(ctx)
		time.Sleep(time.Minute)
		if n := s.count("10.0.0.2"); n != 0 || u.Topology().Readers != nil {
			t.Errorf("a replica was asked %d times though nobody reads there", n)
		}
		version := u.Topology().Version
		var told atomic.Int64
		u.OnChange(func(*cluster.Topology) { told.Add(1) })
		u.WatchReplicas()
		u.WatchReplicas()
		want := func(what, readers string) {
			t.Helper()
			time.Sleep(3 * time.Second)
			var addrs []string
			for m, list := range u.Topology().Readers {
				for _, n := range list {
					addrs = append(addrs, m.Addr+"<"+n.Addr)
				}
			}
			if got := strings.Join(addrs, " "); got != readers || u.Topology().Version != version {
				t.Errorf("%s: %s, version %d", what, got, u.Topology().Version)
			}
		}
		both, first := "10.0.0.1:6379<10.0.0.2:6379 10.0.0.1:6379<10.0.0.3:6379",
			"10.0.0.1:6379<10.0.0.2:6379"
		want("both in sync", both)
		before := told.Load()
		want("still", both)
		if told.Load() != before {
			t.Error("told of no change")
		}
		for what, says := range map[string]string{
			"its link is down": follows + "\r\nmaster_link_status:down",
			"it is loading":    linked + "\r\nloading:1",
			"it has not heard of its master": "role:slave\r\nmaster_link_status:up\r\n" +
				"master_last_io_seconds_ago:21",
			"it is a master":                     "role:master",
			"it cannot be reached":               "",
			"it is silent":                       "-",
			"it is in sync and tells no seconds": "role:slave\r\nmaster_link_status:up",
		} {
			s.set("10.0.0.3", says)
			if strings.HasPrefix(what, "it is in sync") {
				want(what, both)
			} else {
				want(what, first)
			}
			s.set("10.0.0.3", linked)
			want("again", both)
		}
		s.set("10.0.0.2", "")
		s.set("10.0.0.3", "")
		if want("both are away", ""); u.Topology().Readers == nil {
			t.Error("that none is fit is not told from that nobody has asked")
		}
		s.set("10.0.0.2", linked)
		s.set("10.0.0.3", linked)
		want("both are back", both)
		// A replica that leaves is a new topology.
		s.set("10.0.0.1", "role:master", "slave0:ip=10.0.0.2,port=6379,state=online")
		version++
		want("one left", first)
		// A fail-over: the other follows.
		s.set("10.0.0.2", "role:master", "slave0:ip=10.0.0.1,port=6379,state=online")
		s.set("10.0.0.1", "role:slave", "master_host:10.0.0.2", "master_port:6379", "master_link_status:up")
		version++
		want("fail-over", "10.0.0.2:6379<10.0.0.1:6379")
	})
}
