package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"time"

	"lockproxy/integration/page"
	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/scripts"
)

// pairing is one way to take and free a lock for which nobody waits. Of several doors each has the locks
// of a node.
type pairing struct {
	doors      []string
	take, free func(name, token string) []byte
}

// The names of the pairings.
const (
	scriptsName = "EVALSHA, direct"
	setName     = "SET NX PX + compare-and-delete, direct"
	beforeOne   = "lockproxy, one Redis"
)

// What a LOCK costs a lockproxy before the cluster.
const (
	costName = "lockproxy, watched"
	costPair = "allocations"

	objects figure = "objects" // that the proxy allocates for a pair, and their bytes
	sizes   figure = "sizes"
)

// pairs measures LOCK + UNLOCK of locks for which nobody waits, against the same
// two scripts sent to the nodes by EVALSHA, as a lock library would at its best:
// a connection has all its locks on one node and knows which. Before one Redis it does the
// same against what most libraries do: SET NX PX, and a script that compares and deletes.
func pairs(y *yard, rep *report) {
	for _, m := range y.masters {
		for _, s := range scripts.All() {
			m.Do(y, "SCRIPT", "LOAD", s.Source)
		}
	}
	one, proxy := y.redis(1), y.lockproxy[0]
	before := y.startLockproxy(beforeOne, one)
	compare := one[0].Do(y, "SCRIPT", "LOAD", lua("compare")).Text
	proxy.base, before.base = scriptsName, setName
	all := []way{{name: scriptsName, base: scriptsName, servers: y.masters}, proxy,
		{name: setName, base: setName, servers: one}, before}
	how := map[string]pairing{
		scriptsName: scriptPairing(addrs(y.masters)),
		oneProxy:    verbs(proxy),
		setName: {addrs(one), func(name, token string) []byte {
			return command("SET", name, token, "NX", "PX", px)
		}, func(name, token string) []byte { return command("EVALSHA", compare, "1", name, token) }},
		beforeOne: verbs(before),
	}
	shapes := []shape{plain50, {pipelined50.name, pipelined50.connections, pipelined50.pipeline, 4}}
	whats := []string{plain50.name, pipelined50.name}
	r := results{}
	y.rounds(r, all, whats, func(i int, w way) sample { return y.paired(w, how[w.name], shapes[i]) })
	rep.printf("\n## LOCK + UNLOCK\n\n%s\n"+
		"Latencies are those of a batch: one command, or eight pairs. Where the cores are busy, the\n"+
		"ratio is that of all CPU spent on a pair, Redis's and this program's included.\n",
		r.table(whats, all, append(usual("pairs", "direct", "pair"), hundredths("Redis's", redisCPU))...))
	for i, limit := range []float64{0.75, 0.55} {
		rep.hold(page.AtLeast(limit, "%.2f", "LOCK + UNLOCK "+whats[i]+": pairs a second, against "+setName,
			r.versus(whats[i], beforeOne, setName, rate)))
	}
	y.lockCosts(rep, r)
}

// lockCosts measures what a LOCK and an UNLOCK cost a lockproxy before the cluster: CPU, beside a GET of the
// same name, and what it allocates.
func (y *yard) lockCosts(rep *report, r results) {
	proxy := y.startLockproxy(costName, y.masters)
	count := phaseOf(y.o.requests * 2 / 5)
	run, token := "", redlock.NewToken()
	whats := []string{"LOCK", "UNLOCK", "GET"}
	phases := []func(name, token string) []byte{verbs(proxy).take, verbs(proxy).free,
		func(name, _ string) []byte { return command("GET", name) }}
	good := []func([]byte) bool{lockedOrFreed, lockedOrFreed, resp.IsNull}
	y.rounds(r, []way{proxy}, append(whats, costPair), func(i int, w way) sample {
		if i == len(whats) {
			allocated := func() (objects, bytes float64) {
				return w.admin.Metric(y, "go_memstats_mallocs_total"),
					w.admin.Metric(y, "go_memstats_alloc_bytes_total")
			}
			o, b := allocated()
			y.paired(w, verbs(w), pipelined50)
			after, grown := allocated()
			n := float64(y.o.requests) * pipelined50.share / 2
			return sample{objects: (after - o) / n, sizes: (grown - b) / n}
		}
		if i == 0 {
			run = fmt.Sprintf("bench:%08x:", rand.Uint32())
		}
		return y.phase(phase{way: w, request: func(lock string) []byte { return phases[i](run+lock, token) },
			good: good[i]}, count)
	})
	for _, what := range whats {
		for i, s := range r[what][costName] {
			s["of GET"] = s[cpu] / r["GET"][costName][i][cpu]
		}
	}
	rep.printf("\n%s\n%d commands of a kind, %d at a time over %d connections, before the cluster. For a\n"+
		"pair the proxy allocates %.1f objects of %.0f bytes together.\n", r.table(whats, []way{proxy},
		hundredths("proxy's CPU µs", cpu), hundredths("of GET")), count, phaseBatch,
		phaseConns, r.median(costPair, costName, objects), r.median(costPair, costName, sizes))
	rep.hold(
		page.AtMost(4, "%.1f", "allocations of the proxy, a LOCK + UNLOCK pair",
			r.spread(costPair, costName, objects)),
		page.AtMost(2, "%.2f", "proxy CPU of a LOCK, against a GET, -P 16",
			r.spread("LOCK", costName, "of GET")))
}

