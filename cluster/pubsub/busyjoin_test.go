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

// runningRedis answers all with BUSY while a script runs, as Redis does.
type runningRedis struct {
	busy   atomic.Bool
	feeds  atomic.Int64 // connections that have subscribed
	unsubs atomic.Int64 // UNSUBSCRIBEs that were carried out
}

func (p *runningRedis) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	go p.serve(far) // ends when near is closed
	return near, nil
}

func (p *runningRedis) serve(conn net.Conn) {
	defer conn.Close()
	first := true
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
			if first {
				first = false
				p.feeds.Add(1)
			}
			if command == "UNSUBSCRIBE" {
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

// One more client that subscribes to a channel while a script runs waits for its end. The others stay
// subscribed.
func TestJoinAgainBesideScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p runningRedis
		found, err := discovery.Find(t.Context(), discovery.Options{Addrs: []string{"10.0.0.1:6379"},
			Dial: p.dial, Log: servers.Log(t)})
		if err != nil {
			t.Fatal(err)
		}
		u := withSubscriptions(t, found)
		a, b := newInbox(), newInbox()
		a.join(t, u, Classic, "one", "two")
		member := listenAt(t, u, -1, "one")
		p.busy.Store(true)
		joined := make(chan error, 1)
		go func() {
			_, err := u.Join(t.Context(), Classic, []string{"one"}, b)
			joined <- err
		}()
		time.Sleep(300 * time.Millisecond)
		p.busy.Store(false)
		if err := <-joined; err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		if n := p.feeds.Load(); n != 1 {
			t.Errorf("the channels were subscribed over %d connections, one after the other", n)
		}
		if n := p.unsubs.Load(); n > 0 {
			t.Errorf("a channel with listeners was unsubscribed %d times", n)
		}
		if len(member.events) > 0 {
			t.Errorf("a lock's channel heard %q", <-member.events)
		}
		found.Close()
		u.Subscriptions.Close()
	})
}
