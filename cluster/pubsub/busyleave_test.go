//go:build !quick

package pubsub

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/cluster/discovery"
	"lockproxy/cluster/internal/servers"
	"lockproxy/internal/scripted"
)

// busyRedis answers all of a subscriber with BUSY while a script runs, as Redis does.
type busyRedis struct {
	busy   atomic.Bool
	dials  atomic.Int64
	unsubs atomic.Int64 // carried out
}

func (p *busyRedis) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	go p.serve(far) // ends when near is closed
	return near, nil
}

func (p *busyRedis) serve(conn net.Conn) {
	defer conn.Close()
	scripted.Each(conn, func(words []string) bool {
		var out []byte
		command := strings.ToUpper(words[0])
		switch {
		case command == "INFO":
			out = redcon.AppendBulkString(out, servers.Reply("redis_version:6.2.0", "redis_mode:standalone",
				"role:master"))
		case p.busy.Load():
			out = append(out, "-BUSY Redis is busy running a script.\r\n"...)
		case command == "SUBSCRIBE", command == "UNSUBSCRIBE":
			if command == "SUBSCRIBE" {
				if words[1] == "one" {
					p.dials.Add(1)
				}
			} else {
				p.unsubs.Add(1)
			}
			out = redcon.AppendArray(out, 3)
			out = redcon.AppendBulkString(out, strings.ToLower(command))
			out = redcon.AppendBulkString(out, words[1])
			out = redcon.AppendInt(out, 1)
		case command == "PING":
			out = append(out, servers.Reply("*2", "$4", "pong", "$0", "")...)
		default:
			out = append(out, servers.Reply("-ERR unknown command")...)
		}
		return scripted.Write(conn, string(out))
	}, nil)
}

// While a script runs, Redis answers UNSUBSCRIBE with BUSY, and the PING behind it too. Then the topic is
// left later, over the same connection, and nobody else's replies get out of step.
func TestUnsubscribeBesideScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p busyRedis
		found, err := discovery.Find(t.Context(), discovery.Options{Addrs: []string{"10.0.0.1:6379"},
			Dial: p.dial, Log: servers.Log(t)})
		if err != nil {
			t.Fatal(err)
		}
		u := withSubscriptions(t, found)
		a := newInbox()
		a.join(t, u, Classic, "one")
		topics := a.join(t, u, Classic, "two")
		p.busy.Store(true)
		began, left := time.Now(), make(chan time.Duration, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() { u.Leave(ctx, topics, a); left <- time.Since(began) }()
		time.Sleep(300 * time.Millisecond)
		p.busy.Store(false)
		if got := <-left; got > 1200*time.Millisecond {
			t.Errorf("UNSUBSCRIBE took %v", got)
		}
		if n := p.unsubs.Load(); n != 1 {
			t.Errorf("the node has ended %d subscriptions, want 1", n)
		}
		a.join(t, u, Classic, "three")
		time.Sleep(20 * time.Second)
		if n := p.dials.Load(); n != 1 {
			t.Errorf("another topic was subscribed %d times: its connection was lost", n)
		}
		found.Close()
		u.Subscriptions.Close()
	})
}
