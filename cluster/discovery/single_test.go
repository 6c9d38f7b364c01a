package discovery

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/scripted"
)

// An old master that is a master again does not end the service of the present one, which is only slow. It is
// believed once the present one is lost. A replica of the present one is believed at once.
func TestOldMasterIsNotThePresentOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		late := time.Duration(0)
		role := map[string]string{"old:1": "role:slave\r\nmaster_host:new\r\nmaster_port:1\r\n",
			"new:1": "role:master\r\nslave0:ip=x,port=1,state=online\r\n"}
		change := func(f func()) {
			mu.Lock()
			defer mu.Unlock()
			f()
		}
		u, err := Find(t.Context(), Options{Addrs: []string{"old:1", "new:1"},
			Dial: func(_ context.Context, _, addr string) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				if role[addr] == "" {
					return nil, errors.New("connection refused")
				}
				node := &scripted.Node{Answer: func(question string) string {
					mu.Lock()
					said, pause := role[addr], late
					mu.Unlock()
					if addr == "new:1" {
						time.Sleep(pause)
					}
					switch question {
					case "INFO replication":
						return bulk(said)
					case "INFO server":
						return bulk("redis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:" + addr +
							"\r\n")
					case "PING":
						return "+PONG\r\n"
					}
					return "-ERR unknown command\r\n"
				}}
				return node.Dial(), nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); u.Run(ctx) }()
		is := func(when, want string) {
			t.Helper()
			if at := u.Topology().Masters[0].Addr; at != want {
				t.Errorf("%s the master is %s, want %s", when, at, want)
			}
		}
		time.Sleep(5 * time.Second)
		is("at first", "new:1")
		change(func() { role["old:1"], late = "role:master\r\n", 150*time.Millisecond })
		time.Sleep(5 * time.Second)
		change(func() { late = 0 })
		is("while it is slow", "new:1")
		change(func() { late = time.Hour })
		time.Sleep(10 * time.Second)
		is("once it is lost", "old:1")
		cancel()
		<-done
		time.Sleep(time.Hour) // the slow one has still something to say
	})
}
