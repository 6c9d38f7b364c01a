package pubsub

import (
	"context"
	"errors"
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
	"lockproxy/internal/subscription"
)

// pipeRedis is as much of a Redis as the control plane needs, over net.Pipe.
type pipeRedis struct {
	hung  atomic.Bool
	busy  atomic.Bool // a script runs: then all of a subscriber is answered with BUSY, as at Redis
	turn  atomic.Bool // busy turns behind the next UNSUBSCRIBE, in front of the PING
	dials atomic.Int64
	ones  atomic.Int64 // SUBSCRIBE one, carried out
	ends  atomic.Int64 // UNSUBSCRIBEs, carried out
}

func (p *pipeRedis) dial(context.Context, string, string) (net.Conn, error) {
	p.dials.Add(1)
	near, far := net.Pipe()
	go p.serve(far) // ends when near is closed
	return near, nil
}

func (p *pipeRedis) serve(conn net.Conn) {
	defer conn.Close()
	scripted.Each(conn, func(words []string) bool {
		var out []byte
		switch command := strings.ToUpper(words[0]); {
		case command == "INFO":
			out = redcon.AppendBulkString(out, servers.Reply("redis_version:6.2.0", "redis_mode:standalone",
				"role:master"))
		case p.busy.Load():
			out = append(out, "-BUSY Redis is busy running a script.\r\n"...)
		case command == "SUBSCRIBE", command == "UNSUBSCRIBE":
			if command == "UNSUBSCRIBE" {
				p.ends.Add(1)
			} else if words[1] == "one" {
				p.ones.Add(1)
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
		if strings.EqualFold(words[0], "UNSUBSCRIBE") && p.turn.Swap(false) {
			p.busy.Store(!p.busy.Load())
		}
		return p.hung.Load() || scripted.Write(conn, string(out))
	}, nil)
}

// Everything runs in fake time too: ten minutes of refreshes and pings, and a node that
// falls silent.
func TestFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pipeRedis
		found, err := discovery.Find(t.Context(),
			discovery.Options{Addrs: []string{"10.0.0.1:6379"}, Dial: p.dial,
				Log: servers.Log(t)})
		if err != nil {
			t.Fatal(err)
		}
		u := withSubscriptions(t, found)
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		go u.Run(ctx)
		events := make(chan subscription.EventKind, 9)
		cancel := u.Subscribe(-1, "news", func(e subscription.Change) { events <- e.Kind })
		if kind := <-events; kind != subscription.Live {
			t.Errorf("event %d at first", kind)
		}
		time.Sleep(10 * time.Minute)
		if n := p.dials.Load(); n > 4 || len(events) > 0 {
			t.Errorf("%d dials, %d events in quiet minutes", n, len(events))
		}

		p.hung.Store(true)
		began := time.Now()
		if kind := <-events; kind != subscription.Lost || time.Since(began) > 3*time.Second {
			t.Errorf("event %d after %v", kind, time.Since(began))
		}
		p.hung.Store(false)
		began = time.Now()
		// A dial that hangs takes ConnectTimeout.
		if kind := <-events; kind != subscription.Live || time.Since(began) > 3*time.Second {
			t.Errorf("event %d after %v", kind, time.Since(began))
		}

		// A connection that nobody needs is closed after a while.
		cancel()
		time.Sleep(time.Minute)
		u.Subscriptions.mu.Lock()
		feeds := len(u.Subscriptions.feeds)
		u.Subscriptions.mu.Unlock()
		if feeds != 0 {
			t.Errorf("%d feeds are left", feeds)
		}
	})
}

// A node is given up after ticks without a byte, however long they took: a proxy that stood still gets to
// know late what a node has said meanwhile.
func TestSilenceIsCountedInTicks(t *testing.T) {
	var p pipeRedis
	nodes, err := discovery.Find(t.Context(), discovery.Options{Addrs: []string{"10.0.0.1:6379"},
		Dial: p.dial, Log: servers.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer nodes.Close()
	f := newFeed(withSubscriptions(t, nodes).Subscriptions, "10.0.0.1:6379")
	f.by, f.as = nodes, nodes.Login()
	silent := func() {
		for n := range feedDead - 1 {
			if err := f.checkFeed(); err != nil {
				t.Errorf("%v after %d ticks", err, n+1)
			}
		}
	}
	silent()
	f.reads.Add(1)
	if err := f.checkFeed(); err != nil {
		t.Errorf("%v, though something has come", err)
	}
	silent()
	if err := f.checkFeed(); !errors.Is(err, errFeedSilent) {
		t.Errorf("%v after %d ticks", err, feedDead)
	}
}
