package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/scripts"
	"lockproxy/redlock/single"
)

// pairing is one way to take and free locks for which nobody waits.
type pairing struct {
	contender
	redis []int // processes of Redis
	// commands of the i-th connection, and where it goes
	commands func(prefix string, i int) (addr string, commands [][]byte)
}

// The names of the pairings.
const (
	scriptsName = "EVALSHA, direct"
	setName     = "SET NX PX + compare-and-delete, direct"
	beforeOne   = "lockproxy, one Redis"
)

// pairs measures LOCK + UNLOCK of locks for which nobody waits, against the same
// two scripts sent to the nodes by EVALSHA, as a lock library would at its best:
// a connection has all its locks on one node and knows which. Before one Redis it does the
// same against what most libraries do: SET NX PX, and a script that compares and deletes.
func pairs(ctx context.Context, y *yard, o options, rep *report) error {
	for _, addr := range y.masters {
		for _, s := range scripts.All() {
			if _, err := ask(ctx, addr, "script", "load", s.Source); err != nil {
				return err
			}
		}
	}
	one, err := y.startOne(ctx)
	if err != nil {
		return err
	}
	all := []pairing{{contender{name: scriptsName}, y.masterPIDs,
		func(prefix string, i int) (string, [][]byte) {
			node := i % nodes
			return y.masters[node], scriptPairs(prefix, node)
		}}}
	if len(y.lockproxy) > 0 {
		all = append(all, throughProxy(y.lockproxy[0], y.masterPIDs))
	}
	all = append(all, one.setPairs())
	var costs lockCosts
	if y.binary != "" {
		all = append(all, throughProxy(one.proxy, []int{one.pid}))
		if costs, err = y.startLockCosts(ctx); err != nil {
			return err
		}
	}
	shapes := []shape{plain50, {pipelined50.name, pipelined50.connections, pipelined50.pipeline, 4}}
	r := results{}
	for round := range o.rounds {
		for _, s := range shapes {
			progress("round %d of %d: LOCK + UNLOCK %s", round+1, o.rounds, s.name)
			for _, w := range rotated(all, round) {
				got, err := w.measure(ctx, s, o)
				if err != nil {
					return fmt.Errorf("%s %s: %w", w.name, s.name, err)
				}
				r.add(s.name, w.name, got)
			}
		}
		if y.binary != "" {
			progress("round %d of %d: what a LOCK costs the proxy", round+1, o.rounds)
			if err := costs.measure(ctx, r, o); err != nil {
				return err
			}
		}
	}
	printPairs(rep, r, shapes, all)
	if y.binary != "" {
		pairTargets(rep, r, shapes)
		printLockCosts(rep, r)
	}
	return nil
}

// pairTargets holds the results against the targets.
func pairTargets(rep *report, r results, shapes []shape) {
	for i, limit := range []float64{0.75, 0.55} {
		what := shapes[i].name
		rep.hold(atLeast(limit, "%.2f", "LOCK + UNLOCK "+what+": pairs a second, against "+setName,
			r.versus(what, beforeOne, setName, rate)))
	}
}

// throughProxy is LOCK and UNLOCK at a lockproxy.
func throughProxy(c contender, redis []int) pairing {
	return pairing{c, redis, func(prefix string, _ int) (string, [][]byte) {
		return c.addr,
			proxyPairs(prefix)
	}}
}

// measure is one measurement. Its rate is in commands.
func (w pairing) measure(ctx context.Context, s shape, o options) (sample, error) {
	l := load{pipeline: s.pipeline}
	defer l.close()
	// Names of this run alone: its last LOCKs may be left without an UNLOCK.
	run := rand.Uint32()
	for i := range s.connections {
		addr, commands := w.commands(fmt.Sprintf("bench:%08x:%03d:", run, i), i)
		if err := l.dial(addr, inTurn(commands, s.pipeline), lockedOrFreed); err != nil {
			return sample{}, err
		}
	}
	batches := int(float64(o.requests)*s.share) / s.pipeline
	before, err := cpuOf(w.redis)
	if err != nil {
		return sample{}, err
	}
	got, err := metered(ctx, &l, batches, w.contender)
	if err != nil {
		return sample{}, err
	}
	after, err := cpuOf(w.redis)
	got.redis = (after - before) / time.Duration(batches*s.pipeline)
	return got, err
}

// lockNames is how many locks a connection uses in turn.
const lockNames = 48

// proxyPairs are the commands of a connection for a proxy: for each of its locks
// a LOCK and an UNLOCK. The locks lie on all nodes.
func proxyPairs(prefix string) (commands [][]byte) {
	token := redlock.NewToken()
	for k := range lockNames {
		name := lockName(prefix, k)
		commands = append(commands,
			command(nil, "LOCK", name, "TOKEN", token, "PX", strconv.FormatInt(lease.Milliseconds(), 10)),
			command(nil, "UNLOCK", name, token))
	}
	return commands
}

