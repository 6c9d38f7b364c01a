package main

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"time"

	"lockproxy/integration/page"
	"lockproxy/integration/rig"
)

const (
	keepConns = 100 // connections that hold all locks together
	keepBatch = 50  // LOCKs at a time over each
)

// keeping is one measurement: holds that are kept alive, watched for some thirds of
// their lease, after each of which all are renewed.
type keeping struct {
	lease  time.Duration
	thirds int
}

func (k keeping) name() string { return fmt.Sprintf("lease %v", k.lease) }

// keepalive measures what it costs a proxy, and its Redis, to keep many holds alive. Nobody else uses them.
func keepalive(y *yard, rep *report) {
	all := []keeping{{30 * time.Second, 6}, {9 * time.Second, 10}}
	if y.o.quick {
		all = []keeping{{9 * time.Second, 4}}
	}
	masters := rig.StartCluster(y, nodes, 0, "--maxclients", fmt.Sprint(mostClients)).Nodes
	r := results{}
	var whats []string
	var w way
	for _, k := range all {
		w = y.startLockproxy(oneProxy, masters)
		k.measure(y, w, r)
		whats = append(whats, k.name())
		what := fmt.Sprintf("%d holds kept alive, %s: ", y.held(), k.name())
		due := float64(y.held()) / (k.lease / 3).Seconds()
		rep.hold(
			page.AtLeast(0.95, "%.2f", what+"renewals, of what is due",
				page.SpreadOf(r.median(k.name(), w.name, rate)/due)),
			page.AtMost(0, "%.0f", what+"lost", r.spread(k.name(), w.name, "lost")),
			page.AtMost(0, "%.0f", what+"not in Redis at the end", r.spread(k.name(), w.name, "gone")),
			page.AtMost(0.5, "%.3f", what+"freed by closing, in leases",
				r.spread(k.name(), w.name, "freed in leases")))
	}
	ways := []way{w}
	rep.printf("\n## %d holds kept alive by one proxy\n\n%s\n%s", y.held(), r.table(whats, ways,
		whole("renewals/s", rate), tenths("proxy's CPU %"), hundredths("µs a renewal", cpu),
		hundredths("Redis's, µs a renewal", redisCPU), hundredths("by its own account"),
		hundredths("scripts a renewal", ran("evalsha"))), r.table(whats, ways,
		hundredths("taken in s"), whole("proxy's bytes a hold"), whole("Redis's"),
		hundredths("shortest lease left"), whole("lost"), whole("gone"),
		hundredths("freed in s"), tenths("CPU % without holds")))
	rep.printf("\nOver %d connections and three masters, as medians of the thirds of the lease.\n"+
		"CPU %% is of one core. The proxy's bytes are what its resident memory grew by, the\n"+
		"shortest lease is that of all holds at the\n"+
		"end, and freed are they by closing the connections.\n", keepConns)
}

// held is how many holds are kept alive.
func (y *yard) held() int { return y.o.requests / keepBatch * keepBatch }

// measure takes the holds, watches them, and lets them go.
func (k keeping) measure(y *yard, w way, r results) {
	holds := y.held()
	end := sample{}
	l := load{pipeline: keepBatch}
	defer l.close()
	next := k.locks(holds)
	for range keepConns {
		y.check(l.dial(w.doors[0], next, lockedOrFreed))
	}
	keys := func() int { return y.sum(w, func(s *rig.Server) string { return s.Do(y, "DBSIZE").Text }) }
	used := func() int {
		return y.sum(w, func(s *rig.Server) string { return s.Info(y, "memory", "used_memory") })
	}
	renewals := func() float64 { return w.admin.Metric(y, "lockproxy_lock_renewals_total") }
	idle, rss, memory := w.read(y), w.proxies[0].RSS(y), used()
	time.Sleep(2 * time.Second)
	end["CPU % without holds"] = (w.read(y).proxy - idle.proxy).Seconds() / 2 * 100
	y.progress("%s: taking %d locks over %d connections", k.name(), holds, keepConns)
	begun := time.Now()
	_, err := l.run(holds / keepBatch)
	y.check(err)
	end["taken in s"] = time.Since(begun).Seconds()
	fences := keys() - holds // one for each slot; they stay
	if fences < 0 || fences > rig.Slots {
		y.Fatalf("Redis has %d keys more than %d holds, and should have a fence for each slot", fences, holds)
	}
	begun, last, renewed := time.Now(), w.read(y), renewals()
	for i := range k.thirds + 1 {
		y.progress("%s: third %d of %d", k.name(), i, k.thirds)
		time.Sleep(k.lease / 3)
		now, since, n := time.Now(), w.read(y), renewals()
		if due := int(n - renewed); i > 0 && due > 0 { // in the first they may still be as they were taken
			s := w.spent(sample{rate: float64(due) / now.Sub(begun).Seconds()}, since.plus(-1, last), due)
			s["proxy's CPU %"] = s[rate] * s[cpu] / 1e4
			s["by its own account"] = s[usecOf("evalsha")] * s[ran("evalsha")]
			r.add(k.name(), w.name, s)
		}
		begun, last, renewed = now, since, n
	}
	end["proxy's bytes a hold"] = float64(w.proxies[0].RSS(y)-rss) / float64(holds)
	end["Redis's"] = float64(used()-memory) / float64(holds)
	k.left(y, w, end)
	if end["lost"] = w.admin.Metric(y, "lockproxy_lock_lost_total"); end["lost"] > 0 {
		y.progress("%s: lost %.0f; the proxy wrote:\n%s", k.name(), end["lost"], w.admin.Log.Tail())
	}
	begun = time.Now()
	l.close()
	for keys() > fences {
		if time.Since(begun) > rig.Patience {
			y.Fatalf("%d keys, not %d", keys(), fences)
		}
		time.Sleep(5 * time.Millisecond)
	}
	end["freed in s"] = time.Since(begun).Seconds()
	end["freed in leases"] = end["freed in s"] / k.lease.Seconds()
	r.add(k.name(), w.name, end)
}

// locks is the source of all connections together: each lock is taken once.
func (k keeping) locks(holds int) source {
	px, i := fmt.Sprint(k.lease.Milliseconds()), 0
	return func(dst []byte) []byte {
		for range keepBatch {
			dst = append(dst, command("LOCK", keptName(i%holds), "PX", px, "KEEPALIVE")...)
			i++
		}
		return dst
	}
}

func keptName(i int) string { return fmt.Sprintf("kept:%08d", i) }

// left asks Redis for the lease of every hold.
func (k keeping) left(y *yard, w way, end sample) {
	var all [][]byte
	for i := range y.held() {
		all = append(all, command("PTTL", "lock:{"+keptName(i)+"}"))
	}
	const shortest = "shortest lease left"
	end[shortest], end["gone"] = math.Inf(1), 0
	y.send(w.doors[0], all, keepBatch, func(reply []byte) bool {
		ms, err := strconv.Atoi(string(bytes.TrimSpace(reply[1:])))
		if ms <= 0 {
			end["gone"]++
		} else {
			end[shortest] = min(end[shortest], float64(ms)/float64(k.lease.Milliseconds()))
		}
		return reply[0] == ':' && err == nil
	})
}

// sum is a number of all servers together.
func (y *yard) sum(w way, of func(*rig.Server) string) (all int) {
	for _, s := range w.servers {
		n, err := strconv.Atoi(of(s))
		y.check(err)
		all += n
	}
	return all
}
