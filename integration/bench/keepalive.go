package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"
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

// kept is what one measurement says besides its samples.
type kept struct {
	taken, freed time.Duration // how long it took to take and to free them all
	bytes        float64       // of the proxy, a hold
	redisBytes   float64
	least        time.Duration // what the one nearest to its end had left
	gone         int           // holds that Redis does not have at the end
	lost         float64       // as the proxy says
	idle         float64       // CPU of the proxy without holds, of one core
}

// keepalive measures what it costs a proxy, and its Redis, to keep many holds alive.
func keepalive(ctx context.Context, y *yard, o options, rep *report) error {
	if y.binary == "" {
		return nil
	}
	all := []keeping{{30 * time.Second, 6}, {9 * time.Second, 10}}
	if o.quick {
		all = []keeping{{9 * time.Second, 4}}
	}
	cluster, err := y.startKeepers(ctx)
	if err != nil {
		return err
	}
	defer cluster.counter.close()
	r, ends := results{}, map[string]kept{}
	for _, k := range all {
		if err := cluster.startProxy(ctx, y); err != nil {
			return err
		}
		end, err := k.measure(ctx, cluster, o.holds, r)
		if err != nil {
			return fmt.Errorf("%s: %w", k.name(), err)
		}
		ends[k.name()] = end
	}
	printKeepalive(rep, r, ends, all, o.holds)
	for _, k := range all {
		end, what := ends[k.name()], fmt.Sprintf("%d holds kept alive, %s: ", o.holds, k.name())
		due := float64(o.holds) / (k.lease / 3).Seconds()
		rep.hold(
			atLeast(0.95, "%.2f", what+"renewals, of what is due",
				spreadOf(r.median(k.name(), "lockproxy", rate)/due)),
			atMost(0, "%.0f", what+"lost", spreadOf(end.lost)),
			atMost(0, "%.0f", what+"not in Redis at the end", spreadOf(float64(end.gone))),
			atMost(0.5, "%.3f", what+"freed by closing, in leases",
				spreadOf(end.freed.Seconds()/k.lease.Seconds())))
	}
	return nil
}

// measure takes the holds, watches them, and lets them go.
func (k keeping) measure(ctx context.Context, c *keepers, holds int, r results) (kept, error) {
	var end kept
	l := load{pipeline: keepBatch}
	defer func() { l.close() }()
	next := k.locks(holds)
	for range keepConns {
		if err := l.dial(c.proxy.addr, next, lockedOrFreed); err != nil {
			return end, err
		}
	}
	progress("%s: the proxy without holds", k.name())
	idle, err := c.read(ctx)
	if err == nil {
		err = pause(ctx, 2*time.Second)
	}
	if err != nil {
		return end, err
	}
	before, err := c.read(ctx)
	if err != nil {
		return end, err
	}
	end.idle = (before.proxy - idle.proxy).Seconds() / before.at.Sub(idle.at).Seconds()
	progress("%s: taking %d locks over %d connections", k.name(), holds, keepConns)
	begun := time.Now()
	if _, err := l.run(ctx, holds/keepBatch); err != nil {
		return end, err
	}
	end.taken = time.Since(begun)
	last, err := c.read(ctx)
	if err != nil {
		return end, err
	}
	fences := last.keys - holds // one for each slot; they stay
	if fences < 0 || fences > slots {
		return end, fmt.Errorf("Redis has %d keys and should have %d, and a fence for each slot",
			last.keys, holds)
	}
	for i := range k.thirds + 1 {
		progress("%s: third %d of %d", k.name(), i, k.thirds)
		if err := pause(ctx, k.lease/3); err != nil {
			return end, err
		}
		now, err := c.read(ctx)
		if err != nil {
			return end, err
		}
		if i > 0 { // in the first they may still be as they were taken
			r.add(k.name(), "lockproxy", last.until(now))
		}
		last = now
	}
	end.bytes = float64(last.resident-before.resident) / float64(holds)
	end.redisBytes = float64(last.redisMemory-before.redisMemory) / float64(holds)
	if end.least, end.gone, err = c.left(ctx, holds); err != nil {
		return end, err
	}
	if last, err = c.read(ctx); err != nil {
		return end, err
	}
	if end.lost = last.lost; end.lost > 0 {
		progress("%s: lost %.0f; the proxy wrote:\n%s", k.name(), end.lost,
			tail([]byte(c.process.log.String())))
	}
	progress("%s: letting them go", k.name())
	begun = time.Now()
	l.close()
	l.conns = nil
	err = c.until(ctx, fences, k.lease+patience)
	end.freed = time.Since(begun)
	return end, err
}

