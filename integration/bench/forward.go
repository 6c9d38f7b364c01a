package main

import (
	"lockproxy/integration/page"
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
	single      = shape{"-c 1 -P 1", 1, 1, 0.25}
)

// forward measures ordinary commands on their way through.
func forward(y *yard, rep *report) {
	all := y.contenders()
	shapes, verbs := []shape{plain50, pipelined50, single}, []string{"GET", "SET"}
	var whats []string
	for _, s := range shapes {
		for _, verb := range verbs {
			whats = append(whats, verb+" "+s.name)
		}
	}
	r := results{}
	y.rounds(r, all, whats, func(i int, w way) sample {
		s := shapes[i/2]
		l := y.keyedLoad(w, s.connections, s.pipeline, verbs[i%2], []string{"xxx"}[:i%2]...)
		defer l.close()
		return y.metered(w, l, max(s.connections, int(float64(y.o.requests)*s.share)/s.pipeline))
	})
	rep.printf("\n## Forwarding\n\n%s\nLatencies are those of a batch.\n",
		r.table(whats, all, y.beside(usual("requests", "direct", "request")...)...))
	for _, t := range []struct {
		shape
		twemproxy       []float64 // of GET, of SET
		haproxy, direct float64
	}{
		{plain50, []float64{0.90, 0.75}, 0, 0.90},
		{pipelined50, []float64{0.26, 0.26}, 1.10, 0.70},
	} {
		for i, verb := range verbs {
			what := verb + " " + t.name
			y.holdCPU(rep, r, what, what+": CPU a request", t.twemproxy[i])
			if t.haproxy > 0 {
				rep.hold(page.AtMost(t.haproxy, "%.2f", what+": CPU a request, against haproxy in TCP mode",
					r.versus(what, oneProxy, "haproxy", cpu)))
			}
			rep.hold(page.AtLeast(t.direct, "%.2f", what+": throughput, against straight to the cluster",
				r.versus(what, oneProxy, y.direct.name, rate)))
		}
	}
	bars := []string{"GET -P 1", "SET -P 1", "GET -P 16", "SET -P 16"}
	rep.draw(page.Plot{File: "forward-cpu", Title: "CPU of the proxy a request, 50 connections",
		Y: "µs", Bars: bars}, r, whats[:4], nil, all, cpu)
	rep.draw(page.Plot{File: "forward-rate", Title: "Throughput, 50 connections",
		Y: "requests a second", Bars: bars}, r, whats[:4], nil, all, rate)
}
