package discovery_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster/discovery"
	"lockproxy/internal/scripted"
)

// afar is a connection to a node all of whose replies take a while, as does the connection itself. Replies to
// questions that came together come together.
func afar(trip time.Duration, answer func(words []string) string) net.Conn {
	time.Sleep(trip)
	here, there := net.Pipe()
	type reply struct {
		text string
		due  time.Time
	}
	replies := make(chan reply, 1000)
	go func() { // ends with the connection
		defer close(replies)
		scripted.Each(there, func(words []string) bool {
			replies <- reply{answer(words), time.Now().Add(trip)}
			return true
		}, nil)
	}()
	go func() { // the same
		defer there.Close()
		for r := range replies {
			time.Sleep(time.Until(r.due))
			if _, err := io.WriteString(there, r.text); err != nil {
				for range replies {
				}
			}
		}
	}()
	return here
}

// A node that is far away is not taken for one that is lost.
func TestFarNodeIsNotLost(t *testing.T) {
	for _, ms := range []time.Duration{300, 600, 900} {
		trip := ms * time.Millisecond
		t.Run(trip.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lines strings.Builder
				ctx, cancel := context.WithCancel(t.Context())
				answer := func(words []string) string {
					text := "redis_version:7.0.15\r\nredis_mode:standalone\r\nrole:master\r\n"
					switch strings.ToUpper(words[0]) {
					case "INFO":
						return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
					case "PING":
						return "+PONG\r\n"
					}
					return "-ERR unknown command\r\n"
				}
				u, err := discovery.Find(ctx, discovery.Options{
					Addrs: []string{"10.0.0.1:6379"}, Log: slog.New(slog.NewTextHandler(&lines, nil)),
					ConnectTimeout: 5 * time.Second,
					Dial: func(context.Context, string, string) (net.Conn, error) {
						return afar(trip, answer), nil
					},
				})
				if err != nil {
					t.Fatalf("%v: %v\n%s", trip, err, &lines)
				}
				done := make(chan struct{})
				go func() { u.Run(ctx); close(done) }()
				time.Sleep(time.Minute)
				cancel()
				<-done
				time.Sleep(time.Minute) // what is on its way arrives
				all := lines.String()   // the first look may take too long: there is no connection yet
				if strings.Contains(all, "node lost") || strings.Count(all, "cannot be refreshed") > 1 {
					t.Errorf("%v:\n%s", trip, &lines)
				}
			})
		})
	}
}
