package discovery

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"lockproxy/cluster"
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
			_, err := u.asker.ask(ctx, "a:1", cluster.Login{}, words)
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
		r := u.asker.clients[askKey{"a:1", cluster.Login{}}]
		if n := r.PoolStats().TotalConns; n != 1 {
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