// locks is the source of all connections together: each lock is taken once.
func (k keeping) locks(holds int) source {
	px := strconv.FormatInt(k.lease.Milliseconds(), 10)
	i := 0
	return func(dst []byte) []byte {
		for range keepBatch {
			dst = command(dst, "LOCK", keptName(i%holds), "PX", px, "KEEPALIVE")
			i++
		}
		return dst
	}
}

func keptName(i int) string { return fmt.Sprintf("kept:%08d", i) }

// left asks Redis for the lease of every hold: what is left of the shortest, and how
// many are gone.
func (c *keepers) left(ctx context.Context, holds int) (least time.Duration, gone int, err error) {
	least = time.Duration(1<<63 - 1)
	l := load{pipeline: keepBatch}
	defer l.close()
	i := 0
	err = l.dial(c.proxy.addr, func(dst []byte) []byte {
		for range keepBatch {
			dst = command(dst, "PTTL", "lock:{"+keptName(i)+"}")
			i++
		}
		return dst
	}, func(reply []byte) bool {
		ms, err := strconv.Atoi(string(bytes.TrimSpace(reply[1:])))
		if ms <= 0 {
			gone++
		} else {
			least = min(least, time.Duration(ms)*time.Millisecond)
		}
		return reply[0] == ':' && err == nil
	})
	if err == nil {
		_, err = l.run(ctx, holds/keepBatch)
	}
	return least, gone, err
}

func printKeepalive(rep *report, r results, ends map[string]kept, all []keeping, holds int) {
	work := table{{"", "renewals/s", "proxy's CPU %", "µs a renewal", "Redis's, µs a renewal",
		"by its own account", "scripts a renewal"}}
	rest := table{{"", "taken in s", "proxy's bytes a hold", "Redis's", "shortest lease left", "lost", "gone",
		"freed in s", "CPU % without holds"}}
	for _, k := range all {
		const who = "lockproxy"
		what, end := k.name(), ends[k.name()]
		work = append(work, []string{
			what,
			fmt.Sprintf("%.0f", r.median(what, who, rate)),
			fmt.Sprintf("%.1f",
				r.median(what, who, func(s sample) float64 { return s.rate * s.cpu.Seconds() * 100 })),
			fmt.Sprintf("%.2f", r.median(what, who, cpu)),
			fmt.Sprintf("%.2f", r.median(what, who, redisCPU)),
			fmt.Sprintf("%.2f", r.median(what, who, account)),
			fmt.Sprintf("%.3f", r.median(what, who, func(s sample) float64 { return s.commands["evalsha"] })),
		})
		rest = append(rest, []string{
			what,
			fmt.Sprintf("%.2f", end.taken.Seconds()),
			fmt.Sprintf("%.0f", end.bytes),
			fmt.Sprintf("%.0f", end.redisBytes),
			fmt.Sprintf("%.2f", end.least.Seconds()/k.lease.Seconds()),
			fmt.Sprintf("%.0f", end.lost),
			fmt.Sprint(end.gone),
			fmt.Sprintf("%.2f", end.freed.Seconds()),
			fmt.Sprintf("%.1f", end.idle*100),
		})
	}
	rep.printf("\n## %d holds kept alive by one proxy\n\n%s\n%s", holds, work, rest)
	rep.printf("\n"+
		"Over %d connections and three masters, as medians of the thirds of the lease.\n"+
		"CPU %% is of one core. The proxy's bytes are what its resident memory grew by, the\n"+
		"shortest lease is that of all holds at the\n"+
		"end, and freed are they by closing the connections.\n", keepConns)
}
