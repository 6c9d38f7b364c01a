package main

import (
	"fmt"
	"slices"
	"time"

	"lockproxy/integration/page"
)

// crowds are how many connections are busy at a time.
var crowds = []int{50, 300, 1000, 3000, 10000}

// crowdLimits are of some of them, in parts of twemproxy's CPU a request and throughput; 0: there is none.
var crowdLimits = map[int]struct{ cpu, rate float64 }{300: {0.71, 0}, 1000: {0.83, 1.41}, 3000: {0.69, 0},
	10000: {0.59, 1.57}}

func busy(n int) string { return fmt.Sprintf("%d connections", n) }

// named are the names of what is measured for each of some numbers.
func named(all []int, name func(int) string) (names []string) {
	for _, n := range all {
		names = append(names, name(n))
	}
	return names
}

// connections measures GETs one at a time over more and more busy connections.
func connections(y *yard, rep *report) {
	all := y.contenders()
	counts := slices.DeleteFunc(slices.Clone(crowds), func(n int) bool { return n > y.o.most })
	whats := named(counts, busy)
	r := results{}
	left := map[string]bool{}
	y.rounds(r, all, whats, func(i int, w way) sample {
		if !y.holds(w, counts[i]) {
			left[w.name+" with "+whats[i]] = true
			return nil
		}
		l := y.keyedLoad(w, counts[i], 1, "GET")
		defer l.close()
		return y.metered(w, l, max(y.o.requests, 10*counts[i]))
	})
	rep.printf("\n## Busy connections, GET one at a time\n\n%s", r.table(whats, all,
		append(y.beside(usual("requests", "direct", "request")...), hundredths("load's CPU", clientCPU))...))
	for who := range left {
		rep.printf("\nNot measured: %s, for the limit of open files (ulimit -n) is %d, and may not be "+
			"raised.\n", who, y.files)
	}
	for i, n := range counts {
		limits, ok := crowdLimits[n]
		if ok {
			y.holdCPU(rep, r, whats[i], "GET, "+whats[i]+": CPU a request", limits.cpu)
		}
		if limits.rate > 0 {
			rep.hold(page.AtLeast(limits.rate, "%.2f", "GET, "+whats[i]+": throughput, against twemproxy",
				r.versus(whats[i], oneProxy, y.twemproxy.name, rate)))
		}
	}
	rep.draw(page.Plot{File: "connections-rate", Title: "GET, one at a time: throughput",
		X: "busy connections", Y: "requests a second"}, r, whats, counts, all, rate)
	rep.draw(page.Plot{File: "connections-cpu", Title: "GET, one at a time: CPU of the proxy",
		X: "busy connections", Y: "µs a request"}, r, whats, counts, all, cpu)
}

// churners is how many connections are made, used once and closed at a time.
const churners = 50

// churn measures connections that are made for one GET: connect, GET, close.
func churn(y *yard, rep *report) {
	all, whats := y.contenders(), []string{"connect, GET, close"}
	r := results{}
	y.rounds(r, all, whats, func(_ int, w way) sample {
		l := y.keyedLoad(w, churners, 1, "GET")
		defer l.close()
		l.fresh = true
		return y.metered(w, l, y.o.requests/10)
	})
	rep.printf("\n## Connections for one GET each\n\n%s\n%d at a time. The latency is from\n"+
		"connecting to the reply.\n",
		r.table(whats, all, y.beside(usual("connections", "direct", "connection")...)...), churners)
	rep.hold(page.AtLeast(0.95, "%.2f", "connect + GET + close a second, against straight to the cluster",
		r.versus(whats[0], oneProxy, y.direct.name, rate)))
}

const (
	// pacedConns is over how many connections paced requests go in turn.
	pacedConns = 50
	// pacedFor is for how long one rate is kept, at -requests 100000.
	pacedFor = 3 * time.Second
)

// paces are requests a second.
var paces = []int{2000, 5000, 10000, 20000}

func pace(n int) string { return fmt.Sprintf("%d requests a second", n) }

// paced measures GETs that come at a fixed rate, whether or not the one before is answered. A latency
// counts from when the request was due, so that a proxy that hangs for a moment is late for all that
// were due meanwhile.
func paced(y *yard, rep *report) {
	all, whats := y.contenders(), named(paces, pace)
	r := results{}
	y.rounds(r, all, whats, func(i int, w way) sample {
		took := pacedFor * time.Duration(y.o.requests) / 100000
		n := max(pacedConns, int(took.Seconds()*float64(paces[i])))
		l := y.keyedLoad(w, pacedConns, 1, "GET")
		defer l.close()
		return y.costed(w, func() (sample, int) {
			t := timetable{time.Now().Add(10 * time.Millisecond), time.Second / time.Duration(paces[i])}
			late, err := l.follow(t, n)
			y.check(err)
			return timesOf(late, float64(n)/time.Since(t.begun).Seconds()), n
		})
	})
	rep.printf("\n## GETs at a fixed rate\n\n%s\nAn open loop over %d connections: a request is sent\n"+
		"when it is due, and its latency counts from then, also if it could only be sent later.\n",
		r.table(whats, all, y.beside(whole("sent a second", rate), whole("p50 µs", p50), whole("p99 µs", p99),
			whole("p99.9 µs", p999), hundredths("CPU µs a request", cpu))...), pacedConns)
	y.holdCPU(rep, r, whats[0], "open loop, "+whats[0]+": CPU", 1)
	rep.draw(page.Plot{File: "paced-p99", Title: "GETs at a fixed rate: p99",
		X: "requests a second", Y: "µs"}, r, whats, paces, all, p99)
	rep.draw(page.Plot{File: "paced-cpu", Title: "GETs at a fixed rate: CPU of the proxy",
		X: "requests a second", Y: "µs a request"}, r, whats, paces, all, cpu)
}