func lockName(prefix string, k int) string { return fmt.Sprintf("%s%03d", prefix, k) }

// scriptPairs are the same for a node: its scripts, and locks that lie there.
func scriptPairs(prefix string, node int) (commands [][]byte) {
	l := locks.New(sharded{}, locks.Options{})
	token := redlock.NewToken()
	var names []string
	for k := 0; len(names) < lockNames; k++ {
		name := lockName(prefix, k)
		if slot := lockRequest(l, name, token).slot; slot >= slots*node/nodes && slot < slots*(node+1)/nodes {
			names = append(names, name)
		}
	}
	// Twice each: a request that comes again before another one of its kind counts as
	// sent again.
	for range 2 {
		for _, name := range names {
			commands = append(commands, lockRequest(l, name, token).req, unlockRequest(l, name, token).req)
		}
	}
	return commands
}

// recorder is a client whose requests are noted and not sent.
type recorder struct {
	slot int
	req  []byte
}

// lockRequest is what a Locker asks Redis for a LOCK.
func lockRequest(l *locks.Locker, name, token string) (r recorder) {
	l.Acquire(&r,
		l.NewAcquire(redlock.Acquire{Name: name, Token: token, Mode: redlock.Write, Lease: lease}), &r)
	return r
}

// unlockRequest is what a Locker asks Redis for an UNLOCK.
func unlockRequest(l *locks.Locker, name, token string) (r recorder) {
	l.Release(&r, &redlock.Release{Name: name, Token: token}, &r)
	return r
}

func (r *recorder) Buffer() []byte { return nil }

func (r *recorder) Hold(string) {}

func (r *recorder) SendHome(slot int, req []byte, _ bool, _ redlock.Exchange, _ redlock.Delivery) {
	r.slot, r.req = slot, req
}
func (*recorder) SendWhole(int, []byte, bool, redlock.Exchange)                   {}
func (*recorder) Later(func() []byte, redlock.Delivery) bool                      { return false }
func (*recorder) Await(func(func([]byte)), func([]byte) []byte, redlock.Delivery) {}
func (*recorder) Acquired(redlock.Grant, bool, error) []byte                      { return nil }
func (*recorder) Lost()                                                           {}
func (*recorder) Arrived()                                                        {}
func (*recorder) Released(redlock.Released, error) []byte                         { return nil }

// sharded is all that a Locker needs to know of its upstream to make requests.
type sharded struct{ single.Upstream }

func (sharded) Sharded() bool        { return true }
func (sharded) Parted(int) time.Time { return time.Time{} }
func (sharded) DeleteIf() string     { return "" }
func (sharded) Evicting() bool       { return false }
func (sharded) Evicts(int) error     { return nil }

// inTurn sends the commands in turn, so many at a time. Their number must be a
// multiple of that.
func inTurn(commands [][]byte, pipeline int) source {
	var batches [][]byte
	for ; len(commands) > 0; commands = commands[pipeline:] {
		batches = append(batches, bytes.Join(commands[:pipeline], nil))
	}
	next := 0
	return func(dst []byte) []byte {
		dst = append(dst, batches[next]...)
		next = (next + 1) % len(batches)
		return dst
	}
}

// lockedOrFreed accepts a grant, of LOCK or of its script, which may be the fence alone, and
// the reply to a release; and OK of SET.
func lockedOrFreed(reply []byte) bool {
	return bytes.HasPrefix(reply, []byte("*4\r\n")) || string(reply) == ":1\r\n" ||
		string(reply) == "+OK\r\n" ||
		len(reply) > 16 && reply[0] == ':'
}

func printPairs(rep *report, r results, shapes []shape, all []pairing) {
	t := table{{"", "pairs/s", "of direct", "p50 µs", "p99 µs", "proxy's CPU µs a pair", "Redis's"}}
	for _, s := range shapes {
		direct := ""
		for _, c := range all {
			if c.pid == 0 {
				direct = c.name
			}
			row := []string{
				s.name + ", " + c.name,
				fmt.Sprintf("%.0f", r.median(s.name, c.name, rate)/2),
				fmt.Sprintf("%.2f", r.ratio(s.name, c.name, direct, rate)),
				fmt.Sprintf("%.1f", r.median(s.name, c.name, p50)),
				fmt.Sprintf("%.1f", r.median(s.name, c.name, p99)),
				"",
				fmt.Sprintf("%.2f", 2*r.median(s.name, c.name, redisCPU)),
			}
			if c.pid != 0 {
				row[5] = fmt.Sprintf("%.2f", 2*r.median(s.name, c.name, cpu))
			}
			t = append(t, row)
		}
	}
	rep.printf(
		"\n## LOCK + UNLOCK\n\n%s\n"+
			"Latencies are those of a batch: one command, or eight pairs. Where the cores are busy, the\n"+
			"ratio is that of all CPU spent on a pair, Redis's and this program's included.\n", t)
}
