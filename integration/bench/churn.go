package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// churners is how many connections are made, used once and closed at a time.
const churners = 50

// churn measures connections that are made for one GET: connect, GET, close.
func churn(ctx context.Context, y *yard, o options, rep *report) error {
	if err := y.fillKeyed(ctx); err != nil {
		return err
	}
	const what = "churn"
	all := y.contenders()
	r := results{}
	for round := range o.rounds {
		progress("round %d of %d: connect, GET, close", round+1, o.rounds)
		for _, c := range rotated(all, round) {
			s, err := y.churned(ctx, c, o.requests/10)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			r.add(what, c.name, s)
		}
	}
	t := table{{"", "connections/s", "of direct", "p50 µs", "p99 µs", "CPU µs a connection"}}
	for _, c := range y.yardsticks() {
		t[0] = append(t[0], "of "+c.name)
	}
	for _, c := range all {
		row := []string{
			c.name,
			fmt.Sprintf("%.0f", r.median(what, c.name, rate)),
			fmt.Sprintf("%.2f", r.ratio(what, c.name, y.direct.name, rate)),
			fmt.Sprintf("%.0f", r.median(what, c.name, p50)),
			fmt.Sprintf("%.0f", r.median(what, c.name, p99)),
			"",
		}
		if c.pid != 0 {
			row[5] = fmt.Sprintf("%.1f", r.median(what, c.name, cpu))
		}
		t = append(t, append(row, r.against(what, c, y.yardsticks(), cpu)...))
	}
	rep.printf("\n## Connections for one GET each\n\n%s\n%d at a time. The latency is from\n"+
		"connecting to the reply.\n", t, churners)
	if len(y.lockproxy) > 0 {
		rep.hold(atLeast(0.95, "%.2f", "connect + GET + close a second, against straight to the cluster",
			r.versus(what, oneProxy, y.direct.name, rate)))
	}
	return nil
}

// churned is one measurement of one contender.
func (y *yard) churned(ctx context.Context, c contender, n int) (sample, error) {
	doors := y.doors(c)
	var gets [][][]byte
	for node := range doors {
		gets = append(gets, keyed(c, node, "GET"))
	}
	before, err := c.burnt()
	if err != nil {
		return sample{}, err
	}
	var (
		mu     sync.Mutex
		took   []time.Duration
		failed error
		all    sync.WaitGroup
	)
	begun := time.Now()
	for i := range churners {
		all.Go(func() {
			door := i % len(doors)
			mine, err := churnAt(ctx, doors[door], gets[door], n/churners)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
			if failed == nil {
				failed = err
			}
		})
	}
	all.Wait()
	if failed != nil {
		return sample{}, failed
	}
	s := timesOf(took, float64(len(took))/time.Since(begun).Seconds())
	after, err := c.burnt()
	return s.withBurnt(before, after, len(took)), err
}

// churnAt makes one connection after the other. Calls that block are the cheapest way for the client.
func churnAt(ctx context.Context, addr string, gets [][]byte, n int) (took []time.Duration, err error) {
	buf := make([]byte, 4096)
	for i := range n {
		if err := ctx.Err(); err != nil {
			return took, err
		}
		begun := time.Now()
		reply, err := oneRequest(addr, gets[i%len(gets)], buf)
		if err != nil {
			return took, err
		}
		if !slices.Equal(reply, []byte("$3\r\nxxx\r\n")) {
			return took, fmt.Errorf("unexpected reply %q", reply)
		}
		took = append(took, time.Since(begun))
	}
	return took, nil
}

// oneRequest connects, sends a request, reads its reply and closes.
func oneRequest(addr string, request, buf []byte) (reply []byte, err error) {
	fd, err := connect(addr)
	if fd >= 0 {
		defer unix.Close(fd)
	}
	if err == nil {
		_, err = unix.Write(fd, request)
	}
	for err == nil && replySize(reply) == 0 {
		var n int
		switch n, err = unix.Read(fd, buf[len(reply):]); {
		case err == unix.EINTR:
			err = nil
		case err == nil && n == 0:
			err = fmt.Errorf("%s closed the connection", addr)
		case err == nil:
			reply = buf[:len(reply)+n]
		}
	}
	return reply, err
}
