package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// crowds are how many connections are busy at a time.
var crowds = []int{50, 300, 1000, 3000, 10000}

const (
	// spareFiles is what a program has open beside the sockets of its clients.
	spareFiles = 500
	// mostClients is more than ever are connected.
	mostClients = 12000
	// wantedFiles are enough for a proxy that has a connection to Redis for each of its clients.
	wantedFiles = 2*mostClients + spareFiles
	// perConnection is how many requests each connection sends at least.
	perConnection = 10
)

func upTo(most int) []int {
	return slices.DeleteFunc(slices.Clone(crowds), func(n int) bool { return n > most })
}

func busy(n int) string { return fmt.Sprintf("%d connections", n) }

// connections measures GETs one at a time over more and more busy connections.
func connections(ctx context.Context, y *yard, o options, rep *report) error {
	if err := y.fillKeyed(ctx); err != nil {
		return err
	}
	all := y.contenders()
	r := results{}
	for round := range o.rounds {
		for _, n := range upTo(o.most) {
			progress("round %d of %d: GET over %s", round+1, o.rounds, busy(n))
			for _, c := range rotated(all, round) {
				if !y.holds(c, n) {
					continue
				}
				s, err := y.crowded(ctx, c, n, max(o.requests, perConnection*n))
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.name, busy(n), err)
				}
				r.add(busy(n), c.name, s)
			}
		}
	}
	y.printConnections(rep, r, all, o.most)
	drawConnections(rep, r, all)
	if len(y.lockproxy) > 0 {
		y.connectionTargets(rep, r, o.most)
	}
	return nil
}

// holds says whether a contender may have that many clients, for the files that it may open. haproxy has
// a connection to Redis for each.
func (y *yard) holds(c contender, clients int) bool {
	each := 1
	if c.name == y.haproxy.name {
		each = 2
	}
	return each*clients+spareFiles <= y.files
}

// crowded is one measurement of one contender.
func (y *yard) crowded(ctx context.Context, c contender, connections, n int) (sample, error) {
	l := load{pipeline: 1}
	defer l.close()
	if err := y.dialKeyed(&l, c, connections); err != nil {
		return sample{}, err
	}
	if _, err := l.run(ctx, connections); err != nil { // each is accepted, and known
		return sample{}, err
	}
	return metered(ctx, &l, n, c)
}

// dialKeyed connects a load of GETs that find their keys.
func (y *yard) dialKeyed(l *load, c contender, connections int) error {
	doors := y.doors(c)
	var gets [][][]byte
	for node := range doors {
		gets = append(gets, keyed(c, node, "GET"))
	}
	found := func(reply []byte) bool { return reply[0] == '$' && !null(reply) }
	for i := range connections {
		door := i % len(doors)
		if err := l.dial(doors[door], cycle(gets[door], 7*i), found); err != nil {
			return err
		}
	}
	return nil
}

// doors are where the connections of a client go.
func (y *yard) doors(c contender) []string {
	if c.cluster {
		return y.masters
	}
	return []string{c.addr}
}

// keyedKeys is how many keys all these commands have together.
const keyedKeys = 3000

// keyed are commands with one key each, for a contender: of all keys, or of those of one node, where the
// client must know it.
func keyed(c contender, node int, name string, values ...string) (commands [][]byte) {
	for i := range keyedKeys {
		key := fmt.Sprintf("bench:key:%06d", i)
		if c.cluster && nodeOf(key) != node {
			continue
		}
		commands = append(commands, command(nil, append([]string{name, key}, values...)...))
	}
	return commands
}

// cycle is a source of one command at a time, each connection beginning with another one.
func cycle(commands [][]byte, from int) source {
	next := from % len(commands)
	return func(dst []byte) []byte {
		dst = append(dst, commands[next]...)
		next = (next + 1) % len(commands)
		return dst
	}
}

// fillKeyed writes these keys wherever somebody reads them.
func (y *yard) fillKeyed(ctx context.Context) error {
	for _, c := range append(y.yardsticks(), y.direct) {
		for node, addr := range y.doors(c) {
			l := load{pipeline: 1}
			sets := keyed(c, node, "SET", "xxx")
			err := l.dial(addr, cycle(sets, 0), nil)
			if err == nil {
				_, err = l.run(ctx, len(sets))
			}
			l.close()
			if err != nil {
				return fmt.Errorf("filling through %s: %w", c.name, err)
			}
		}
	}
	return nil
}

func (y *yard) printConnections(rep *report, r results, all []contender, most int) {
	head := []string{"", "requests/s", "of direct", "p50 µs", "p99 µs", "CPU µs a request"}
	yardsticks := y.yardsticks()
	for _, c := range yardsticks {
		head = append(head, "of "+c.name)
	}
	t := table{append(head, "load's CPU")}
	var left []string
	for _, n := range upTo(most) {
		what := busy(n)
		for _, c := range all {
			if len(r[what][c.name]) == 0 {
				left = append(left, c.name+" with "+what)
				continue
			}
			row := []string{
				what + ", " + c.name,
				fmt.Sprintf("%.0f", r.median(what, c.name, rate)),
				fmt.Sprintf("%.2f", r.ratio(what, c.name, y.direct.name, rate)),
				fmt.Sprintf("%.0f", r.median(what, c.name, p50)),
				fmt.Sprintf("%.0f", r.median(what, c.name, p99)),
				"",
			}
			if c.pid != 0 {
				row[5] = fmt.Sprintf("%.2f", r.median(what, c.name, cpu))
			}
			row = append(row, r.against(what, c, yardsticks, cpu)...)
			t = append(t, append(row, fmt.Sprintf("%.2f", r.median(what, c.name, clientCPU))))
		}
	}
	rep.printf("\n## Busy connections, GET one at a time\n\n%s", t)
	if left != nil {
		rep.printf("\nNot measured: %s.\nThe limit of open files (ulimit -n) is %d, and may not be raised.\n",
			strings.Join(left, ", "), y.files)
	}
}

// connectionTargets holds the results against the targets.
func (y *yard) connectionTargets(rep *report, r results, most int) {
	for _, n := range upTo(most) {
		if of, ok := crowdOfPredixy[n]; ok {
			other := y.yardstick(of)
			rep.hold(atMost(other.limit(1.05), "%.2f",
				fmt.Sprintf("GET, %s: CPU a request, against %s", busy(n), other.told),
				r.versus(busy(n), oneProxy, other.name, cpu)))
		}
		if of, ok := rateOfPredixy[n]; ok {
			other := y.yardstick(of)
			rep.hold(atLeast(other.limit(1), "%.2f",
				fmt.Sprintf("GET, %s: throughput, against %s", busy(n), other.told),
				r.versus(busy(n), oneProxy, other.name, rate)))
		}
	}
}

// drawConnections draws throughput and cost over the number of connections.
func drawConnections(rep *report, r results, all []contender) {
	const x = "busy connections"
	done := plot{File: "connections-rate", Title: "GET, one at a time: throughput", X: x,
		Y: "requests a second", LogX: true}
	used := plot{File: "connections-cpu", Title: "GET, one at a time: CPU of the proxy", X: x,
		Y: "µs a request", LogX: true}
	for _, c := range all {
		d, u := line{Name: c.name}, line{Name: c.name}
		for _, n := range crowds {
			d.Add(float64(n), r.median(busy(n), c.name, rate))
			u.Add(float64(n), r.median(busy(n), c.name, cpu))
		}
		done.Lines = append(done.Lines, d)
		if c.pid != 0 {
			used.Lines = append(used.Lines, u)
		}
	}
	rep.draw(done)
	rep.draw(used)
}
