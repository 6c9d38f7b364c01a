package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
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
func forward(ctx context.Context, y *yard, o options) ([]verdict, error) {
	all := append([]contender{y.direct}, y.lockproxy[:min(1, len(y.lockproxy))]...)
	all = append(all, y.twemproxy, y.haproxy)
	progress("filling %d keys", keys)
	for _, c := range all {
		// Six times as many as there are leaves 0.2 % of them out.
		if _, err := redisBenchmark(ctx, c, "SET", 50, 100, 6*keys); err != nil {
			return nil, fmt.Errorf("filling through %s: %w", c.name, err)
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
						return nil, fmt.Errorf("%s %s %s: %w", c.name, command, s.name, err)
					}
					r.add(command+" "+s.name, c.name, got)
				}
			}
		}
	}
	printForward(r, all)
	if len(y.lockproxy) == 0 {
		return nil, nil
	}
	return forwardVerdicts(r), nil
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

// metered runs a load and takes the CPU time of the proxies meanwhile.
func metered(ctx context.Context, l *load, batches int, c contender) (sample, error) {
	before, err := c.cpu()
	if err != nil {
		return sample{}, err
	}
	s, err := l.run(ctx, batches)
	if err != nil {
		return sample{}, err
	}
	after, err := c.cpu()
	if err != nil {
		return sample{}, err
	}
	return s.withCPU(after-before, batches*l.pipeline), nil
}

func printForward(r results, all []contender) {
	for _, s := range []shape{plain50, pipelined50, alone} {
		t := table{{"", "requests/s", "of direct", "p50 µs", "p99 µs", "CPU µs a request", "of twemproxy",
			"of haproxy"}}
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
					"", "", "",
				}
				if s == alone {
					row[2] = fmt.Sprintf("%.1f", median(added(r, what, c.name)))
				}
				if c.pid != 0 {
					row[5] = fmt.Sprintf("%.2f", r.median(what, c.name, cpu))
					row[6] = fmt.Sprintf("%.2f", r.ratio(what, c.name, "twemproxy", cpu))
					row[7] = fmt.Sprintf("%.2f", r.ratio(what, c.name, "haproxy", cpu))
				}
				t = append(t, row)
			}
		}
		fmt.Fprintf(os.Stdout, "\n## Forwarding, %s\n\n%s", s.name, t)
	}
	fmt.Println("\nLatencies are those of a batch. At one connection the load is this program's own.")
}

// added is what a contender adds to the p50 of going directly, round by round.
func added(r results, what, who string) []float64 {
	var all []float64
	for i, s := range r[what][who] {
		all = append(all, p50(s)-p50(r[what]["direct"][i]))
	}
	return all
}

// forwardVerdicts holds the results against the targets.
func forwardVerdicts(r results) []verdict {
	var all []verdict
	for _, t := range []struct {
		shape
		twemproxy, haproxy, direct float64
	}{
		{plain50, 0.80, 0.75, 0.85},
		{pipelined50, 0.45, 1.10, 0.65},
	} {
		for _, command := range []string{"SET", "GET"} {
			what := command + " " + t.name
			all = append(all,
				verdict{what + ": CPU a request, against twemproxy",
					r.ratio(what, "lockproxy", "twemproxy", cpu),
					t.twemproxy, true, "%.3f"},
				verdict{what + ": CPU a request, against haproxy", r.ratio(what, "lockproxy", "haproxy", cpu),
					t.haproxy, true, "%.3f"},
				verdict{what + ": throughput, against direct", r.ratio(what, "lockproxy", "direct", rate),
					t.direct, false, "%.3f"})
		}
	}
	for _, command := range []string{"SET", "GET"} {
		what := command + " " + alone.name
		ours, theirs := added(r, what, "lockproxy"), added(r, what, "haproxy")
		for i := range ours {
			ours[i] /= theirs[i]
		}
		all = append(all, verdict{what + ": p50 added, against haproxy", median(ours), 1, true, "%.3f"})
	}
	return all
}
