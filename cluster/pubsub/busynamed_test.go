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

// scriptRedis answers all of a subscriber with BUSY while a script runs, as Redis does.
type scriptRedis struct {
	busy   atomic.Bool
	dials  atomic.Int64
	unsubs atomic.Int64
}

func (p *scriptRedis) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	go p.serve(far) // ends when near is closed
	return near, nil
}

func (p *scriptRedis) serve(conn net.Conn) {
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

// A SUBSCRIBE that is refused because of a script says nothing of where the name of the node leads: the other
// topics of the connection stay subscribed.
func TestSubscribeBesideScriptAtNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p scriptRedis
		found, err := discovery.Find(t.Context(), discovery.Options{Addrs: []string{"redis.example:6379"},
			Dial: p.dial, Log: servers.Log(t)})
		if err != nil {
			t.Fatal(err)
		}
		u := withSubscriptions(t, found)
		member := listenAt(t, u, -1, "one")
		p.busy.Store(true)
		a, joined := newInbox(), make(chan error, 1)
		go func() {
			_, err := u.Join(t.Context(), Classic, []string{"two"}, a)
			joined <- err
		}()
		time.Sleep(300 * time.Millisecond)
		p.busy.Store(false)
		if err := <-joined; err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		if n := p.dials.Load(); n != 1 {
			t.Errorf("another topic was subscribed %d times: its connection was given up", n)
		}
		if len(member.events) > 0 {
			t.Errorf("a lock's channel heard %q", <-member.events)
		}
		found.Close()
		u.Subscriptions.Close()
	})
}
