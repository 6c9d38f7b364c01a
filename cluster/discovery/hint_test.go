package discovery

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/scripted"
)

// Hints come in heaps; they make few refreshes, and the first comes at once.
func TestRefreshIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		node := &scripted.Node{Answer: func(c string) string {
			switch c {
			case "INFO replication":
				asked.Add(1)
				return bulk("role:master\r\n")
			case "INFO server":
				return bulk("redis_version:7.0.15\r\nredis_mode:standalone\r\n")
			}
			return "-ERR unknown command\r\n"
		}}
		u, err := Find(t.Context(), Options{Addrs: []string{"a:1"}, Refresh: time.Hour,
			Dial: func(context.Context, string, string) (net.Conn, error) { return node.Dial(), nil }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go u.Run(ctx)
		time.Sleep(time.Second)
		before := asked.Load()
		u.Refresh()
		time.Sleep(hintDelay)
		synctest.Wait()
		if n := asked.Load() - before; n != 1 {
			t.Errorf("%d refreshes at once", n)
		}
		for range 500 {
			u.Refresh()
			time.Sleep(time.Millisecond)
		}
		if n, most := asked.Load()-before, int64(500*time.Millisecond/hintGap)+1; n < most-2 || n > most {
			t.Errorf("%d refreshes in half a second, want at most %d", n, most)
		}
	})
}