// paired is one measurement, of pairs.
func (y *yard) paired(w way, how pairing, s shape) sample {
	l := load{pipeline: s.pipeline}
	defer l.close()
	// Names of this run alone: its last LOCKs may be left without an UNLOCK.
	run := rand.Uint32()
	for i := range s.connections {
		addr, commands := how.commands(fmt.Sprintf("bench:%08x:%03d:", run, i), i)
		y.check(l.dial(addr, inTurn(commands, s.pipeline), lockedOrFreed))
	}
	got := y.metered(w, &l, int(float64(y.o.requests)*s.share)/s.pipeline)
	got[rate] /= 2
	for _, f := range []figure{cpu, redisCPU} {
		if each, ok := got[f]; ok {
			got[f] = 2 * each
		}
	}
	return got
}

// lockNames is how many locks a connection uses in turn.
const lockNames = 48

// commands are those of the i-th connection, and where it goes.
func (p pairing) commands(prefix string, i int) (addr string, commands [][]byte) {
	token, door := redlock.NewToken(), i%len(p.doors)
	for range 2 { // a request that comes again before another one of its kind counts as sent again
		for k, n := 0, 0; n < lockNames; k++ {
			name := fmt.Sprintf("%s%03d", prefix, k)
			if len(p.doors) > 1 && nodeOf(name) != door {
				continue
			}
			n++
			commands = append(commands, p.take(name, token), p.free(name, token))
		}
	}
	return p.doors[door], commands
}

// px is the lease in ms.
var px = fmt.Sprint(lease.Milliseconds())

// verbs are LOCK and UNLOCK at a lockproxy.
func verbs(w way) pairing {
	return pairing{w.doors,
		func(name, token string) []byte { return command("LOCK", name, "TOKEN", token, "PX", px) },
		func(name, token string) []byte { return command("UNLOCK", name, token) }}
}

// scriptPairing are the scripts of LOCK and UNLOCK, sent to the nodes.
func scriptPairing(nodes []string) pairing {
	l := locks.New(sharded{}, locks.Options{})
	return pairing{nodes, func(name, token string) []byte {
		var r recorder
		a := redlock.Acquire{Name: name, Token: token, Mode: redlock.Write, Lease: lease}
		l.Acquire(&r, l.NewAcquire(a), &r)
		return r.req
	}, func(name, token string) []byte {
		var r recorder
		l.Release(&r, &redlock.Release{Name: name, Token: token}, &r)
		return r.req
	}}
}

// recorder is a client whose requests are noted and not sent. What it embeds is not called for that.
type recorder struct {
	redlock.Caller
	redlock.Acquirer
	req []byte
}

func (r *recorder) Buffer() []byte { return nil }

func (r *recorder) Hold(string) {}

func (r *recorder) SendHome(_ int, req []byte, _ bool, _ redlock.Exchange, _ redlock.Delivery) {
	r.req = req
}

func (*recorder) Released(redlock.Released, error) []byte { return nil }

// sharded is all that a Locker needs to know of its upstream to make requests.
type sharded struct{ redlock.Upstream }

func (sharded) Sharded() bool        { return true }
func (sharded) Parted(int) time.Time { return time.Time{} }
func (sharded) DeleteIf() string     { return "" }
func (sharded) Evicting() bool       { return false }
func (sharded) Evicts(int) error     { return nil }

// lockedOrFreed accepts a grant, of LOCK or of its script, which may be the fence alone, and
// the reply to a release; and OK of SET.
func lockedOrFreed(reply []byte) bool {
	return bytes.HasPrefix(reply, []byte("*4\r\n")) || string(reply) == ":1\r\n" ||
		string(reply) == "+OK\r\n" ||
		len(reply) > 16 && reply[0] == ':'
}
