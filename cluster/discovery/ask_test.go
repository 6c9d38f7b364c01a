package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"lockproxy/internal/scripted"
)

// The control plane has one connection to a node. It is used again, also after an error reply, and replaced
// when it broke; and a node that was away is there as soon as it can be dialled, however often that failed.
func TestAskerKeepsItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &scripted.Node{Answer: func(c string) string {
			switch {
			case c == "CUT":
				return ""
			case c == "HANG":
				return "-"
			case strings.HasPrefix(c, "INFO"):
				return "$3\r\nabc\r\n"
			}
			return "-ERR unknown command\r\n"
		}}
		dials, away := 0, false
		u := newUpstream(Options{Addrs: []string{"a:1"},
			Dial: func(context.Context, string, string) (net.Conn, error) {
				if dials++; away {
					return nil, errors.New("refused")
				}
				here, there := net.Pipe()
				go node.Serve(there)
				return here, nil
			}})
		defer u.Close()
		redis.SetLogger(redisLog{u.o.Log})
		ask := func(words ...any) error {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			_, err := u.asker.askNode(ctx, "a:1", u.o.Logins, words)
			return err
		}
		well := func(when string, want int) {
			t.Helper()
			if err := ask("INFO", "server"); err != nil || dials != want {
				t.Errorf("%s: %v, %d dials; want %d", when, err, dials, want)
			}
		}
		well("first", 1)
		ask("NONSENSE")
		well("after an error reply", 1)
		if began := time.Now(); ask("HANG") == nil || time.Since(began) > 500*time.Millisecond {
			t.Errorf("a silent node has answered, or was waited for for %v", time.Since(began))
		}
		well("after silence", 2)
		ask("CUT")
		well("after a loss", 3)
		time.Sleep(u.o.ConnectTimeout) // so long the silent node is waited for, on a connection apart
		r := u.asker.clients[askKey{"a:1", u.o.Logins}]
		if n := r.redis.PoolStats().TotalConns; n != 1 {
			t.Errorf("%d connections", n)
		}
		away = true
		ask("CUT")
		for range 20 {
			if err := ask("INFO", "server"); err == nil || !strings.Contains(err.Error(), "refused") {
				t.Errorf("away: %v", err)
			}
		}
		away, dials = false, 0
		well("back", 1)
	})
}

// What is under way to a node is answered although more connections to it cannot be dialled, and the node is
// asked on over those that there are.
func TestFailedDialEndsNoQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &scripted.Node{Answer: func(c string) string {
			switch c {
			case "SLOW":
				time.Sleep(400 * time.Millisecond)
			case "INFO":
			default:
				return "-ERR unknown command\r\n"
			}
			return "+OK\r\n"
		}}
		var away atomic.Bool
		u := newUpstream(Options{Addrs: []string{"a:1"},
			Dial: func(context.Context, string, string) (net.Conn, error) {
				if away.Load() {
					return nil, errors.New("no such host")
				}
				return node.Dial(), nil
			}})
		defer time.Sleep(time.Second) // a pool looks so often whether it can dial again, or was closed
		defer u.Close()
		redis.SetLogger(redisLog{u.o.Log})
		ask := func(word string) error {
			_, err := u.asker.askNode(t.Context(), "a:1", u.o.Logins, []any{word})
			return err
		}
		slow := make(chan error, 1)
		go func() { slow <- ask("SLOW") }()
		time.Sleep(100 * time.Millisecond)
		away.Store(true)
		for range 9 {
			if ask("INFO") == nil {
				t.Error("there is a second connection")
			}
		}
		if err := <-slow; err != nil {
			t.Errorf("what was under way: %v", err)
		}
		if err := ask("INFO"); err != nil {
			t.Errorf("over the connection that there is: %v", err)
		}
	})
}

// The connection to a node is used for as long as it lasts, also while its name cannot be resolved. When the
// node says that it is a replica, its name is looked up again: it may lead to the new master by then.
func TestNameOfAReplicaIsLookedUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var replica atomic.Bool // the one that the name led to at first
		node := func(role func() string) *scripted.Node {
			return &scripted.Node{Answer: func(c string) string {
				text := "redis_version:7.0.15\r\nredis_mode:standalone\r\n"
				switch c {
				case "INFO replication":
					text = "role:" + role() + "\r\n"
				case "INFO server":
				default:
					return "-ERR unknown command\r\n"
				}
				return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
			}}
		}
		named := node(func() string {
			if replica.Load() {
				return "slave"
			}
			return "master"
		})
		u := newUpstream(Options{Addrs: []string{"db.test:1"},
			Dial: func(context.Context, string, string) (net.Conn, error) {
				if named == nil {
					return nil, errors.New("no such host")
				}
				here, there := net.Pipe()
				go named.Serve(there)
				return here, nil
			}})
		defer u.Close()
		redis.SetLogger(redisLog{u.o.Log})
		if err := u.discover(t.Context()); err != nil {
			t.Fatal(err)
		}
		lasting := named
		named = nil
		for range 60 {
			time.Sleep(time.Second)
			if err := u.lookUpstream(t.Context()); err != nil {
				t.Fatalf("while the name cannot be resolved: %v", err)
			}
		}
		replica.Store(true)
		named = lasting
		if err := u.lookUpstream(t.Context()); err == nil {
			t.Error("a replica is taken for the master")
		}
		named = node(func() string { return "master" })
		if err := u.lookUpstream(t.Context()); err != nil {
			t.Errorf("the name leads to the new master: %v", err)
		}
	})
}
