package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/scripts"
	"lockproxy/redlock/single"
)

// pairs measures LOCK + UNLOCK of locks for which nobody waits, against the same
// two scripts sent to the nodes by EVALSHA, as a lock library would at its best:
// a connection has all its locks on one node and knows which.
func pairs(ctx context.Context, y *yard, o options) ([]verdict, error) {
	for _, addr := range y.masters {
		for _, s := range scripts.All() {
			if _, err := ask(ctx, addr, "script", "load", s.Source); err != nil {
				return nil, err
			}
		}
	}
	direct := y.direct
	direct.name = "EVALSHA, direct"
	all := append([]contender{direct}, y.lockproxy[:min(1, len(y.lockproxy))]...)
	shapes := []shape{plain50, {pipelined50.name, pipelined50.connections, pipelined50.pipeline, 4}}
	r := results{}
	for round := range o.rounds {
		for _, s := range shapes {
			progress("round %d of %d: LOCK + UNLOCK %s", round+1, o.rounds, s.name)
			for _, c := range rotated(all, round) {
				got, err := y.paired(ctx, c, s, o)
				if err != nil {
					return nil, fmt.Errorf("%s %s: %w", c.name, s.name, err)
				}
				r.add(s.name, c.name, got)
			}
		}
	}
	printPairs(r, shapes, all)
	if len(y.lockproxy) == 0 {
		return nil, nil
	}
	var verdicts []verdict
	for i, limit := range []float64{0.75, 0.85} {
		what := shapes[i].name
		verdicts = append(verdicts, verdict{
			"LOCK + UNLOCK " + what + ": pairs, against EVALSHA sent directly",
			r.ratio(what, "lockproxy", direct.name, rate), limit, false, "%.3f",
		})
	}
	return verdicts, nil
}

// paired is one measurement of one contender. Its rate is in commands.
func (y *yard) paired(ctx context.Context, c contender, s shape, o options) (sample, error) {
	l := load{pipeline: s.pipeline}
	defer l.close()
	// Names of this run alone: its last LOCKs may be left without an UNLOCK.
	run := rand.Uint32()
	for i := range s.connections {
		prefix := fmt.Sprintf("bench:%08x:%03d:", run, i)
		addr, commands := c.addr, proxyPairs(prefix)
		if c.cluster {
			node := i % nodes
			addr, commands = y.masters[node], scriptPairs(prefix, node)
		}
		if err := l.dial(addr, inTurn(commands, s.pipeline), lockedOrFreed); err != nil {
			return sample{}, err
		}
	}
	batches := int(float64(o.requests)*s.share) / s.pipeline
	before, err := cpuOf(y.masterPIDs)
	if err != nil {
		return sample{}, err
	}
	got, err := metered(ctx, &l, batches, c)
	if err != nil {
		return sample{}, err
	}
	after, err := cpuOf(y.masterPIDs)
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

func (r *recorder) Room() []byte { return nil }

func (r *recorder) SendHome(slot int, req []byte, _ bool, _ redlock.Exchange, _ redlock.Delivery) {
	r.slot, r.req = slot, req
}
func (*recorder) Await(func(func([]byte)), func([]byte) []byte, redlock.Delivery) {}
func (*recorder) Acquired(redlock.Grant, bool, error) []byte                      { return nil }
func (*recorder) Lost()                                                           {}
func (*recorder) Released(redlock.Released, error) []byte                         { return nil }

// sharded is all that a Locker needs to know of its upstream to make requests.
type sharded struct{ single.Upstream }

func (sharded) Sharded() bool { return true }

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
// the reply to a release.
func lockedOrFreed(reply []byte) bool {
	return bytes.HasPrefix(reply, []byte("*4\r\n")) || string(reply) == ":1\r\n" ||
		len(reply) > 16 && reply[0] == ':'
}

func printPairs(r results, shapes []shape, all []contender) {
	t := table{{"", "pairs/s", "of direct", "p50 µs", "p99 µs", "proxy's CPU µs a pair", "Redis's"}}
	for _, s := range shapes {
		for _, c := range all {
			row := []string{
				s.name + ", " + c.name,
				fmt.Sprintf("%.0f", r.median(s.name, c.name, rate)/2),
				fmt.Sprintf("%.2f", r.ratio(s.name, c.name, all[0].name, rate)),
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
	fmt.Fprintf(os.Stdout,
		"\n## LOCK + UNLOCK\n\n%s\n"+
			"Latencies are those of a batch: one command, or eight pairs. Where the cores are busy, the\n"+
			"ratio is that of all CPU spent on a pair, Redis's and this program's included.\n", t)
}
