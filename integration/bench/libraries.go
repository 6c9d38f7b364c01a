package main

import (
	"fmt"
	"slices"
	"time"

	"lockproxy/integration/page"
	"lockproxy/integration/rig"
)

// golang measures a Go program with many goroutines, each of which takes and frees a lock of its own: by LOCK
// through a proxy, and by the libraries that do it straight at the same Redis.
func golang(y *yard, rep *report) {
	one := y.redis(1)
	proxy := y.startLockproxy(oneProxy, one).withLibrary(lease)
	ways, whats := []way{proxy, y.redsync(one, lease), y.rueidislock(one[0], true)}, []string{"own locks"}
	for i := range ways {
		ways[i].base = redsyncName
	}
	r := results{}
	y.rounds(r, ways, whats, func(_ int, w way) sample {
		s, err := w.alone(y, crowd, y.o.requests/crowd/5)
		y.check(err)
		return s
	})
	rep.printf("\n## Locks of a Go program\n\n%s\n%d goroutines, each with a lock of its own, before one\n"+
		"Redis. The latency is that of taking it. LOCK is sent by go-redis, which redsync uses, too;\n"+
		"rueidislock uses rueidis.\n", r.table(whats, ways, append(usual("pairs", redsyncName, "pair"),
		tenths("client's", clientCPU), tenths("Redis's", redisCPU))...), crowd)
	rep.hold(page.AtLeast(1.3, "%.2f", fmt.Sprintf("LOCK + UNLOCK of a Go client, %d goroutines: "+
		"pairs a second, against redsync straight at one Redis", crowd),
		r.versus(whats[0], oneProxy, redsyncName, rate)))
}

// independentLease is the lease of locks over independent masters. It is short, since a master
// that has just started does not vote for so long.
const independentLease = 10 * time.Second

// plainName is a lock that is not over independent masters, at a lockproxy.
const plainName = "lockproxy, plain lock"

// quorums are over how many masters a lock is.
var quorums = []int{3, 5}

func over(masters int) []string {
	return []string{fmt.Sprintf("%d masters, one client", masters),
		fmt.Sprintf("%d masters, %d clients, own locks", masters, crowd),
		fmt.Sprintf("%d masters, 20 clients, one lock", masters)}
}

// independent measures RedLock: LOCK + UNLOCK through a proxy, over masters that know
// nothing of each other, beside redsync over the same masters.
func independent(y *yard, rep *report) {
	masters := y.redis(slices.Max(quorums)) // smaller quorums are of the first
	r := results{}
	var ways []way
	var whats []string
	for _, n := range quorums {
		lease := independentLease.String()
		proxy := y.startLockproxy(oneProxy, y.plain[:1], "--redlock", rig.Addrs(masters[:n]),
			"--redlock-node-timeout", (independentLease / 20).String(), "--lock-lease", lease,
			"--lock-max-lease", lease).withLibrary(independentLease)
		proxy.servers = masters[:n]
		plain := y.lockproxy[0].withLibrary(independentLease)
		plain.name = plainName
		ways = []way{proxy, plain, y.redsync(masters[:n], independentLease)}
		y.rounds(r, ways, over(n), func(i int, w way) (s sample) {
			proxy.admin.Vote(y, n) // one that measures with fewer does less
			var err error
			switch i {
			case 0:
				s, err = w.alone(y, 1, y.o.requests/100)
			case 1:
				s, err = w.alone(y, crowd, y.o.requests/crowd/10)
			case 2:
				s, err = w.contend(y, 19, y.o.requests/50)
			}
			y.check(err)
			return s
		})
		whats = append(whats, over(n)...)
	}
	rep.printf("\n## RedLock over independent masters\n\n%s\n", r.table(whats, ways,
		whole("grants/s", rate), whole("p50 µs", p50), whole("p99 µs", p99),
		tenths("client's CPU µs a grant", clientCPU), tenths("proxy's", cpu),
		whole("grants a CPU second", perCPU), tenths("Redis's CPU µs a grant", redisCPU)))
	rep.printf(`A grant is LOCK and UNLOCK. With own locks each client takes and frees one for which
nobody else asks, and the latencies are those of taking it; with one lock they are those of the hand-over,
from the holder sending the release to the next one having read the grant.

The clients of both are goroutines of this program over go-redis, so that a client of lockproxy pays for its
library too: grants a CPU second are by both together. That holds against lockproxy what a client library
costs, the second hop, fences, and order among those who wait, which redsync does not have; and it leaves out
Redis. redsync has its defaults: it waits for all masters, and asks again after 50 to 250 ms. Both give a
master %v, a twentieth of the lease.
`, independentLease/20)
	independentTargets(rep, r)
	bars := []string{"3: one client", "3: 50 clients", "3: 20 clients", "5: one client", "5: 50 clients",
		"5: 20 clients"}
	const x = "masters: clients; 20 of them want the same lock"
	rep.draw(page.Plot{File: "redlock-rate", Title: "RedLock: LOCK + UNLOCK", X: x,
		Y: "pairs a second", Bars: bars}, r, whats, nil, ways, rate)
	rep.draw(page.Plot{File: "redlock-p50", Title: "RedLock: p50 of taking a lock, or of its hand-over", X: x,
		Y: "µs", Bars: bars}, r, whats, nil, ways, p50)
}

// independentTargets holds the results against the targets.
func independentTargets(rep *report, r results) {
	for _, n := range quorums {
		name, whats := fmt.Sprintf("RedLock, %d masters, ", n), over(n)
		rep.hold(
			page.AtMost(0.9, "%.2f", name+"one client: p50, against redsync",
				r.versus(whats[0], oneProxy, redsyncName, p50)),
			page.AtLeast(2, "%.2f", name+"50 clients: pairs a second, against redsync",
				r.versus(whats[1], oneProxy, redsyncName, rate)),
			page.AtMost(float64(n)/2, "%.2f", name+"50 clients: proxy CPU a pair, against a plain lock's",
				r.versus(whats[1], oneProxy, plainName, cpu)),
			page.AtMost(float64(n)/2, "%.2f", name+"one client: proxy CPU a pair, against a plain lock's",
				r.versus(whats[0], oneProxy, plainName, cpu)))
	}
}
