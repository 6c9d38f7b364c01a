package commands_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/journal"
	"lockproxy/redlock/locks"
)

// A client that waits for its own connection is named in the log, once. One that waits for others is not, nor
// one whose hold another connection releases soon.
func TestSelfWaitIsLogged(t *testing.T) {
	var text strings.Builder
	o := locks.Options{Log: slog.New(slog.NewTextHandler(&text, nil)), Names: journal.NamesWhole,
		MaxWait: 24 * time.Hour}
	withLocks(t, o, func(t *testing.T, session func() *client) {
		a, b := session(), session()
		logged := func(want string) {
			t.Helper()
			synctest.Wait()
			got := ""
			for line := range strings.Lines(text.String()) {
				_, what, _ := strings.Cut(strings.TrimSpace(line), `msg="a client waits`)
				got += what[strings.LastIndex(what, " ")+1:] + ";"
			}
			if text.Reset(); got != want {
				t.Errorf("logged %q, want %q", got, want)
			}
		}
		expect(t, b, "LOCK other PX 9000 TOKEN x", "*[x F 9000 1]")
		expect(t, a, "LOCK other WAIT 3000", "$nil")
		expect(t, a, "LOCK job PX 20000 TOKEN x", "*[x F 20000 1]")
		expect(t, b, "LOCK job WAIT 3000", "$nil")
		go func() {
			time.Sleep(100 * time.Millisecond)
			b.Do("UNLOCK job x")
			time.Sleep(100 * time.Millisecond)
			b.Do("UNLOCK job y")
		}()
		expect(t, a, "LOCK job PX 20000 WAIT 9000 TOKEN y", "*[y F 20000 1]")
		expect(t, a, "LOCK job PX 20000 TRIES 1000000 EVERY 86400000 TOKEN y2", "*[y2 F 20000 1]")
		expect(t, a, "LOCK job WAIT 5000 TOKEN z NOTIFY news", "QUEUED")
		time.Sleep(9 * time.Second)
		logged("")
		a.Do("CLIENT SETNAME worker")
		expect(t, a, "LOCK job WAIT 300", "$nil")
		logged("lock=job;")
		expect(t, a, "LOCK job WAIT 300", "$nil")
		logged("")
		expect(t, b, "LOCK kept TOKEN x PX 3000 KEEPALIVE", "*[x F 3000 1]")
		time.Sleep(20 * time.Second)
		expect(t, b, "RLOCK kept TRIES 3 EVERY 1000", "$nil")
		logged("lock=kept;")
		b.User.Keepalives.Close()
	})
}
