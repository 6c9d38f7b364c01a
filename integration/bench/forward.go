package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
)

// shape is a way to send commands.
type shape struct {
	name                  string
	connections, pipeline int
	share                 float64 // of -requests, so that each takes about as long
}

var (
	plain50     = shape{"-c 50 -P 1", 50, 1, 1}
	pipelined50 = shape{"-c 50 -P 16", 50, 16, 8}
	alone       = shape{"-c 1 -P 1", 1, 1, 0.25}
)

// forward measures ordinary commands on their way through.
func forward(ctx context.Context, y *yard, o options, rep *report) error {
	all := y.contenders()
	progress("filling %d keys", keys)
	for _, c := range all {
		// Six times as many as there are leaves 0.2 % of them out.
		if _, err := redisBenchmark(ctx, c, "SET", 50, 100, 6*keys); err != nil {
			return fmt.Errorf("filling through %s: %w", c.name, err)
		}
	}
	r := results{}
	for round := range o.rounds {
		for _, s := range []shape{plain50, pipelined50, alone} {
			for _, command := range []string{"SET", "GET"} {
				progress("round %d of %d: %s %s", round+1, o.rounds, command, s.name)
				for _, c := range rotated(all, round) {
					got, err := y.forwarded(ctx, c, command, s, o)
					if err != nil {
						return fmt.Errorf("%s %s %s: %w", c.name, command, s.name, err)
					}
					r.add(command+" "+s.name, c.name, got)
				}
			}
		}
	}
	printForward(rep, r, all, y.yardsticks())
	if len(y.lockproxy) == 0 {
		return nil
	}
	y.forwardTargets(rep, r)
	y.drawForward(rep, r)
	return nil
}

// forwarded is one measurement of one contender.
func (y *yard) forwarded(ctx context.Context, c contender, command string, s shape,
	o options) (sample, error) {
	n := int(float64(o.requests) * s.share)
	if s == alone {
		if c.cluster { // one connection reaches one node: take that which has all keys
			c.addr = y.plain[0]
		}
		return oneConnection(ctx, c, command, n)
	}
	return redisBenchmark(ctx, c, command, s.connections, s.pipeline, n)
}

// oneConnection sends a command n times over one connection of our own.
func oneConnection(ctx context.Context, c contender, command string, n int) (sample, error) {
	const key = "key:[tag]:000000000000"
	request := "*2\r\n$3\r\nGET\r\n$" + strconv.Itoa(len(key)) + "\r\n" + key + "\r\n"
	if command == "SET" {
		request = "*3\r\n$3\r\nSET\r\n$" + strconv.Itoa(len(key)) + "\r\n" + key + "\r\n$3\r\nxxx\r\n"
	}
	digits := len("*2\r\n$3\r\nGET\r\n$22\r\n") + len("key:[tag]:")
	missing := 0
	var l load
	defer l.close()
	err := l.dial(c.addr, func(dst []byte) []byte {
		dst = append(dst, request...)
		for i, k := digits+11, rand.IntN(keys); k > 0; i, k = i-1, k/10 {
			dst[i] = byte('0' + k%10)
		}
		return dst
	}, func(reply []byte) bool {
		if null(reply) {
			missing++
		}
		return reply[0] != '-' && missing <= 10+n/100
	})
	if err != nil {
		return sample{}, err
	}
	l.pipeline = 1
	return metered(ctx, &l, n, c)
}

// metered runs a load and takes the CPU time of the proxy meanwhile, and of this program.
func metered(ctx context.Context, l *load, batches int, c contender) (sample, error) {
	before, err := c.burnt()
	if err != nil {
		return sample{}, err
	}
	s, err := l.run(ctx, batches)
	if err != nil {
		return sample{}, err
	}
	after, err := c.burnt()
	if err != nil {
		return sample{}, err
	}
	return s.withBurnt(before, after, batches*l.pipeline), nil
}

// burnt is what this program and the contender's proxy have used so far.
func (c contender) burnt() (burnt, error) {
	w := lockWay{}
	if c.pid != 0 {
		w.proxyPIDs = []int{c.pid}
	}
	return w.burnt()
}

