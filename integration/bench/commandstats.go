package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// counter counts what Redis servers run.
type counter struct{ servers []*redis.Client }

func newCounter(addrs []string) *counter {
	c := &counter{}
	for _, a := range addrs {
		c.servers = append(c.servers, redis.NewClient(&redis.Options{Addr: a, PoolSize: 1}))
	}
	return c
}

func (c *counter) close() {
	for _, s := range c.servers {
		s.Close()
	}
}

// spending is what servers spent on one command.
type spending struct {
	calls int
	usec  int // from its begin to its end; of a script, what it calls included
}

// spent is what all servers together spent on each command so far, called by clients or by scripts;
// without INFO, which asks.
func (c *counter) spent(ctx context.Context) (map[string]spending, error) {
	all := map[string]spending{}
	for _, s := range c.servers {
		text, err := s.Info(ctx, "commandstats").Result()
		if err != nil {
			return nil, fmt.Errorf("INFO commandstats: %w", err)
		}
		for name, n := range parseCommandStats(text) {
			all[name] = spending{all[name].calls + n.calls, all[name].usec + n.usec}
		}
	}
	delete(all, "info")
	return all, nil
}

// parseCommandStats reads lines "cmdstat_get:calls=2,usec=2,...".
func parseCommandStats(text string) map[string]spending {
	all := map[string]spending{}
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(line, ":calls=")
		if !ok || !strings.HasPrefix(name, "cmdstat_") {
			continue
		}
		var s spending
		if n, _ := fmt.Sscanf(rest, "%d,usec=%d", &s.calls, &s.usec); n == 2 {
			all[strings.TrimPrefix(name, "cmdstat_")] = s
		}
	}
	return all
}

// watchScripts names the commands that scripts called on the servers while do
// ran, as MONITOR shows them.
func watchScripts(ctx context.Context, addrs []string, do func() error) (map[string]bool, error) {
	var (
		mu       sync.Mutex
		names    = map[string]bool{}
		watchers sync.WaitGroup
		conns    []net.Conn
	)
	end := func() {
		for _, c := range conns {
			c.Close()
		}
		watchers.Wait()
	}
	for _, addr := range addrs {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			end()
			return nil, err
		}
		conns = append(conns, conn)
		lines := bufio.NewReader(conn)
		conn.SetDeadline(time.Now().Add(patience))
		if _, err := conn.Write([]byte("MONITOR\r\n")); err == nil {
			_, err = lines.ReadString('\n') // +OK
		}
		conn.SetDeadline(time.Time{})
		watchers.Go(func() {
			for {
				line, err := lines.ReadString('\n')
				if err != nil {
					return
				}
				if name := calledByScript(line); name != "" {
					mu.Lock()
					names[name] = true
					mu.Unlock()
				}
			}
		})
	}
	err := do()
	end()
	if err == nil && len(names) == 0 {
		err = errors.New("MONITOR showed no script")
	}
	return names, err
}

// calledByScript is the command in a line of MONITOR, in lower case, if a script
// called it: 1700000000.000000 [0 lua] "GET" "key".
func calledByScript(line string) string {
	_, rest, ok := strings.Cut(line, ` lua] "`)
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, `"`)
	return strings.ToLower(name)
}
