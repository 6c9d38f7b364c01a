package discovery_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster/discovery"
)

// An upstream that cannot be used is told of at once and each ten seconds, with what may help, and once more
// when it can be used.
func TestFindTellsWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		var failed atomic.Int64
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		_, err := discovery.Find(ctx, discovery.Options{
			Addrs: []string{"10.0.0.1:6379"},
			Log:   slog.New(slog.NewTextHandler(&lines, nil)),
			Dial: func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			},
			Failed: func(error) { failed.Add(1) },
		})
		if err == nil {
			t.Fatal("it was found")
		}
		all := strings.Split(strings.TrimSpace(lines.String()), "\n")
		if len(all) != 3 || failed.Load() < 20 {
			t.Errorf("%d failures, %q", failed.Load(), all)
		}
		for _, line := range all {
			if !strings.Contains(line, "level=WARN") || !strings.Contains(line, "10.0.0.1:6379") ||
				!strings.Contains(line, "is Redis running there") {
				t.Error(line)
			}
		}
	})
}