func printForward(rep *report, r results, all, yardsticks []contender) {
	for _, s := range []shape{plain50, pipelined50, alone} {
		t := table{{"", "requests/s", "of direct", "p50 µs", "p99 µs", "CPU µs a request"}}
		for _, c := range yardsticks {
			t[0] = append(t[0], "of "+c.name)
		}
		if s == alone {
			t[0][2] = "p50 added µs"
		}
		for _, command := range []string{"SET", "GET"} {
			what := command + " " + s.name
			for _, c := range all {
				row := []string{
					command + " " + c.name,
					fmt.Sprintf("%.0f", r.median(what, c.name, rate)),
					fmt.Sprintf("%.2f", r.ratio(what, c.name, "direct", rate)),
					fmt.Sprintf("%.1f", r.median(what, c.name, p50)),
					fmt.Sprintf("%.1f", r.median(what, c.name, p99)),
					"",
				}
				if s == alone {
					row[2] = fmt.Sprintf("%.1f", median(added(r, what, c.name)))
				}
				if c.pid != 0 {
					row[5] = fmt.Sprintf("%.2f", r.median(what, c.name, cpu))
				}
				t = append(t, append(row, r.against(what, c, yardsticks, cpu)...))
			}
		}
		rep.printf("\n## Forwarding, %s\n\n%s", s.name, t)
	}
	rep.printf("\nLatencies are those of a batch. At one connection the load is this program's own.\n")
}

// added is what a contender adds to the p50 of going directly, round by round.
func added(r results, what, who string) []float64 {
	var all []float64
	for i, s := range r[what][who] {
		all = append(all, p50(s)-p50(r[what]["direct"][i]))
	}
	return all
}

// forwardTargets holds the results against the targets.
func (y *yard) forwardTargets(rep *report, r results) {
	for _, t := range []struct {
		shape
		predixy, get, set float64 // the limit, and what twemproxy needs of predixy's CPU
		haproxy, direct   float64
	}{
		{plain50, 0.90, likePredixy, setOfPredixy, math.NaN(), 0.90},
		{pipelined50, 0.62, pipelineOfPredixy, pipelineOfPredixy, 1.10, 0.70},
	} {
		for _, command := range []string{"GET", "SET"} {
			what := command + " " + t.name
			other := y.yardstick(t.get)
			if command == "SET" {
				other = y.yardstick(t.set)
			}
			rep.hold(atMost(other.limit(t.predixy), "%.2f", what+": CPU a request, against "+other.told,
				r.versus(what, oneProxy, other.name, cpu)))
			if !math.IsNaN(t.haproxy) {
				rep.hold(atMost(t.haproxy, "%.2f", what+": CPU a request, against haproxy in TCP mode",
					r.versus(what, oneProxy, y.haproxy.name, cpu)))
			}
			rep.hold(atLeast(t.direct, "%.2f", what+": throughput, against straight to the cluster",
				r.versus(what, oneProxy, y.direct.name, rate)))
		}
	}
}

// drawForward draws what a request costs the proxies.
func (y *yard) drawForward(rep *report, r results) {
	p := plot{File: "forward-cpu", Title: "CPU of the proxy a request, 50 connections", Y: "µs"}
	q := plot{File: "forward-rate", Title: "Throughput, 50 connections", Y: "requests a second"}
	for i, c := range y.contenders() {
		used, done := line{Name: c.name}, line{Name: c.name}
		at := 0.
		for _, s := range []shape{plain50, pipelined50} {
			for _, command := range []string{"GET", "SET"} {
				what := command + " " + s.name
				if i == 0 {
					name := fmt.Sprintf("%s -P %d", command, s.pipeline)
					p.Bars, q.Bars = append(p.Bars, name), append(q.Bars, name)
				}
				used.Add(at, r.median(what, c.name, cpu))
				done.Add(at, r.median(what, c.name, rate))
				at++
			}
		}
		if c.pid != 0 {
			p.Lines = append(p.Lines, used)
		}
		q.Lines = append(q.Lines, done)
	}
	rep.draw(p)
	rep.draw(q)
}
